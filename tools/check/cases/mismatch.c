/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that call different things, where the backend promises to notice. In calls where every rank waits for all, every rank
 * gets MISMATCH. In rooted calls a rank that waits for one that called something else gets it at once, any other one at
 * once or from the barrier behind, and each exactly once; with TUTTI_CHECK_CALLS=on all get it at once. The group works on in
 * any case: proved by reductions that are compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "check/cases/cases.h"
#include "check/check.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/calls.h"
#include "check/operation/completion.h"
#include "check/operation/jobs.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"
#include "common/arena.h"

/* The tensors of a variant: more room than any of them needs. */
struct room {
    unsigned char *input;
    unsigned char *output;
    int64_t n; /* elements of a tensor; a multiple of the group's size */
};

/* One call; `odd` on the rank that deviates. */
typedef tutti_status (*variant_function)(struct tti_check *c, const struct room *room, bool odd);

static tutti_status all_reduce_as(struct tti_check *c, const struct room *room, int64_t n, tutti_dtype dtype,
                                  tutti_reduce_op op, uint32_t tag)
{
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &n, dtype);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &n, dtype);
    return tti_check_do(
        c, &(struct tti_check_operation){
               .kind = TTI_CHECK_ALL_REDUCE, .op = op, .input = &input, .output = &output, .user_tag = tag});
}

static tutti_status plain(struct tti_check *c, const struct room *room)
{
    return all_reduce_as(c, room, room->n, TUTTI_F32, TUTTI_SUM, 0);
}

static tutti_status other_dtype(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, room->n, odd ? TUTTI_I32 : TUTTI_F32, TUTTI_SUM, 0);
}

static tutti_status other_op(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, room->n, TUTTI_F32, odd ? TUTTI_MAX : TUTTI_SUM, 0);
}

static tutti_status other_count(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, odd ? room->n + 1 : room->n, TUTTI_F32, TUTTI_SUM, 0);
}

static tutti_status nothing(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, odd ? 0 : room->n, TUTTI_F32, TUTTI_SUM, 0);
}

static tutti_status other_class(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, odd ? 200003 : room->n, TUTTI_F32, TUTTI_SUM, 0);
}

static tutti_status other_tag(struct tti_check *c, const struct room *room, bool odd)
{
    return all_reduce_as(c, room, room->n, TUTTI_F32, TUTTI_SUM, odd ? 7 : 8);
}

static tutti_status barrier_instead(struct tti_check *c, const struct room *room, bool odd)
{
    return odd ? tti_check_barrier(c) : plain(c, room);
}

static tutti_status reduce_scatter_instead(struct tti_check *c, const struct room *room, bool odd)
{
    if (!odd) {
        return plain(c, room);
    }
    const int64_t part = room->n / c->size;
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &part, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_REDUCE_SCATTER, .op = TUTTI_SUM, .input = &input, .output = &output});
}

static tutti_status gather_along(struct tti_check *c, const struct room *room, int64_t rows, int64_t columns, int dim)
{
    const int64_t shape[2] = {rows, columns};
    const int64_t joined[2] = {dim == 0 ? rows * c->size : rows, dim == 1 ? columns * c->size : columns};
    const DLTensor input = tti_check_tensor_over(c, room->input, 2, shape, TUTTI_F32);
    DLTensor output = tti_check_tensor_over(c, room->output, 2, joined, TUTTI_F32);
    return tti_check_do(
        c, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_GATHER, .dim = dim, .input = &input, .output = &output});
}

static tutti_status all_gather_instead(struct tti_check *c, const struct room *room, bool odd)
{
    return odd ? gather_along(c, room, 1, room->n, 0) : plain(c, room);
}

static tutti_status all_gather_other_dimension(struct tti_check *c, const struct room *room, bool odd)
{
    return gather_along(c, room, 2, room->n, odd ? 1 : 0);
}

static tutti_status all_gather_other_count(struct tti_check *c, const struct room *room, bool odd)
{
    return gather_along(c, room, odd ? 3 : 2, room->n, 0);
}

static tutti_status all_to_all_other_dtype(struct tti_check *c, const struct room *room, bool odd)
{
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &room->n, odd ? TUTTI_U32 : TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &room->n, odd ? TUTTI_U32 : TUTTI_F32);
    return tti_check_do(
        c, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_TO_ALL, .input = &input, .output = &output});
}

