/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that call different things, where the backend promises to notice. In calls where every rank waits for all, every
 * rank gets MISMATCH, and the group works on: proved by a reduction that is compared. In rooted calls some ranks may be
 * through before anybody can know; then the next barrier says so, at the price of the group, so these cases run in a
 * group of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check/ways.h"
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
    const DLTensor input = tti_check_over_1d(c, room->input, &n, dtype);
    DLTensor output = tti_check_over_1d(c, room->output, &n, dtype);
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
    const DLTensor input = tti_check_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &part, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_REDUCE_SCATTER, .op = TUTTI_SUM, .input = &input, .output = &output});
}

static tutti_status gather_along(struct tti_check *c, const struct room *room, int64_t rows, int64_t columns, int dim)
{
    const int64_t shape[2] = {rows, columns};
    const int64_t joined[2] = {dim == 0 ? rows * c->size : rows, dim == 1 ? columns * c->size : columns};
    const DLTensor input = tti_check_over(c, room->input, 2, shape, TUTTI_F32);
    DLTensor output = tti_check_over(c, room->output, 2, joined, TUTTI_F32);
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
    const DLTensor input = tti_check_over_1d(c, room->input, &room->n, odd ? TUTTI_U32 : TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &room->n, odd ? TUTTI_U32 : TUTTI_F32);
    return tti_check_do(
        c, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_TO_ALL, .input = &input, .output = &output});
}

/* The deviating rank believes that everybody contributes one row more. */
static tutti_status all_gather_v_other_counts(struct tti_check *c, const struct room *room, bool odd)
{
    int64_t *counts = tti_check_memory((size_t)c->size * sizeof(int64_t));
    const int64_t rows = odd ? room->n + 1 : room->n;
    const int64_t joined = rows * c->size;
    for (int r = 0; r < c->size; r++) {
        counts[r] = rows;
    }
    const DLTensor input = tti_check_over_1d(c, room->input, &rows, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &joined, TUTTI_F32);
    const tutti_status status =
        tti_check_do(c, &(struct tti_check_operation){
                            .kind = TTI_CHECK_ALL_GATHER_V, .input = &input, .output = &output, .counts = counts});
    free(counts);
    return status;
}

/* The deviating rank sends one row more to everybody than they expect. */
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
    const DLTensor input = tti_check_over_1d(c, room->input, &rows, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &room->n, TUTTI_F32);
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
    DLTensor x = tti_check_over_1d(c, room->input, &n, TUTTI_F32);
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
    const DLTensor input = tti_check_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &room->n, TUTTI_F32);
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
    const DLTensor input = tti_check_over_1d(c, room->input, &part, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_GATHER, .root = odd ? 1 : 0, .input = &input, .output = &output});
}

/* Two rows of half a part each: as many elements along either dimension. */
static tutti_status gather_other_dimension(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t half = room->n / c->size / 2;
    const int64_t shape[2] = {2, half};
    const int64_t joined[2] = {odd ? 2 : 2 * c->size, odd ? half * c->size : half};
    const DLTensor input = tti_check_over(c, room->input, 2, shape, TUTTI_F32);
    DLTensor output = tti_check_over(c, room->output, 2, joined, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_GATHER, .dim = odd ? 1 : 0, .input = &input, .output = &output});
}

static tutti_status scatter_other_dimension(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t half = room->n / c->size / 2;
    const int64_t shape[2] = {2, half};
    const int64_t joined[2] = {odd ? 2 : 2 * c->size, odd ? half * c->size : half};
    const DLTensor input = tti_check_over(c, room->input, 2, joined, TUTTI_F32);
    DLTensor output = tti_check_over(c, room->output, 2, shape, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_SCATTER, .dim = odd ? 1 : 0, .input = &input, .output = &output});
}

static tutti_status scatter_other_root(struct tti_check *c, const struct room *room, bool odd)
{
    const int64_t part = room->n / c->size;
    const DLTensor input = tti_check_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &part, TUTTI_F32);
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
    DLTensor x = tti_check_over_1d(c, room->input, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){
                               .kind = TTI_CHECK_BROADCAST, .output = &x, .flags = odd ? TUTTI_CANCELLABLE : 0});
}

static tutti_status reduce_other_flag(struct tti_check *c, const struct room *room, bool odd)
{
    const DLTensor input = tti_check_over_1d(c, room->input, &room->n, TUTTI_F32);
    DLTensor output = tti_check_over_1d(c, room->output, &room->n, TUTTI_F32);
    return tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_REDUCE,
                                                         .op = TUTTI_SUM,
                                                         .input = &input,
                                                         .output = &output,
                                                         .flags = odd ? 0 : TUTTI_CANCELLABLE});
}

