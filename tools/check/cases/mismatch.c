/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that call different things, where the backend promises to notice. In calls where every rank waits for all,
 * every rank gets MISMATCH. In rooted calls a rank that waits for one that called something else gets it at once, any
 * other one at once or from the barrier behind, and each exactly once; with TUTTI_CHECK_CALLS=on all get it at once.
 * The group works on in any case: proved by reductions that are compared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/jobs.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"
#include "common/device_arena.h"

/* Memory for the tensors of any variant. */
struct room {
    unsigned char *input;
    unsigned char *output;
    int64_t n; /* elements of a tensor; a multiple of the group's size */
};

/* A number of rows or columns of a tensor or part. */
enum length {
    NO_COLUMNS, /* the tensor has one dimension */
    ALL,        /* room->n */
    ONE_MORE,
    ONE_LESS,
    NOTHING,
    OTHER_CLASS, /* so many that an engine may take another algorithm */
    PART,        /* room->n / c->size */
    HALF_PART,
    ONE,
    TWO,
    THREE
};

enum { OWN_ROOT = -1 }; /* each rank names itself */

/* The call of one side. `rows` and `columns` are those of a part where parts are joined or cut. */
struct side {
    enum tti_check_kind kind;
    enum length rows;
    enum length columns;
    int dim;
    int root;
    tutti_dtype dtype;  /* 0: f32 */
    tutti_reduce_op op; /* 0: sum */
    uint32_t tag;
    uint32_t flags;
    tutti_wire wire;
    bool sends_more; /* all_to_all_v: a row more to every other rank than they expect */
};

/* Whom a rank waits for that makes the usual call, before it can return. */
enum direction { FROM_ROOT, TO_ROOT, UNKNOWN };

struct variant {
    const char *name;
    struct side usual;
    struct side odd; /* of the rank that deviates */
    /* rooted ones */
    enum direction direction;
    bool waits_itself; /* the deviating rank waits for all in its call */
};

/* A kind, its rows, and what else differs from the usual. */
#define CALL(k, ...)                                                                                                   \
    {                                                                                                                  \
        .kind = TTI_CHECK_##k, .rows = __VA_ARGS__                                                                     \
    }
/* As many elements in another shape: a tensor that one rank has transposed. */
#define SHAPE(k) CALL(k, TWO, .columns = ALL), CALL(k, ALL, .columns = TWO)

static const struct variant waiting[] = {
    {.name = "all_reduce/dtype", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, ALL, .dtype = TUTTI_I32)},
    {.name = "all_reduce/op", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, ALL, .op = TUTTI_MAX)},
    {.name = "all_reduce/count", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, ONE_MORE)},
    {.name = "all_reduce/nothing", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, NOTHING)},
    {.name = "all_reduce/large", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, OTHER_CLASS)},
    {.name = "all_reduce/tag", CALL(ALL_REDUCE, ALL, .tag = 8), CALL(ALL_REDUCE, ALL, .tag = 7)},
    {.name = "all_reduce/wire", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, ALL, .wire = TUTTI_WIRE_BF16)},
    {.name = "all_reduce/no-wire",
     CALL(ALL_REDUCE, OTHER_CLASS, .wire = TUTTI_WIRE_BF16),
     CALL(ALL_REDUCE, OTHER_CLASS)},
    {.name = "all_reduce/other-wire",
     CALL(ALL_REDUCE, OTHER_CLASS, .wire = TUTTI_WIRE_BF16),
     CALL(ALL_REDUCE, OTHER_CLASS, .wire = TUTTI_WIRE_FP8)},
    {.name = "all_reduce/no-fp8", CALL(ALL_REDUCE, OTHER_CLASS, .wire = TUTTI_WIRE_FP8), CALL(ALL_REDUCE, OTHER_CLASS)},
    {.name = "all_reduce/fp8", CALL(ALL_REDUCE, ALL), CALL(ALL_REDUCE, ALL, .wire = TUTTI_WIRE_FP8)},
    {.name = "all_reduce/fp8-all_gather",
     CALL(ALL_REDUCE, ALL, .wire = TUTTI_WIRE_FP8),
     CALL(ALL_GATHER, ONE, .columns = ALL)},
    {.name = "all_reduce/bf16",
     CALL(ALL_REDUCE, OTHER_CLASS, .wire = TUTTI_WIRE_BF16),
     CALL(ALL_REDUCE, OTHER_CLASS, .dtype = TUTTI_BF16)},
    {.name = "all_reduce/barrier", CALL(ALL_REDUCE, ALL), CALL(BARRIER, NOTHING)},
    {.name = "all_reduce/reduce_scatter", CALL(ALL_REDUCE, ALL), CALL(REDUCE_SCATTER, PART)},
    {.name = "all_reduce/all_gather", CALL(ALL_REDUCE, ALL), CALL(ALL_GATHER, ONE, .columns = ALL)},
    {.name = "all_gather/dimension",
     CALL(ALL_GATHER, TWO, .columns = ALL),
     CALL(ALL_GATHER, TWO, .columns = ALL, .dim = 1)},
    {.name = "all_gather/count", CALL(ALL_GATHER, TWO, .columns = ALL), CALL(ALL_GATHER, THREE, .columns = ALL)},
    {.name = "all_gather_v/counts", CALL(ALL_GATHER_V, ALL), CALL(ALL_GATHER_V, ONE_MORE)},
    {.name = "all_to_all/dtype", CALL(ALL_TO_ALL, PART), CALL(ALL_TO_ALL, PART, .dtype = TUTTI_U32)},
    {.name = "all_to_all_v/counts", CALL(ALL_TO_ALL_V, PART), CALL(ALL_TO_ALL_V, PART, .sends_more = true)},
    {.name = "all_reduce/shape", SHAPE(ALL_REDUCE)},
    {.name = "all_gather/shape", SHAPE(ALL_GATHER)},
    {.name = "reduce_scatter/shape", SHAPE(REDUCE_SCATTER)},
    {.name = "all_to_all/shape", SHAPE(ALL_TO_ALL)},
    {.name = "all_gather_v/shape", SHAPE(ALL_GATHER_V)},
    {.name = "reduce_scatter_v/shape", SHAPE(REDUCE_SCATTER_V)},
    {.name = "all_to_all_v/shape", SHAPE(ALL_TO_ALL_V)},
};