/* The deviating rank expects one row more from every rank. */
static tutti_status all_gather_v_other_counts(struct tti_check *c, const struct room *room, bool odd)
{
    int64_t *counts = tti_check_memory((size_t)c->size * sizeof(int64_t));
    const int64_t rows = odd ? room->n + 1 : room->n;
    const int64_t joined = rows * c->size;
    for (int r = 0; r < c->size; r++) {
        counts[r] = rows;
    }
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &rows, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &joined, TUTTI_F32);
    const tutti_status status =
        tti_check_do(c, &(struct tti_check_operation){
                            .kind = TTI_CHECK_ALL_GATHER_V, .input = &input, .output = &output, .counts = counts});
    free(counts);
    return status;
}

/* The deviating rank sends one row more to every rank than they expect. */
static tutti_status all_to_all_v_other_counts(struct tti_check *c, const struct room *room, bool odd)
{
    int64_t *sent = tti_check_memory((size_t)c->size * sizeof(int64_t));
    int64_t *received = tti_check_memory((size_t)c->size * sizeof(int64_t));
    const int64_t each = room->n / c->size;
    int64_t rows = 0;
    for (int r = 0; r < c->size; r++) {
        received[r] = each;
        sent[r] = odd && r != c->rank ? each + 1 : each;
        rows += sent[r];
    }
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &rows, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &room->n, TUTTI_F32);
    const tutti_status status = tti_check_do(
        c,
        &(struct tti_check_operation){
            .kind = TTI_CHECK_ALL_TO_ALL_V, .input = &input, .output = &output, .counts = sent, .received = received});
    free(sent);
    free(received);
    return status;
}

static tutti_status broadcast_from(struct tti_check *c, const struct room *room, int root, int64_t n)
{
    DLTensor x = tti_check_tensor_over_1d(c, room->input, &n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_BROADCAST, .root = root, .output = &x});
}

static tutti_status broadcast_other_root(struct tti_check *c, const struct room *room, bool odd)
{
    return broadcast_from(c, room, odd ? 1 : 0, room->n);
}

static tutti_status broadcast_other_count(struct tti_check *c, const struct room *room, bool odd)
{
    return broadcast_from(c, room, 0, odd ? room->n - 1 : room->n);
}

static tutti_status reduce_to(struct tti_check *c, const struct room *room, int root, tutti_reduce_op op)
{
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_REDUCE, .op = op, .root = root, .input = &input, .output = &output});
}

static tutti_status reduce_other_root(struct tti_check *c, const struct room *room, bool odd)
{
    return reduce_to(c, room, odd ? 1 : 0, TUTTI_SUM);
}

static tutti_status reduce_other_op(struct tti_check *c, const struct room *room, bool odd)
{
    return reduce_to(c, room, 0, odd ? TUTTI_MIN : TUTTI_SUM);
}

static tutti_status gather_other_root(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t part = room->n / c->size;
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &part, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_GATHER, .root = odd ? 1 : 0, .input = &input, .output = &output});
}

/* Two rows of half a part each: as many elements along either dimension. */
static tutti_status gather_other_dimension(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t half = room->n / c->size / 2;
    const int64_t shape[2] = {2, half};
    const int64_t joined[2] = {odd ? 2 : 2 * c->size, odd ? half * c->size : half};
    const DLTensor input = tti_check_tensor_over(c, room->input, 2, shape, TUTTI_F32);
    DLTensor output = tti_check_tensor_over(c, room->output, 2, joined, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_GATHER, .dim = odd ? 1 : 0, .input = &input, .output = &output});
}

static tutti_status scatter_other_dimension(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t half = room->n / c->size / 2;
    const int64_t shape[2] = {2, half};
    const int64_t joined[2] = {odd ? 2 : 2 * c->size, odd ? half * c->size : half};
    const DLTensor input = tti_check_tensor_over(c, room->input, 2, joined, TUTTI_F32);
    DLTensor output = tti_check_tensor_over(c, room->output, 2, shape, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_SCATTER, .dim = odd ? 1 : 0, .input = &input, .output = &output});
}

static tutti_status scatter_other_root(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t part = room->n / c->size;
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &part, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_SCATTER, .root = odd ? 1 : 0, .input = &input, .output = &output});
}

static tutti_status barrier_instead_of_broadcast(struct tti_check *c, const struct room *room, bool odd)
{
    return odd ? tti_check_barrier(c) : broadcast_from(c, room, 0, room->n);
}