struct variant {
    const char *name;
    variant_function call;
};

static const struct variant waiting[] = {
    {"all_reduce/dtype", other_dtype},
    {"all_reduce/op", other_op},
    {"all_reduce/count", other_count},
    {"all_reduce/nothing", nothing},
    {"all_reduce/large", other_class},
    {"all_reduce/tag", other_tag},
    {"all_reduce/barrier", barrier_instead},
    {"all_reduce/reduce_scatter", reduce_scatter_instead},
    {"all_reduce/all_gather", all_gather_instead},
    {"all_gather/dimension", all_gather_other_dimension},
    {"all_gather/count", all_gather_other_count},
    {"all_gather_v/counts", all_gather_v_other_counts},
    {"all_to_all/dtype", all_to_all_other_dtype},
    {"all_to_all_v/counts", all_to_all_v_other_counts},
};

static const struct variant rooted[] = {
    {"broadcast/root", broadcast_other_root},
    {"broadcast/count", broadcast_other_count},
    {"broadcast/barrier", barrier_instead_of_broadcast},
    {"reduce/root", reduce_other_root},
    {"reduce/op", reduce_other_op},
    {"gather/root", gather_other_root},
    {"gather/dimension", gather_other_dimension},
    {"scatter/root", scatter_other_root},
    {"scatter/dimension", scatter_other_dimension},
};

static const struct variant flagged[] = {
    {"broadcast/flag", broadcast_other_flag},
    {"reduce/flag", reduce_other_flag},
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

/* No rank waits for ever or for its deadline, and behind the next barrier all know. */
static void all_know_later(struct tti_check *c, const struct room *room, const struct variant *v, int deviant)
{
    int32_t *ranks = tti_check_memory((size_t)c->size * sizeof(int32_t));
    tutti_group *group = NULL;
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    if (tti_check_ok(c, "group_create", tutti_group_create(c->group, ranks, c->size, NULL, &group, &c->error))) {
        struct tti_check sub = tti_check_sub(c, group, 1);
        tutti_status status = v->call(&sub, room, c->rank == deviant);
        if (status != TUTTI_OK && status != TUTTI_REVOKED) {
            tti_check_status(&sub, "the call", status, TUTTI_MISMATCH);
        }
        const bool knows = status == TUTTI_MISMATCH;
        status = tti_check_barrier(&sub);
        /* where all have noticed at once, nothing is left to be found out */
        if (status != TUTTI_REVOKED && !(knows && status == TUTTI_OK)) {
            tti_check_status(&sub, "the barrier behind it", status, TUTTI_MISMATCH);
        }
        tti_check_merge(c, &sub);
        /* nobody destroys it while others may still be inside: a rank that left would be another error */
        tti_check_ok(c, "barrier", tutti_barrier(c->group, TUTTI_CALL(.error = &c->error)));
        tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    }
    free(ranks);
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
    void (*judge)(struct tti_check *c, const struct room *room, const struct variant *v, int deviant);
};

static void chapter(struct tti_check *c, const struct room *room, const char *size)
{
    static const struct table tables[] = {
        {waiting, sizeof(waiting) / sizeof(waiting[0]), TUTTI_CAP_CHECKS_CALLS, all_notice},
        {rooted, sizeof(rooted) / sizeof(rooted[0]), TUTTI_CAP_CHECKS_CALLS, all_know_later},
        {flagged, sizeof(flagged) / sizeof(flagged[0]), TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL, all_know_later},
    };
    for (int which = 0; which < 2; which++) {
        const int deviant = which == 0 ? c->size - 1 : 0;
        for (const struct table *t = tables; t < tables + sizeof(tables) / sizeof(tables[0]); t++) {
            for (size_t i = 0; i < t->count; i++) {
                if (!tti_check_begin(c, "%s/%s/%s", t->variants[i].name, size, which == 0 ? "last" : "first")) {
                    continue;
                }
                while (applies(c, t->promises) && tti_check_turn(c, 0)) {
                    t->judge(c, room, &t->variants[i], deviant);
                }
                tti_check_end(c);
            }
        }
    }
}

/* Most of a room is never touched, and with many ranks it is tens of megabytes: fresh pages, which nobody has to clear. */
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
    return c->arena ? tti_check_there(c->arena, bytes) : fresh_pages(bytes);
}

static void close_room(const struct tti_check *c, unsigned char *memory, size_t bytes)
{
    if (c->arena) {
        tti_arena_free(c->arena, memory, bytes);
    } else {
        munmap(memory, bytes);
    }
}

void tti_check_mismatch_more(struct tti_check *c)
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
