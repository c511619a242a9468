/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only groups on a device have: tensors that lie elsewhere, memory of the group, the chunks in which tensors pass
 * through host memory, and streams (device_streams.c). That operations give right results there is tested in
 * every other chapter, whose tensors lie on the group's device. On a CPU this chapter has no cases.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/jobs.h"
#include "check/reference/expect.h"
#include "common/device_arena.h"

/* ---- tensors that lie elsewhere ---- */

/* The sentence names the device on which the tensor lies, and that of the group. */
static void expect_refusal(struct tti_check *c, const char *what, tutti_status status, DLDevice lies_on)
{
    char text[24];
    if (!tti_check_status(c, what, status, TUTTI_DEVICE_MISMATCH)) {
        return;
    }
    const DLDevice devices[2] = {lies_on, tti_check_device(c)};
    for (int i = 0; i < 2; i++) {
        tti_device_text(devices[i], text);
        if (!strstr(c->error.message, text)) {
            tti_check_fail(c, "%s: the error names no %s: %s", what, text, c->error.message);
        }
    }
}

/* Every rank's own call is refused, so no rank waits; and the group works on. */
static void refuse(struct tti_check *c, DLTensor *wrong, DLDevice lies_on)
{
    static const struct {
        enum tti_check_kind kind;
        bool two; /* has no in-place form */
        const char *name;
    } kinds[] = {{TTI_CHECK_ALL_REDUCE, false, "all_reduce"},
                 {TTI_CHECK_BROADCAST, false, "broadcast"},
                 {TTI_CHECK_ALL_TO_ALL, true, "all_to_all"},
                 {TTI_CHECK_SEND, false, "send"},
                 {TTI_CHECK_RECV, false, "recv"},
                 {TTI_CHECK_SENDRECV, true, "sendrecv"}};
    struct tti_check_tensor right;
    tti_check_tensor_make(c, &right, TUTTI_F32, 1, wrong->shape, TTI_CHECK_COMPACT);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct tti_check_operation o = {.kind = kinds[i].kind,
                                              .op = TUTTI_SUM,
                                              .input = wrong,
                                              .output = kinds[i].two ? &right.t : wrong,
                                              .destination = c->rank,
                                              .source = c->rank};
        expect_refusal(c, kinds[i].name, tti_check_do(c, &o), lies_on);
    }
    const struct tti_check_operation half = {
        .kind = TTI_CHECK_ALL_REDUCE, .op = TUTTI_SUM, .input = &right.t, .output = wrong};
    expect_refusal(c, "all_reduce into it", tti_check_do(c, &half), lies_on);
    tti_check_tensor_result(c, &right);
    tti_check_tensor_untouched(c, &right, 0, right.count);
    tti_check_tensor_free(&right);
    tti_check_group_works(c);
}

/* Host memory, said to be what it is or, `claims`, to be the device's. */
static void host_memory(struct tti_check *c, bool claims)
{
    const DLDevice host = {kDLCPU, 0};
    const int64_t count = 16 * (int64_t)c->size;
    float *memory = tti_check_memory((size_t)count * sizeof(*memory));
    DLTensor t = tutti_tensor_1d(memory, &count, TUTTI_F32);
    t.device = claims ? tti_check_device(c) : host;
    while (tti_check_next_round(c, 0)) {
        refuse(c, &t, host);
    }
    free(memory);
}

/* Memory of another device of the same kind, said to be what it is. */
static void other_index(struct tti_check *c)
{
    const DLDevice own = tti_check_device(c);
    const int32_t devices = tti_device_arena_driver(c->arena)->count();
    const DLDevice other = {own.device_type, (own.device_id + 1) % devices};
    const int64_t count = 16 * (int64_t)c->size;
    struct tti_device_arena *arena = NULL;
    if (!tti_check_ok(c, "memory of another device",
                      tti_device_arena_open(other, (size_t)1 << 20, c->options->timeout_ms, &arena, &c->error))) {
        return;
    }
    DLTensor t = tutti_tensor_1d(tti_check_device_alloc(arena, (size_t)count * sizeof(float)), &count, TUTTI_F32);
    t.device = other;
    while (tti_check_next_round(c, 0)) {
        refuse(c, &t, other);
    }
    tti_device_arena_close(arena);
}

/* ---- the CPU beside the device ---- */