/* One rank alone wants to be able to cancel. */
static tutti_status broadcast_other_flag(struct tti_check *c, const struct room *room, bool odd)
{
    DLTensor x = tti_check_tensor_over_1d(c, room->input, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_BROADCAST, .output = &x, .flags = odd ? TUTTI_CANCELLABLE : 0});
}

static tutti_status reduce_other_flag(struct tti_check *c, const struct room *room, bool odd)
{
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_REDUCE,
                                                         .op = TUTTI_SUM,
                                                         .input = &input,
                                                         .output = &output,
                                                         .flags = odd ? 0 : TUTTI_CANCELLABLE});
}

/* As many elements in another shape: a tensor that one rank has transposed. */
struct shaped {
    enum tti_check_kind kind;
    bool joins;      /* the output is the joined tensor, along dimension 0 */
    bool cuts;       /* the input is */
    bool has_counts; /* of equal parts */
};

static tutti_status other_shape(struct tti_check *c, const struct room *room, bool odd, struct shaped s)
{
    const int64_t part[2] = {odd ? room->n : 2, odd ? 2 : room->n};
    const int64_t joined[2] = {part[0] * c->size, part[1]};
    const DLTensor input = tti_check_tensor_over(c, room->input, 2, s.cuts ? joined : part, TUTTI_F32);
    DLTensor output = tti_check_tensor_over(c, room->output, 2, s.joins ? joined : part, TUTTI_F32);
    int64_t *counts = tti_check_memory((size_t)c->size * sizeof(int64_t));
    for (int r = 0; r < c->size; r++) {
        counts[r] = part[0];
    }
    const tutti_status status =
        tti_check_do(c, &(struct tti_check_operation){.kind = s.kind,
                                                      .op = TUTTI_SUM,
                                                      .input = &input,
                                                      .output = &output,
                                                      .counts = s.has_counts ? counts : NULL,
                                                      .received = s.has_counts ? counts : NULL});
    free(counts);
    return status;
}

#define SHAPED(name, ...)                                                                                              \
    static tutti_status name##_other_shape(struct tti_check *c, const struct room *room, bool odd)                     \
    {                                                                                                                  \
        return other_shape(c, room, odd, (struct shaped){__VA_ARGS__});                                                \
    }
SHAPED(all_reduce, .kind = TTI_CHECK_ALL_REDUCE)
SHAPED(all_gather, .kind = TTI_CHECK_ALL_GATHER, .joins = true)
SHAPED(reduce_scatter, .kind = TTI_CHECK_REDUCE_SCATTER, .cuts = true)
SHAPED(all_to_all, .kind = TTI_CHECK_ALL_TO_ALL, .cuts = true, .joins = true)
SHAPED(all_gather_v, .kind = TTI_CHECK_ALL_GATHER_V, .joins = true, .has_counts = true)
SHAPED(reduce_scatter_v, .kind = TTI_CHECK_REDUCE_SCATTER_V, .cuts = true, .has_counts = true)
SHAPED(all_to_all_v, .kind = TTI_CHECK_ALL_TO_ALL_V, .cuts = true, .joins = true, .has_counts = true)
SHAPED(broadcast, .kind = TTI_CHECK_BROADCAST)
SHAPED(reduce, .kind = TTI_CHECK_REDUCE)
SHAPED(gather, .kind = TTI_CHECK_GATHER, .joins = true)
SHAPED(scatter, .kind = TTI_CHECK_SCATTER, .cuts = true)

/* Every rank names itself as the root: no rank waits in a broadcast, all wait in a reduce. */
static tutti_status broadcast_all_roots(struct tti_check *c, const struct room *room, bool odd)
{
    (void)odd;
    return broadcast_from(c, room, c->rank, room->n);
}

static tutti_status reduce_all_roots(struct tti_check *c, const struct room *room, bool odd)
{
    (void)odd;
    return reduce_to(c, room, c->rank, TUTTI_SUM);
}

static tutti_status reduce_instead_of_broadcast(struct tti_check *c, const struct room *room, bool odd)
{
    return odd ? reduce_to(c, room, 0, TUTTI_SUM) : broadcast_from(c, room, 0, room->n);
}

static tutti_status gather_other_count(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t part = odd ? room->n + 1 : room->n;
    const int64_t joined = part * c->size;
    const DLTensor input = tti_check_tensor_over_1d(c, room->input, &part, TUTTI_F32);
    DLTensor output = tti_check_tensor_over_1d(c, room->output, &joined, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_GATHER, .input = &input, .output = &output});
}