static const struct variant rooted[] = {
    {.name = "broadcast/root", CALL(BROADCAST, ALL), CALL(BROADCAST, ALL, .root = 1), .direction = FROM_ROOT},
    {.name = "broadcast/count", CALL(BROADCAST, ALL), CALL(BROADCAST, ONE_LESS), .direction = FROM_ROOT},
    {.name = "broadcast/shape", SHAPE(BROADCAST), .direction = FROM_ROOT},
    {.name = "broadcast/barrier",
     CALL(BROADCAST, ALL),
     CALL(BARRIER, NOTHING),
     .direction = FROM_ROOT,
     .waits_itself = true},
    {.name = "broadcast/reduce", CALL(BROADCAST, ALL), CALL(REDUCE, ALL), .direction = UNKNOWN},
    /* no rank waits in a broadcast from itself, all wait in a reduce */
    {.name = "broadcast/roots",
     CALL(BROADCAST, ALL, .root = OWN_ROOT),
     CALL(BROADCAST, ALL, .root = OWN_ROOT),
     .direction = UNKNOWN},
    {.name = "reduce/root", CALL(REDUCE, ALL), CALL(REDUCE, ALL, .root = 1), .direction = TO_ROOT},
    {.name = "reduce/op", CALL(REDUCE, ALL), CALL(REDUCE, ALL, .op = TUTTI_MIN), .direction = TO_ROOT},
    {.name = "reduce/shape", SHAPE(REDUCE), .direction = TO_ROOT},
    {.name = "reduce/roots",
     CALL(REDUCE, ALL, .root = OWN_ROOT),
     CALL(REDUCE, ALL, .root = OWN_ROOT),
     .direction = UNKNOWN},
    {.name = "gather/root", CALL(GATHER, PART), CALL(GATHER, PART, .root = 1), .direction = TO_ROOT},
    {.name = "gather/count", CALL(GATHER, ALL), CALL(GATHER, ONE_MORE), .direction = TO_ROOT},
    {.name = "gather/dimension",
     CALL(GATHER, TWO, .columns = HALF_PART),
     CALL(GATHER, TWO, .columns = HALF_PART, .dim = 1),
     .direction = TO_ROOT},
    {.name = "gather/shape", SHAPE(GATHER), .direction = TO_ROOT},
    {.name = "scatter/root", CALL(SCATTER, PART), CALL(SCATTER, PART, .root = 1), .direction = FROM_ROOT},
    {.name = "scatter/dimension",
     CALL(SCATTER, TWO, .columns = HALF_PART),
     CALL(SCATTER, TWO, .columns = HALF_PART, .dim = 1),
     .direction = FROM_ROOT},
    {.name = "scatter/shape", SHAPE(SCATTER), .direction = FROM_ROOT},
};

/* One rank alone wants to be able to cancel. */
static const struct variant flagged[] = {
    {.name = "broadcast/flag",
     CALL(BROADCAST, ALL),
     CALL(BROADCAST, ALL, .flags = TUTTI_CANCELLABLE),
     .direction = UNKNOWN},
    {.name = "reduce/flag", CALL(REDUCE, ALL, .flags = TUTTI_CANCELLABLE), CALL(REDUCE, ALL), .direction = UNKNOWN},
};