static void sum_on_the_cpu(struct tti_check *c, tutti_group *group, int64_t *memory, DLDevice device)
{
    enum { COUNT = 5000 };
    const int64_t count = COUNT;
    DLTensor t = tutti_tensor_1d(memory, &count, TUTTI_I64);
    t.device = device;
    for (int64_t i = 0; i < COUNT; i++) {
        memory[i] = i + c->rank;
    }
    tti_check_ok(c, "all_reduce on the CPU",
                 tutti_all_reduce(group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &c->error)));
    const int64_t of_ranks = (int64_t)c->size * (c->size - 1) / 2;
    for (int64_t i = 0; i < COUNT; i++) {
        if (!tti_check_expect_i64(c, "a sum on the CPU", memory[i], i * c->size + of_ranks)) {
            break;
        }
    }
}

/* Host memory that the device copies from is memory of a CPU, too. */
static void pinned(struct tti_check *c, tutti_group *group)
{
    enum { BYTES = 5000 * sizeof(int64_t) };
    const struct tti_device *driver = tti_device_arena_driver(c->arena);
    struct tti_device_scope scope;
    void *memory = NULL;
    if (!tti_check_ok(c, "enter", driver->enter(tti_check_device(c).device_id, &scope, &c->error))) {
        return;
    }
    if (tti_check_ok(c, "alloc_host", driver->alloc_host(BYTES, &memory, &c->error))) {
        sum_on_the_cpu(c, group, memory, (DLDevice){driver->host_type, 0});
        tti_check_ok(c, "free_host", driver->free_host(memory, &c->error));
    }
    driver->leave(&scope);
}

/* A group on the CPU, made from one on a device. */
static void on_the_cpu(struct tti_check *c, bool is_pinned)
{
    tutti_group *group = NULL;
    const tutti_status status =
        tutti_group_split(c->group, 0, c->rank, TUTTI_CONFIG(.backend = "auto", .device = "cpu"), &group, &c->error);
    if (!tti_check_ok(c, "group_split", status)) {
        return;
    }
    tti_check_expect_i64(c, "kind of the group's device", tutti_group_device(group).device_type, kDLCPU);
    if (is_pinned) {
        pinned(c, group);
    } else {
        int64_t *memory = tti_check_memory(5000 * sizeof(*memory));
        sum_on_the_cpu(c, group, memory, (DLDevice){kDLCPU, 0});
        free(memory);
    }
    tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
}

/* Groups made from this one work on the same device. */
static void inherited(struct tti_check *c)
{
    const DLDevice wanted = tti_check_device(c);
    tutti_group *group = NULL;
    if (tti_check_ok(c, "group_split", tutti_group_split(c->group, 0, -c->rank, NULL, &group, &c->error))) {
        const DLDevice device = tutti_group_device(group);
        tti_check_expect_i64(c, "kind of the new group's device", device.device_type, wanted.device_type);
        tti_check_expect_i64(c, "the new group's device", device.device_id, wanted.device_id);
        tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    }
}

/* ---- memory of the group ---- */

static void group_memory(struct tti_check *c, size_t bytes)
{
    const struct tti_device *driver = tti_device_arena_driver(c->arena);
    const DLDevice wanted = tti_check_device(c);
    void *memory = NULL;
    if (!tti_check_ok(c, "alloc", tutti_alloc(c->group, bytes, &memory, &c->error))) {
        return;
    }
    tti_check_expect_i64(c, "there is memory if and only if it has bytes", memory != NULL, bytes > 0);
    if (memory) {
        DLDevice device = {kDLCPU, 0};
        tti_check_ok(c, "lookup", driver->lookup(memory, &device, &c->error));
        tti_check_expect_i64(c, "kind of the device that the memory lies on", device.device_type, wanted.device_type);
        tti_check_expect_i64(c, "the device that the memory lies on", device.device_id, wanted.device_id);
        tti_check_expect_i64(c, "alignment of the memory", (int64_t)((uintptr_t)memory % 64), 0);
        /* the first and the last bytes of it are used */
        const int64_t count = (int64_t)bytes;
        unsigned char *elements = tti_check_memory(bytes);
        tti_check_generate(elements, TUTTI_U8, TTI_CHECK_RAW, tti_check_rank_key(c, c->rank), 0, bytes);
        tti_check_device_copy(c->arena, memory, elements, bytes);
        DLTensor t = tti_check_tensor_over(c, memory, 1, &count, TUTTI_U8);
        const struct tti_check_operation o = {.kind = TTI_CHECK_BROADCAST, .root = c->size - 1, .output = &t};
        tti_check_ok(c, "broadcast", tti_check_do(c, &o));
        tti_check_device_copy(c->arena, elements, memory, bytes);
        tti_check_expect_copy(c, elements, TUTTI_U8, 0, bytes, c->size - 1, TTI_CHECK_RAW, 0);
        free(elements);
    }
    tti_check_ok(c, "free", tutti_free(c->group, memory, &c->error));
}

