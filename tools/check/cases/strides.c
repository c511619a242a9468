/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs whose indices share elements, inputs that run backwards, and outputs that are refused for overlapping
 * themselves.
 *
 * What an operation gives for such an input is what it gives for a compact copy, so each operation runs twice and the
 * results are compared bit by bit; other chapters check the compact one. Elements are integers, whose
 * reduction has one result on every backend. Outputs run backwards and have gaps.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/operation/jobs.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

#define DTYPE TUTTI_I32

struct subject {
    const char *name;
    enum tti_check_kind kind;
    tutti_reduce_op op;
    bool joined_in;  /* the input holds a part for each rank ... */
    bool joined_out; /* the output does */
    bool rooted;
    bool counts;
};

static const struct subject subjects[] = {
    {"all_reduce", TTI_CHECK_ALL_REDUCE, TUTTI_SUM, false, false, false, false},
    {"premul_sum", TTI_CHECK_ALL_REDUCE, TUTTI_PREMUL_SUM, false, false, false, false},
    {"reduce", TTI_CHECK_REDUCE, TUTTI_MAX, false, false, true, false},
    {"broadcast", TTI_CHECK_BROADCAST, 0, false, false, true, false},
    {"all_gather", TTI_CHECK_ALL_GATHER, 0, false, true, false, false},
    {"all_gather_v", TTI_CHECK_ALL_GATHER_V, 0, false, true, false, true},
    {"gather", TTI_CHECK_GATHER, 0, false, true, true, false},
    {"scatter", TTI_CHECK_SCATTER, 0, true, false, true, false},
    {"reduce_scatter", TTI_CHECK_REDUCE_SCATTER, TUTTI_SUM, true, false, false, false},
    {"reduce_scatter_v", TTI_CHECK_REDUCE_SCATTER_V, TUTTI_SUM, true, false, false, true},
    {"all_to_all", TTI_CHECK_ALL_TO_ALL, 0, true, true, false, false},
    {"all_to_all_v", TTI_CHECK_ALL_TO_ALL_V, 0, true, true, false, true},
    {"send", TTI_CHECK_SEND, 0, false, false, false, false},
    {"sendrecv", TTI_CHECK_SENDRECV, 0, false, false, false, false},
    {"batch", TTI_CHECK_BATCH_END, 0, false, false, false, false},
};

enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

static const int64_t part_shape[3] = {3, 4, 5};

static bool has_dim(const struct subject *s)
{
    return s->joined_in || s->joined_out;
}

static void shape_of(const struct tti_check *c, bool joined, int dim, int64_t shape[3])
{
    memcpy(shape, part_shape, sizeof(part_shape));
    if (joined) {
        shape[dim] *= c->size;
    }
}

static int root_of(const struct tti_check *c)
{
    return c->size / 2;
}

static bool writes(const struct tti_check *c, const struct subject *s)
{
    if (s->kind == TTI_CHECK_BROADCAST) {
        return c->rank != root_of(c);
    }
    return !s->rooted || s->kind == TTI_CHECK_SCATTER || c->rank == root_of(c);
}

/* Sends `input` to the next rank and receives `output` from the one before, by two calls or in a batch. */
static tutti_status pass_on(struct tti_check *c, const struct subject *s, const DLTensor *input, DLTensor *output)
{
    const int next = tti_check_next(c);
    const int previous = tti_check_previous(c);
    if (s->kind == TTI_CHECK_SENDRECV || c->size == 1) {
        return tti_check_sendrecv(c, input, next, output, previous, 5, NULL);
    }
    if (s->kind == TTI_CHECK_SEND) { /* even ranks first, so that no rank needs buffers */
        const bool first = c->rank % 2 == 0;
        tutti_status status = first ? tti_check_send(c, input, next, 5) : TUTTI_OK;
        if (status == TUTTI_OK) {
            status = tti_check_recv(c, output, previous, 5, NULL);
        }
        return status == TUTTI_OK && !first ? tti_check_send(c, input, next, 5) : status;
    }
    tti_check_ok(c, "batch_begin", tutti_batch_begin(c->group, &c->error));
    tti_check_ok(c, "send in a batch", tutti_send(c->group, input, next, 5, TUTTI_CALL(.error = &c->error)));
    tti_check_ok(c, "recv in a batch", tutti_recv(c->group, output, previous, 5, TUTTI_CALL(.error = &c->error), NULL));
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_BATCH_END});
}

