/* SPDX-License-Identifier: BSD-3-Clause */
/* An all_reduce of f32 on a wire, made of operations that any engine has: see wire_all_reduce.c. */
#ifndef TTI_BACKENDS_WIRE_ALL_REDUCE_H
#define TTI_BACKENDS_WIRE_ALL_REDUCE_H

#include <stdbool.h>
#include <tutti/backend.h>

/* Elements of one tti_wire_all_reduce at most; callers cut longer tensors. */
#define TTI_WIRE_MOST ((size_t)1 << 19)

/* The ranks, and how to run an operation on their engine. */
struct tti_wire_engine {
    int32_t rank;
    int32_t size;
    tutti_status (*run)(void *self, tutti_op *op, tutti_error *error);
    void *self;
};

/* Whether the backend has the operations that op->wire needs. */
bool tti_wire_can(const tutti_backend *backend, void *state, const tutti_op *op);

/* Bytes of memory for an all_reduce of up to `count` elements, aligned like a pointer. */
size_t tti_wire_memory(tutti_wire wire, int32_t size, size_t count);

/*
 * The all_reduce `op` of at most TTI_WIRE_MOST elements: packs op->src into `memory`, reduces there, unpacks into
 * op->dst. If op->failed, it touches neither memory nor tensors. op->sequence becomes that of the last operation.
 */
tutti_status tti_wire_all_reduce(const struct tti_wire_engine *engine, tutti_op *op, unsigned char *memory,
                                 tutti_error *error);

#endif