/* ---- chunks ---- */

/* Every collective, and messages, with tensors around the size of a chunk and of several. */
static void chunks(struct tti_check *c, tutti_group *group, int64_t chunk)
{
    const int64_t bytes[] = {chunk - 4, chunk, chunk + 4, 3 * chunk, 5 * chunk + 12};
    struct tti_check sub = tti_check_sub(c, group, 1);
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        for (size_t k = 0; k < tti_check_collectives_count; k++) {
            const struct tti_check_collective *collective = &tti_check_collectives[k];
            struct tti_check_plan p = tti_check_plan_for(collective, bytes[i] / 4);
            p.root = (int)(i % (size_t)c->size);
            sub.completion = tti_check_random_completion(&sub, i * tti_check_collectives_count + k, 4);
            if (collective->form) {
                tti_check_run(&sub, collective->form, &p);
                p.in_place = (collective->traits & TTI_CHECK_IN_PLACE) != 0;
                p.layout = p.in_place ? TTI_CHECK_COMPACT : TTI_CHECK_STRIDED;
                tti_check_run(&sub, collective->form, &p);
            }
        }
        const struct tti_check_plan message = tti_check_plan_1d(TUTTI_F32, 0, bytes[i] / 4);
        tti_check_run(&sub, &tti_check_ring_form, &message);
    }
    tti_check_merge(c, &sub);
}

static void in_chunks_of(struct tti_check *c, int64_t chunk)
{
    char setting[48];
    const char *const settings[] = {setting, NULL};
    tutti_group *group = NULL;
    snprintf(setting, sizeof(setting), "device.chunk=%lld", (long long)chunk);
    if (tti_check_ok(c, "group_split",
                     tutti_group_split(c->group, 0, c->rank, TUTTI_CONFIG(.settings = settings), &group, &c->error))) {
        chunks(c, group, chunk);
        tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    }
}

/* No elements, with memory and without. */
static void nothing(struct tti_check *c)
{
    for (size_t k = 0; k < tti_check_collectives_count; k++) {
        const struct tti_check_collective *collective = &tti_check_collectives[k];
        struct tti_check_plan p = tti_check_plan_for(collective, 0);
        for (int i = 0; collective->form && i < 2; i++) {
            p.layout = i == 0 ? TTI_CHECK_COMPACT : TTI_CHECK_UNALIGNED;
            tti_check_run(c, collective->form, &p);
        }
    }
}

/* ---- the chapter ---- */

static void elsewhere(struct tti_check *c)
{
    TTI_CHECK_CASE(c, "elsewhere/host") {
        host_memory(c, false);
    }
    TTI_CHECK_CASE(c, "elsewhere/host-that-claims-to-be-the-device") {
        host_memory(c, true);
    }
    TTI_CHECK_CASE(c, "elsewhere/other-index") {
        tti_device_arena_driver(c->arena)->count() > 1 ? other_index(c) : tti_check_skip(c);
    }
    TTI_CHECK_CASE(c, "cpu-beside-it/own") {
        on_the_cpu(c, false);
    }
    TTI_CHECK_CASE(c, "cpu-beside-it/pinned") {
        on_the_cpu(c, true);
    }
    TTI_CHECK_CASE(c, "inherited") {
        inherited(c);
    }
}

void tti_check_device_cases(struct tti_check *c)
{
    static const int64_t sizes[] = {0, 1, 4096, 3000001};
    const char *device = c->options->device;
    const bool listed = c->options->list && device && strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0;
    if (!c->arena && !listed) {
        return;
    }
    elsewhere(c);
    tti_check_device_stream_cases(c);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        TTI_CHECK_CASE(c, "memory/%lld", (long long)sizes[i]) {
            group_memory(c, (size_t)sizes[i]);
        }
    }
    for (int64_t chunk = 4096; chunk <= (c->quick ? 4096 : 1 << 18); chunk *= 64) {
        TTI_CHECK_CASE(c, "chunks/%lld", (long long)chunk) {
            in_chunks_of(c, chunk);
        }
    }
    TTI_CHECK_ROUNDS(c, 0, "nothing") {
        nothing(c);
    }
}