/* Whom a rank waits for that calls what the variant says, before it can return. */
enum direction { FROM_ROOT, TO_ROOT, UNKNOWN };

struct variant {
    const char *name;
    variant_function call;
    /* rooted ones */
    enum direction direction;
    bool other_root;   /* the deviating rank's is 1, else all have 0 */
    bool waits_itself; /* the deviating rank calls something in which it waits for all */
};

static const struct variant waiting[] = {
    {.name = "all_reduce/dtype", .call = other_dtype},
    {.name = "all_reduce/op", .call = other_op},
    {.name = "all_reduce/count", .call = other_count},
    {.name = "all_reduce/nothing", .call = nothing},
    {.name = "all_reduce/large", .call = other_class},
    {.name = "all_reduce/tag", .call = other_tag},
    {.name = "all_reduce/barrier", .call = barrier_instead},
    {.name = "all_reduce/reduce_scatter", .call = reduce_scatter_instead},
    {.name = "all_reduce/all_gather", .call = all_gather_instead},
    {.name = "all_gather/dimension", .call = all_gather_other_dimension},
    {.name = "all_gather/count", .call = all_gather_other_count},
    {.name = "all_gather_v/counts", .call = all_gather_v_other_counts},
    {.name = "all_to_all/dtype", .call = all_to_all_other_dtype},
    {.name = "all_to_all_v/counts", .call = all_to_all_v_other_counts},
    {.name = "all_reduce/shape", .call = all_reduce_other_shape},
    {.name = "all_gather/shape", .call = all_gather_other_shape},
    {.name = "reduce_scatter/shape", .call = reduce_scatter_other_shape},
    {.name = "all_to_all/shape", .call = all_to_all_other_shape},
    {.name = "all_gather_v/shape", .call = all_gather_v_other_shape},
    {.name = "reduce_scatter_v/shape", .call = reduce_scatter_v_other_shape},
    {.name = "all_to_all_v/shape", .call = all_to_all_v_other_shape},
};

static const struct variant rooted[] = {
    {.name = "broadcast/root", .call = broadcast_other_root, .direction = FROM_ROOT, .other_root = true},
    {.name = "broadcast/count", .call = broadcast_other_count, .direction = FROM_ROOT},
    {.name = "broadcast/shape", .call = broadcast_other_shape, .direction = FROM_ROOT},
    {.name = "broadcast/barrier", .call = barrier_instead_of_broadcast, .direction = FROM_ROOT, .waits_itself = true},
    {.name = "broadcast/reduce", .call = reduce_instead_of_broadcast, .direction = UNKNOWN},
    {.name = "broadcast/roots", .call = broadcast_all_roots, .direction = UNKNOWN},
    {.name = "reduce/root", .call = reduce_other_root, .direction = TO_ROOT, .other_root = true},
    {.name = "reduce/op", .call = reduce_other_op, .direction = TO_ROOT},
    {.name = "reduce/shape", .call = reduce_other_shape, .direction = TO_ROOT},
    {.name = "reduce/roots", .call = reduce_all_roots, .direction = UNKNOWN},
    {.name = "gather/root", .call = gather_other_root, .direction = TO_ROOT, .other_root = true},
    {.name = "gather/count", .call = gather_other_count, .direction = TO_ROOT},
    {.name = "gather/dimension", .call = gather_other_dimension, .direction = TO_ROOT},
    {.name = "gather/shape", .call = gather_other_shape, .direction = TO_ROOT},
    {.name = "scatter/root", .call = scatter_other_root, .direction = FROM_ROOT, .other_root = true},
    {.name = "scatter/dimension", .call = scatter_other_dimension, .direction = FROM_ROOT},
    {.name = "scatter/shape", .call = scatter_other_shape, .direction = FROM_ROOT},
};

static const struct variant flagged[] = {
    {.name = "broadcast/flag", .call = broadcast_other_flag, .direction = UNKNOWN},
    {.name = "reduce/flag", .call = reduce_other_flag, .direction = UNKNOWN},
};

/* Every rank gets MISMATCH, and the group works on. */
static void all_notice(struct tti_check *c, const struct room *room, const struct variant *v, int deviant)
{
    tti_check_status(c, "the call", v->call(c, room, c->rank == deviant), TUTTI_MISMATCH);
    if (!c->failed) {
        tti_check_expect_i64(c, "rank in the error", c->error.rank, c->rank);
        tti_check_expect_i64(c, "the error has a sentence", c->error.message[0] != '\0', 1);
    }
    tti_check_group_works(c);
}

