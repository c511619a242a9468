/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory where the group under test wants it. What cannot be had or copied ends the program: nothing could be said
 * then. */
#include "check/data/device_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/data/data.h"
#include "common/device_arena.h"

static void end_unless(tutti_status status, const char *doing, const tutti_error *error)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti check: %s: %s\n", doing, error->message);
        exit(1);
    }
}

DLDevice tti_check_device(const struct tti_check *c)
{
    return c->arena ? tti_device_arena_device(c->arena) : (DLDevice){kDLCPU, 0};
}

void *tti_check_device_alloc(struct tti_device_arena *arena, size_t bytes)
{
    tutti_error error;
    void *memory = NULL;
    end_unless(tti_device_arena_alloc(arena, bytes, &memory, &error), "memory of the device", &error);
    return memory;
}

void tti_check_device_copy(struct tti_device_arena *arena, void *dst, const void *src, size_t bytes)
{
    tutti_error error;
    end_unless(tti_device_arena_copy(arena, dst, src, bytes, &error), "copying test data", &error);
}

DLTensor tti_check_tensor_over(const struct tti_check *c, void *memory, int ndim, const int64_t *shape,
                               tutti_dtype dtype)
{
    DLTensor t = tutti_tensor_nd(memory, ndim, shape, dtype);
    t.device = tti_check_device(c);
    return t;
}

unsigned char *tti_check_tensor_fetch(const struct tti_check *c, const DLTensor *t, size_t bytes)
{
    unsigned char *copy = tti_check_memory(bytes);
    const unsigned char *data = (const unsigned char *)t->data + t->byte_offset;
    if (c->arena) {
        tti_check_device_copy(c->arena, copy, data, bytes);
    } else if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

void tti_check_values_begin(const struct tti_check *c, struct tti_check_values *w, int64_t *values, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(*values);
    void *memory = values;
    *w = (struct tti_check_values){.count = count, .values = values, .arena = c->arena};
    if (c->arena) {
        memory = tti_check_device_alloc(c->arena, bytes);
        tti_check_device_copy(c->arena, memory, values, bytes);
    }
    w->t = tti_check_tensor_over(c, memory, 1, &w->count, TUTTI_I64);
}

void tti_check_values_end(struct tti_check_values *w)
{
    const size_t bytes = (size_t)w->count * sizeof(*w->values);
    if (w->arena) {
        tti_check_device_copy(w->arena, w->values, w->t.data, bytes);
        tti_device_arena_free(w->arena, w->t.data, bytes);
    }
}