static int64_t length_of(const struct tti_check *c, const struct room *room, enum length length)
{
    const int64_t lengths[] = {[NO_COLUMNS] = 0,
                               [ALL] = room->n,
                               [ONE_MORE] = room->n + 1,
                               [ONE_LESS] = room->n - 1,
                               [NOTHING] = 0,
                               [OTHER_CLASS] = 200003,
                               [PART] = room->n / c->size,
                               [HALF_PART] = room->n / c->size / 2,
                               [ONE] = 1,
                               [TWO] = 2,
                               [THREE] = 3};
    return lengths[length];
}

static bool joins(enum tti_check_kind kind)
{
    return kind == TTI_CHECK_ALL_GATHER || kind == TTI_CHECK_ALL_GATHER_V || kind == TTI_CHECK_GATHER ||
           kind == TTI_CHECK_ALL_TO_ALL || kind == TTI_CHECK_ALL_TO_ALL_V;
}

static bool cuts(enum tti_check_kind kind)
{
    return kind == TTI_CHECK_REDUCE_SCATTER || kind == TTI_CHECK_REDUCE_SCATTER_V || kind == TTI_CHECK_SCATTER ||
           kind == TTI_CHECK_ALL_TO_ALL || kind == TTI_CHECK_ALL_TO_ALL_V;
}

static tutti_status call(struct tti_check *c, const struct room *room, const struct variant *v, bool odd)
{
    const struct side *side = odd ? &v->odd : &v->usual;
    const tutti_dtype dtype = side->dtype ? side->dtype : TUTTI_F32;
    const int ndim = side->columns == NO_COLUMNS ? 1 : 2;
    const int64_t part[2] = {length_of(c, room, side->rows), length_of(c, room, side->columns)};
    const int64_t more = side->sends_more ? c->size - 1 : 0; /* rows */
    int64_t whole[2] = {part[0], part[1]};
    whole[side->dim] *= c->size;
    const int64_t cut[2] = {whole[0] + more, whole[1]};
    const DLTensor input = tti_check_tensor_over(c, room->input, ndim, cuts(side->kind) ? cut : part, dtype);
    DLTensor output = tti_check_tensor_over(c, room->output, ndim, joins(side->kind) ? whole : part, dtype);
    int64_t *counts = tti_check_memory(2 * (size_t)c->size * sizeof(int64_t));
    int64_t *received = counts + c->size;
    for (int r = 0; r < c->size; r++) {
        received[r] = part[0];
        counts[r] = part[0] + (more > 0 && r != c->rank);
    }
    const tutti_status status =
        tti_check_do(c, &(struct tti_check_operation){.kind = side->kind,
                                                      .op = side->op ? side->op : TUTTI_SUM,
                                                      .dim = side->dim,
                                                      .root = side->root == OWN_ROOT ? c->rank : side->root,
                                                      .input = &input,
                                                      .output = &output,
                                                      .counts = counts,
                                                      .recv_counts = received,
                                                      .user_tag = side->tag,
                                                      .wire = side->wire,
                                                      .flags = side->flags});
    free(counts);
    return status;
}

/* Every rank gets MISMATCH, and the group works on. */
static void all_notice(struct tti_check *c, const struct room *room, const struct variant *v, int deviant)
{
    tti_check_status(c, "the call", call(c, room, v, c->rank == deviant), TUTTI_MISMATCH);
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
    const int root = odd ? v->odd.root : v->usual.root;
    if (all_notified_at_once() || (v->waits_itself && odd)) {
        return true;
    }
    return v->direction == FROM_ROOT ? c->rank != root && odd != (root == deviant)
                                     : v->direction == TO_ROOT && c->rank == root;
}

/* Each rank gets MISMATCH once, now or from the next call that waits for all, and the group works on. */
static void each_notices_once(struct tti_check *c, const struct room *room, const struct variant *v, int deviant)
{
    const tutti_status status = call(c, room, v, c->rank == deviant);
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

static bool applies(struct tti_check *c, const struct variant *v, uint32_t promises)
{
    const bool refused = !tti_check_has_wire(c) && (v->usual.wire != TUTTI_WIRE_FULL || v->odd.wire != TUTTI_WIRE_FULL);
    if (c->size > 1 && (c->capabilities & promises) == promises && !refused) {
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
                while (applies(c, &t->variants[i], t->promises) && tti_check_next_round(c, 0)) {
                    t->verify(c, room, &t->variants[i], deviant);
                }
                tti_check_end(c);
            }
        }
    }
}

/* With many ranks a room is tens of megabytes. Most of it is never touched, so it is not cleared. */
static unsigned char *open_room(const struct tti_check *c, size_t bytes)
{
    return c->arena ? tti_check_device_alloc(c->arena, bytes) : tti_check_memory(bytes);
}

static void close_room(const struct tti_check *c, unsigned char *memory, size_t bytes)
{
    if (c->arena) {
        tti_device_arena_free(c->arena, memory, bytes);
    } else {
        free(memory);
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