/* As many rows for each rank; the caller frees the list. */
static int64_t *counts_of(const struct tti_check *c, int dim)
{
    int64_t *counts = tti_check_memory((size_t)c->size * sizeof(int64_t));
    for (int r = 0; r < c->size; r++) {
        counts[r] = part_shape[dim];
    }
    return counts;
}

static tutti_status call(struct tti_check *c, const struct subject *s, int dim, DLTensor *input, DLTensor *output)
{
    if (tti_check_is_message(s->kind)) {
        return pass_on(c, s, input, output);
    }
    int64_t *counts = counts_of(c, dim);
    const bool is_source = s->kind == TTI_CHECK_BROADCAST && c->rank == root_of(c);
    const tutti_status status = tti_check_do(
        c, &(struct tti_check_operation){.kind = s->kind,
                                         .op = s->op,
                                         /* some ranks count from the end: it is the same dimension */
                                         .dim = has_dim(s) && c->rank % 2 == 1 ? dim - 3 : dim,
                                         .root = root_of(c),
                                         .input = input,
                                         .output = is_source ? input : output,
                                         .counts = s->counts ? counts : NULL,
                                         .recv_counts = s->counts ? counts : NULL,
                                         .scale = s->op == TUTTI_PREMUL_SUM ? tti_check_scale(c->rank, DTYPE) : 0});
    free(counts);
    return status;
}

/* The library says the same of the output's shape; whatever the strides are. */
static void expect_shape(struct tti_check *c, const struct subject *s, int dim, const DLTensor *input,
                         const int64_t wanted[3])
{
    int64_t shape[TUTTI_MAX_NDIM] = {0};
    int32_t ndim = 0;
    int64_t *counts = counts_of(c, dim);
    tutti_status status;
    switch (s->kind) {
    case TTI_CHECK_ALL_GATHER:
    case TTI_CHECK_GATHER:
        status = tutti_all_gather_shape(c->group, input, dim - 3, shape, &ndim, &c->error);
        break;
    case TTI_CHECK_REDUCE_SCATTER:
    case TTI_CHECK_SCATTER:
        status = tutti_reduce_scatter_shape(c->group, input, dim, shape, &ndim, &c->error);
        break;
    case TTI_CHECK_ALL_TO_ALL:
        status = tutti_all_to_all_shape(c->group, input, dim - 3, shape, &ndim, &c->error);
        break;
    case TTI_CHECK_ALL_GATHER_V:
        status = tutti_all_gather_v_shape(c->group, input, dim, counts, shape, &ndim, &c->error);
        break;
    case TTI_CHECK_REDUCE_SCATTER_V:
        status = tutti_reduce_scatter_v_shape(c->group, input, dim - 3, counts, shape, &ndim, &c->error);
        break;
    default:
        status = tutti_all_to_all_v_shape(c->group, input, dim, counts, shape, &ndim, &c->error);
        break;
    }
    free(counts);
    if (tti_check_ok(c, "the shape of the output", status) &&
        tti_check_expect_i64(c, "dimensions of the output", ndim, 3)) {
        for (int d = 0; d < 3; d++) {
            tti_check_expect_i64(c, "length of the output", shape[d], wanted[d]);
        }
    }
}

/* The result for an input of this layout is that for a compact copy of it. */
static void compare(struct tti_check *c, const struct subject *s, enum tti_check_layout layout, int dim)
{
    int64_t in_shape[3];
    int64_t out_shape[3];
    struct tti_check_tensor input;
    struct tti_check_tensor copy;
    struct tti_check_tensor output;
    struct tti_check_tensor wanted;
    shape_of(c, s->joined_in, dim, in_shape);
    shape_of(c, s->joined_out, dim, out_shape);
    tti_check_tensor_make(c, &input, DTYPE, 3, in_shape, layout);
    tti_check_tensor_make(c, &copy, DTYPE, 3, in_shape, TTI_CHECK_COMPACT);
    tti_check_tensor_make(c, &output, DTYPE, 3, out_shape, TTI_CHECK_FLIPPED);
    tti_check_tensor_make(c, &wanted, DTYPE, 3, out_shape, TTI_CHECK_COMPACT);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, TTI_CHECK_RAW, 0);
    tti_check_tensor_take(&copy, &input);
    tti_check_tensor_seal(&input);
    if (has_dim(s)) {
        expect_shape(c, s, dim, &input.t, out_shape);
    }
    const bool ok = tti_check_ok(c, s->name, call(c, s, dim, &input.t, &output.t));
    if (tti_check_ok(c, s->name, call(c, s, dim, &copy.t, &wanted.t)) && ok && writes(c, s)) {
        const unsigned char *got = tti_check_tensor_result(c, &output);
        const bool same = memcmp(got, tti_check_tensor_result(c, &wanted), output.count * output.item) == 0;
        tti_check_expect_i64(c, "the result is that for a compact copy of the input", same, 1);
    }
    tti_check_tensor_unchanged(c, &input, "the input");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&copy);
    tti_check_tensor_free(&output);
    tti_check_tensor_free(&wanted);
}