static bool all_notified_at_once(void)
{
    const char *setting = getenv("TUTTI_CHECK_CALLS");
    return setting && (strcasecmp(setting, "on") == 0 || strcmp(setting, "1") == 0);
}

/* Whether this rank waits for one that calls something else. */
static bool is_notified_at_once(const struct tti_check *c, const struct variant *v, int deviant)
{
    const bool odd = c->rank == deviant;
    const int root = v->other_root && odd ? 1 : 0;
    if (all_notified_at_once() || (v->waits_itself && odd)) {
        return true;
    }
    return v->direction == FROM_ROOT ? c->rank != root && odd != (root == deviant)
                                     : v->direction == TO_ROOT && c->rank == root;
}

/* Each rank gets MISMATCH once, now or from the next call that waits for all, and the group works on. */
static void each_notices_once(struct tti_check *c, const struct room *room, const struct variant *v, int deviant)
{
    const tutti_status status = v->call(c, room, c->rank == deviant);
    if (status != TUTTI_OK || is_notified_at_once(c, v, deviant)) {
        tti_check_status(c, "the call", status, TUTTI_MISMATCH);
    }
    const tutti_status expected = status == TUTTI_OK ? TUTTI_MISMATCH : TUTTI_OK;
    tti_check_status(c, "the barrier behind it", tti_check_barrier(c), expected);
    if (expected == TUTTI_MISMATCH && !c->failed) {
        tti_check_expect_i64(c, "the error has a sentence", c->error.message[0] != '\0', 1);
    }
    for (int i = 0; i < 3; i++) {
        tti_check_group_works(c);
    }
}

static bool applies(struct tti_check *c, uint32_t promises)
{
    if (c->size > 1 && (c->capabilities & promises) == promises) {
        return true;
    }
    tti_check_skip(c);
    return false;
}

struct table {
    const struct variant *variants;
    size_t count;
    uint32_t promises; /* that a backend must have made */
    void (*verify)(struct tti_check *c, const struct room *room, const struct variant *v, int deviant);
};

static void chapter(struct tti_check *c, const struct room *room, const char *size)
{
    static const struct table tables[] = {
        {waiting, sizeof(waiting) / sizeof(waiting[0]), TUTTI_CAP_CHECKS_CALLS, all_notice},
        {rooted, sizeof(rooted) / sizeof(rooted[0]), TUTTI_CAP_CHECKS_CALLS, each_notices_once},
        {flagged, sizeof(flagged) / sizeof(flagged[0]), TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL, each_notices_once},
    };
    for (int which = 0; which < 2; which++) {
        const int deviant = which == 0 ? c->size - 1 : 0;
        for (const struct table *t = tables; t < tables + sizeof(tables) / sizeof(tables[0]); t++) {
            for (size_t i = 0; i < t->count; i++) {
                if (!tti_check_begin(c, "%s/%s/%s", t->variants[i].name, size, which == 0 ? "last" : "first")) {
                    continue;
                }
                while (applies(c, t->promises) && tti_check_next_round(c, 0)) {
                    t->verify(c, room, &t->variants[i], deviant);
                }
                tti_check_end(c);
            }
        }
    }
}

/* Most of a room is never touched, and with many ranks it is tens of megabytes: fresh pages, which need no clearing. */
static unsigned char *fresh_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        fprintf(stderr, "tutti check: no memory for the cases of mismatch\n");
        exit(1);
    }
    return pages;
}

static unsigned char *open_room(const struct tti_check *c, size_t bytes)
{
    return c->arena ? tti_check_device_alloc(c->arena, bytes) : fresh_pages(bytes);
}

static void close_room(const struct tti_check *c, unsigned char *memory, size_t bytes)
{
    if (c->arena) {
        tti_arena_free(c->arena, memory, bytes);
    } else {
        munmap(memory, bytes);
    }
}

void tti_check_mismatch_cases(struct tti_check *c)
{
    /* what is joined has at most three tensors' rows from every rank */
    const int64_t small = 2 * c->size;
    const int64_t large = (24000 / c->size + 1) * c->size;
    const size_t bytes = (240000 + (size_t)(4 * (large + small) * c->size)) * sizeof(float);
    struct room room = {.input = open_room(c, bytes), .output = open_room(c, bytes), .n = small};
    chapter(c, &room, "small");
    room.n = large;
    chapter(c, &room, "large");
    close_room(c, room.input, bytes);
    close_room(c, room.output, bytes);
}