static void inputs(struct tti_check *c, const struct subject *s)
{
    static const struct {
        enum tti_check_layout layout;
        const char *name;
    } layouts[] = {{TTI_CHECK_BACKWARDS, "backwards"},
                   {TTI_CHECK_FLIPPED, "flipped"},
                   {TTI_CHECK_EXPANDED, "expanded"},
                   {TTI_CHECK_SINGLE, "single"},
                   {TTI_CHECK_WINDOWS, "windows"}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        for (int dim = 0; dim < (has_dim(s) ? 3 : 1); dim++) {
            TTI_CHECK_ROUNDS(c, 0, "inputs/%s/%s/dim%d", s->name, layouts[i].name, dim) {
                compare(c, s, layouts[i].layout, dim);
            }
        }
    }
}

/* Only ranks that write call it: nothing is sent, so no rank waits for another. */
static void refuse(struct tti_check *c, const struct subject *s, enum tti_check_layout layout)
{
    int64_t in_shape[3];
    int64_t out_shape[3];
    struct tti_check_tensor input;
    struct tti_check_tensor output;
    shape_of(c, s->joined_in, 0, in_shape);
    shape_of(c, s->joined_out, 0, out_shape);
    tti_check_tensor_make(c, &input, DTYPE, 3, in_shape, TTI_CHECK_COMPACT);
    tti_check_tensor_make(c, &output, DTYPE, 3, out_shape, layout);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, TTI_CHECK_RAW, 0);
    tti_check_tensor_seal(&output);
    const bool alone = s->kind == TTI_CHECK_SEND || s->kind == TTI_CHECK_BATCH_END;
    const bool in_batch = s->kind == TTI_CHECK_BATCH_END;
    if (in_batch) {
        tti_check_ok(c, "batch_begin", tutti_batch_begin(c->group, &c->error));
    }
    const tutti_status status = in_batch ? tutti_recv(c->group, &output.t, 0, 5, TUTTI_CALL(.error = &c->error), NULL)
                                : alone  ? tti_check_recv(c, &output.t, 0, 5, NULL)
                                         : call(c, s, 0, &input.t, &output.t);
    if (tti_check_status(c, s->name, status, TUTTI_INVALID_ARGUMENT)) {
        tti_check_expect_i64(c, "the error says that the tensor overlaps itself",
                             strstr(c->error.message, "overlaps itself") != NULL, 1);
    }
    if (in_batch) {
        tti_check_ok(c, "batch_end of an empty batch", tutti_batch_end(c->group, TUTTI_CALL(.error = &c->error)));
    }
    tti_check_tensor_unchanged(c, &output, "the refused output");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
}

static void outputs(struct tti_check *c, const struct subject *s)
{
    static const enum tti_check_layout layouts[] = {TTI_CHECK_EXPANDED, TTI_CHECK_SINGLE, TTI_CHECK_WINDOWS};
    TTI_CHECK_ROUNDS(c, 0, "refused/%s", s->name) {
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]) && writes(c, s); i++) {
            refuse(c, s, layouts[i]);
        }
        tti_check_group_works(c);
    }
}

void tti_check_strides_cases(struct tti_check *c)
{
    for (int i = 0; i < SUBJECTS; i++) {
        inputs(c, &subjects[i]);
    }
    for (int i = 0; i < SUBJECTS; i++) {
        outputs(c, &subjects[i]);
    }
}
