/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi */
/*
 * Persistent collectives: the results of every kind in run, and in start and wait; new data in each run; lists, also
 * with strided tensors and options; cancel; and what bad input and a bad order of the calls get.
 */
#include <pthread.h>
#include <tutti/queue.h>

#include "api/bad_inputs.h"
#include "clock.h"
#include "time_limits.h"

#define RANKS 3
#define RUNS  4

static const int64_t part = 2;
static const int64_t whole = 2 * RANKS;

/* What rank r has at index i in a run; small enough that sums of floats are exact. */
static float value_of(int r, int i, int run)
{
    return (float)(1 + r * 10 + i + run * 100);
}

static float sum_of(int i, int run)
{
    float sum = 0;
    for (int r = 0; r < RANKS; r++) {
        sum += value_of(r, i, run);
    }
    return sum;
}

/* The value that rank `me` has to get at index i; -1: the output is not written. */
static float expected(tutti_operation kind, int me, int root, int i, int run)
{
    switch (kind) {
    case TUTTI_OP_ALL_REDUCE:
        return sum_of(i, run);
    case TUTTI_OP_REDUCE:
        return me == root ? sum_of(i, run) : -1;
    case TUTTI_OP_BROADCAST:
        return value_of(root, i, run);
    case TUTTI_OP_ALL_GATHER:
        return value_of(i / 2, i % 2, run);
    case TUTTI_OP_GATHER:
        return me == root ? value_of(i / 2, i % 2, run) : -1;
    case TUTTI_OP_SCATTER:
        return value_of(root, 2 * me + i, run);
    case TUTTI_OP_REDUCE_SCATTER:
        return sum_of(2 * me + i, run);
    default: /* all_to_all */
        return value_of(i / 2, 2 * me + i % 2, run);
    }
}

static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,        TUTTI_OP_BROADCAST,
                                        TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,        TUTTI_OP_SCATTER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct data {
    float in[2 * 2 * RANKS]; /* every second element, if it is strided */
    float out[2 * RANKS];
    int64_t stride;
    int64_t in_shape;
    int64_t out_shape;
    DLTensor input;
    DLTensor output;
};

static tutti_persistent_op describe(struct data *d, tutti_operation kind, int root, int64_t stride)
{
    const int joins = kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_GATHER;
    const int cuts = kind == TUTTI_OP_SCATTER || kind == TUTTI_OP_REDUCE_SCATTER;
    d->stride = kind == TUTTI_OP_BROADCAST ? 1 : stride;
    d->in_shape = joins ? part : whole;
    d->out_shape = cuts ? part : whole;
    d->input = tutti_tensor_1d(d->in, &d->in_shape, TUTTI_F32);
    d->output = tutti_tensor_1d(d->out, &d->out_shape, TUTTI_F32);
    if (d->stride > 1) {
        d->input.strides = &d->stride;
    }
    return (tutti_persistent_op){
        .kind = kind, .op = TUTTI_SUM, .dim = 0, .root = root, .input = &d->input, .output = &d->output};
}

static void fill(struct data *d, tutti_operation kind, int me, int run)
{
    for (int i = 0; i < 2 * RANKS; i++) {
        d->in[i * d->stride] = value_of(me, i, run);
        d->out[i] = kind == TUTTI_OP_BROADCAST ? value_of(me, i, run) : -1;
    }
}

static int is_right(const struct data *d, tutti_operation kind, int me, int root, int run)
{
    for (int i = 0; i < d->out_shape; i++) {
        if (d->out[i] != expected(kind, me, root, i, run)) {
            return 0;
        }
    }
    return 1;
}

/* run and start in turn, so that each uses what the other has left. */
static tutti_status once(tutti_persistent *p, int run, tutti_error *e)
{
    if (run % 2 == 0) {
        return tutti_persistent_run(p, e);
    }
    const tutti_status status = tutti_persistent_start(p, e);
    return status == TUTTI_OK ? tutti_persistent_wait(p, run % 4 == 1 ? TUTTI_FOREVER : LONG_MS, e) : status;
}

static void count_call(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    ++*(int *)user;
}

/* All kinds in one list. */
static void test_list(tutti_group *g, int64_t stride, int with_callback)
{
    tutti_error e;
    const int me = tutti_group_rank(g);
    const int root = RANKS - 1;
    int calls = 0;
    struct data data[KINDS];
    tutti_persistent_op list[KINDS + 1];
    for (int k = 0; k < KINDS; k++) {
        list[k] = describe(&data[k], kinds[k], root, stride);
    }
    list[KINDS] = (tutti_persistent_op){.kind = TUTTI_OP_BARRIER};
    tutti_persistent *p = NULL;
    EXPECT_ERROR(&e, TUTTI_OK, "",
                 tutti_persistent_init(g, list, KINDS + 1,
                                       TUTTI_CALL(.error = &e, .callback = with_callback ? count_call : NULL,
                                                  .user = &calls, .timeout_ms = LONG_MS),
                                       &p));
    memset(list, 0xff, sizeof(list)); /* copied, as are the tensors */
    for (int k = 0; k < KINDS; k++) {
        memset(&data[k].input, 0xff, sizeof(data[k].input));
        memset(&data[k].output, 0xff, sizeof(data[k].output));
    }
    for (int run = 0; run < RUNS; run++) {
        for (int k = 0; k < KINDS; k++) {
            fill(&data[k], kinds[k], me, run);
        }
        EXPECT_ERROR(&e, TUTTI_OK, "", once(p, run, &e));
        for (int k = 0; k < KINDS; k++) {
            EXPECT(is_right(&data[k], kinds[k], me, root, run));
        }
        EXPECT_ERROR(&e, TUTTI_OK, "", tutti_persistent_wait(p, 0, &e)); /* the same again */
    }
    EXPECT(calls == (with_callback ? RUNS * (KINDS + 1) : 0));
    EXPECT_OK(tutti_persistent_release(p, &e));
}

static void test_alone(tutti_group *g)
{
    tutti_error e;
    const int me = tutti_group_rank(g);
    for (int k = 0; k < KINDS; k++) {
        struct data d;
        const tutti_persistent_op o = describe(&d, kinds[k], 1, 1);
        tutti_persistent *p = NULL;
        EXPECT_OK(tutti_persistent_init(g, &o, 1, NULL, &p));
        for (int run = 0; run < RUNS; run++) {
            fill(&d, kinds[k], me, run);
            EXPECT_OK(once(p, run, NULL));
            EXPECT(is_right(&d, kinds[k], me, 1, run));
        }
        EXPECT_OK(tutti_persistent_release(p, &e));
    }
}

/* What an operation that may be cancelled has to set in this group. */
static uint32_t cancellable(tutti_group *g)
{
    return tutti_group_capabilities(g) & TUTTI_CAP_CANCEL ? 0 : TUTTI_CANCELLABLE;
}

static tutti_persistent *make_sum(tutti_group *g, int32_t *value, const tutti_call *call)
{
    static const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(value, &one, TUTTI_I32);
    const tutti_persistent_op o = {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &t, .output = &t};
    tutti_persistent *p = NULL;
    EXPECT_OK(tutti_persistent_init(g, &o, 1, call, &p));
    return p;
}

static void test_bad_arguments(tutti_group *g)
{
    tutti_error e;
    struct data d;
    struct data other;
    tutti_persistent *p = NULL;
    tutti_persistent_op o[2] = {describe(&d, TUTTI_OP_ALL_REDUCE, 0, 1), describe(&other, TUTTI_OP_REDUCE, 0, 1)};
    BAD("group", tutti_persistent_init(NULL, o, 1, OPTIONS, &p));
    BAD("operations is NULL", tutti_persistent_init(g, NULL, 1, OPTIONS, &p));
    BAD("count is 0", tutti_persistent_init(g, o, 0, OPTIONS, &p));
    BAD("persistent is NULL", tutti_persistent_init(g, o, 1, OPTIONS, NULL));
    BAD("call.lane", tutti_persistent_init(g, o, 1, TUTTI_CALL(.error = &e, .lane = 99), &p));
    BAD("call.timeout_ms", tutti_persistent_init(g, o, 1, TUTTI_CALL(.error = &e, .timeout_ms = -2), &p));
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "no memory for", tutti_persistent_init(g, o, SIZE_MAX / 2, OPTIONS, &p));
    o[1].root = RANKS;
    BAD("operations[1]: reduce: root", tutti_persistent_init(g, o, 2, OPTIONS, &p));
    o[1].root = 0;
    o[1].input = NULL;
    BAD("operations[1]: reduce: input", tutti_persistent_init(g, o, 2, OPTIONS, &p));
    o[0].op = 99;
    BAD("all_reduce", tutti_persistent_init(g, o, 1, OPTIONS, &p));
    o[0].kind = TUTTI_OP_SEND;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "no persistent form", tutti_persistent_init(g, o, 1, OPTIONS, &p));
    o[0].kind = -1;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "no persistent form", tutti_persistent_init(g, o, 1, OPTIONS, &p));
    tutti_call call;
    tutti_call_init(&call);
    call.size = 4;
    EXPECT(tutti_persistent_init(g, o, 1, &call, &p) == TUTTI_INVALID_ARGUMENT);
    EXPECT(p == NULL);

    BAD("is NULL", tutti_persistent_run(NULL, &e));
    BAD("is NULL", tutti_persistent_start(NULL, &e));
    BAD("is NULL", tutti_persistent_wait(NULL, 0, &e));
    BAD("is NULL", tutti_persistent_cancel(NULL, &e));
    BAD("is NULL", tutti_persistent_release(NULL, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "never was one", tutti_persistent_run((tutti_persistent *)g, &e));
}

static void test_order(tutti_group *g)
{
    tutti_error e;
    const int32_t sum = RANKS * (RANKS + 1) / 2;
    int32_t value = tutti_group_rank(g) + 1;
    tutti_persistent *p = make_sum(g, &value, NULL);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "never started", tutti_persistent_wait(p, 0, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "never started", tutti_persistent_cancel(p, &e));
    BAD("limit_ms", tutti_persistent_wait(p, -2, &e));

    EXPECT_OK(tutti_persistent_start(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "it is running", tutti_persistent_start(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "it is running", tutti_persistent_run(p, &e));
    EXPECT_OK(tutti_persistent_wait(p, TUTTI_FOREVER, &e)); /* the first start is not lost */
    EXPECT(value == sum);
    EXPECT_ERROR(&e, TUTTI_TOO_LATE, "has ended", tutti_persistent_cancel(p, &e));

    /* released while it runs: it goes on to its end, as the other ranks see */
    value = tutti_group_rank(g) + 1;
    EXPECT_OK(tutti_persistent_start(p, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "released already", tutti_persistent_wait(p, 0, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "released already", tutti_persistent_run(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "released already", tutti_persistent_release(p, &e));
    EXPECT_OK(tutti_barrier(g, NULL)); /* behind it in its lane */
    EXPECT(value == sum);
}

/* Ranks that differ find it by the comparison of their calls, and the rest of the list runs. */
static void test_mismatch(tutti_group *g)
{
    tutti_error e;
    const int me = tutti_group_rank(g);
    struct data d[2];
    tutti_persistent_op o[2] = {describe(&d[0], TUTTI_OP_ALL_REDUCE, 0, 1), describe(&d[1], TUTTI_OP_ALL_REDUCE, 0, 1)};
    o[0].op = me == 1 ? TUTTI_MAX : TUTTI_SUM;
    tutti_persistent *p = NULL;
    EXPECT_OK(tutti_persistent_init(g, o, 2, NULL, &p));
    for (int run = 0; run < RUNS; run++) {
        fill(&d[0], o[0].kind, me, run);
        fill(&d[1], o[1].kind, me, run);
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "operations[0]: all_reduce", once(p, run, &e));
        EXPECT(is_right(&d[1], o[1].kind, me, 0, run));
        EXPECT_USABLE(g);
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "operations[0]", tutti_persistent_wait(p, 0, &e));
    }
    EXPECT_OK(tutti_persistent_release(p, &e));

    /* A persistent call and an ordinary one are the same to other ranks. */
    int32_t value = me + 1;
    p = make_sum(g, &value, NULL);
    for (int run = 0; run < RUNS; run++) {
        value = me + 1;
        if (me == run % RANKS) {
            EXPECT_USABLE(g);
        } else {
            EXPECT_ERROR(&e, TUTTI_OK, "", once(p, run, &e));
            EXPECT(value == RANKS * (RANKS + 1) / 2);
        }
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
}

static void test_batch(tutti_group *g)
{
    tutti_error e;
    int32_t value = tutti_group_rank(g) + 1;
    tutti_persistent *p = make_sum(g, &value, NULL);
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "batch", tutti_persistent_run(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "batch", tutti_persistent_start(p, &e));
    EXPECT_OK(tutti_batch_end(g, NULL));
    EXPECT_OK(tutti_persistent_run(p, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
}

static void run_in_callback(tutti_status status, const tutti_error *error, void *user)
{
    tutti_error e;
    (void)status;
    (void)error;
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_persistent_run(user, &e));
}

static void test_callback(tutti_group *g)
{
    tutti_error e;
    int32_t value = tutti_group_rank(g) + 1;
    tutti_persistent *p = make_sum(g, &value, NULL);
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.callback = run_in_callback, .user = p)));
    EXPECT_OK(tutti_persistent_run(p, &e));
    EXPECT(value == RANKS * (RANKS + 1) / 2);
    EXPECT_OK(tutti_persistent_release(p, &e));
}

/* A callback may start, and another thread waits. The work of an earlier start is replaced. */
static void start_in_callback(tutti_status status, const tutti_error *error, void *user)
{
    tutti_error e;
    (void)error;
    EXPECT(status == TUTTI_OK);
    EXPECT_OK(tutti_persistent_start(user, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "it is running", tutti_persistent_start(user, &e));
}

static void test_start_in_callback(tutti_group *g)
{
    tutti_error e;
    const int32_t own = tutti_group_rank(g) + 1;
    int32_t value = 0;
    tutti_persistent *p = make_sum(g, &value, NULL);
    for (int run = 0; run < 2 * RUNS; run++) {
        value = own + run;
        if (run % 2 == 0) {
            EXPECT_OK(tutti_persistent_start(p, &e));
        } else {
            EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.callback = start_in_callback, .user = p)));
        }
        EXPECT_OK(tutti_persistent_wait(p, TUTTI_FOREVER, &e));
        EXPECT(value == RANKS * (RANKS + 1) / 2 + RANKS * run);
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
}

/* Starts that use the work of the first one: released while it runs, by each thread in turn, beside other objects. */
static void test_again(tutti_group *g)
{
    enum { OBJECTS = 5 };
    tutti_error e;
    int32_t values[OBJECTS];
    tutti_persistent *p[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        p[i] = make_sum(g, &values[i], NULL);
    }
    for (int run = 0; run < 3 * RUNS; run++) {
        for (int i = 0; i < OBJECTS; i++) {
            values[i] = run + i;
            EXPECT_OK(tutti_persistent_start(p[i], &e));
        }
        EXPECT_USABLE(g); /* behind them in their lane: it runs those that nobody has waited for */
        for (int i = 0; i < OBJECTS && run < 3 * RUNS - 1; i++) {
            EXPECT_OK(tutti_persistent_wait(p[i], i % 2 ? TUTTI_FOREVER : LONG_MS, &e));
            EXPECT(values[i] == RANKS * (run + i));
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        EXPECT(values[i] == RANKS * (3 * RUNS - 1 + i));
        EXPECT_OK(tutti_persistent_release(p[i], &e));
    }
}

/* Behind an operation that cannot end, since rank 0 has not called it, nothing of a list has begun. */
static void cancel_once(tutti_group *g, tutti_persistent *p, int32_t *value, tutti_persistent *held, int32_t *first)
{
    tutti_error e;
    *value = *first = tutti_group_rank(g) + 1;
    if (tutti_group_rank(g) != 0) {
        EXPECT_OK(tutti_persistent_start(held, &e));
        EXPECT_ERROR(&e, TUTTI_BUSY, "has not ended", tutti_persistent_wait(held, 1, &e));
        EXPECT_OK(tutti_persistent_start(p, &e));
        EXPECT_OK(tutti_persistent_cancel(p, &e));
        EXPECT_OK(
            tutti_send(g, &(DLTensor){.data = value, .device = {kDLCPU, 0}, .dtype = {kDLInt, 32, 1}}, 0, 7, NULL));
    } else {
        for (int r = 1; r < RANKS; r++) {
            int32_t unused;
            EXPECT_OK(tutti_recv(g, &(DLTensor){.data = &unused, .device = {kDLCPU, 0}, .dtype = {kDLInt, 32, 1}}, r, 7,
                                 NULL, NULL));
        }
        EXPECT_OK(tutti_persistent_start(held, &e));
        EXPECT_OK(tutti_persistent_start(p, &e));
    }
    EXPECT_OK(tutti_persistent_wait(held, TUTTI_FOREVER, &e));
    EXPECT(*first == RANKS * (RANKS + 1) / 2);
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "", tutti_persistent_wait(p, TUTTI_FOREVER, &e));
    EXPECT(*value == tutti_group_rank(g) + 1);
    EXPECT_OK(tutti_persistent_run(p, &e)); /* it runs again */
    EXPECT(*value == RANKS * (RANKS + 1) / 2);
}

static void test_cancel(tutti_group *g)
{
    tutti_error e;
    int32_t first = 0;
    int32_t value = 0;
    tutti_persistent *p = make_sum(g, &value, TUTTI_CALL(.flags = cancellable(g)));
    tutti_persistent *held = make_sum(g, &first, NULL);
    for (int run = 0; run < RUNS; run++) {
        cancel_once(g, p, &value, held, &first);
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
    EXPECT_OK(tutti_persistent_release(held, &e));
}

/* A token is checked at each start; the fired one cancels what has not begun. */
static void test_token(tutti_group *g)
{
    tutti_error e;
    int32_t value = tutti_group_rank(g) + 1;
    tutti_cancel_token *token = NULL;
    EXPECT_OK(tutti_cancel_token_create(NULL, -1, &token, &e));
    tutti_persistent *p = make_sum(g, &value, TUTTI_CALL(.token = token, .flags = cancellable(g)));
    EXPECT_OK(tutti_persistent_run(p, &e));
    EXPECT(value == RANKS * (RANKS + 1) / 2);
    EXPECT_OK(tutti_cancel_token_cancel(token, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "has fired", tutti_persistent_start(p, &e));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "token", tutti_persistent_run(p, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
}

static void *wait_beside(void *user)
{
    EXPECT_OK(tutti_persistent_wait(user, TUTTI_FOREVER, NULL));
    return NULL;
}

static void test_waiting_threads(tutti_group *g)
{
    tutti_error e;
    int32_t value = 0;
    tutti_persistent *p = make_sum(g, &value, NULL);
    for (int run = 0; run < 5 * RUNS; run++) {
        value = tutti_group_rank(g) + 1 + run;
        EXPECT_OK(tutti_persistent_start(p, &e));
        pthread_t thread;
        const int beside = pthread_create(&thread, NULL, wait_beside, p) == 0;
        EXPECT(beside);
        EXPECT_ERROR(&e, TUTTI_OK, "", tutti_persistent_wait(p, run % 3 ? TUTTI_FOREVER : LONG_MS, &e));
        EXPECT(value == RANKS * (RANKS + 1) / 2 + RANKS * run);
        if (beside) {
            pthread_join(thread, NULL);
        }
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
}

/* A start sends this rank's data: the others end, although this one does not wait before they have. */
static void test_start_arrives(tutti_group *g)
{
    tutti_error e;
    const int me = tutti_group_rank(g);
    int32_t value = 0;
    int32_t token = 0;
    const DLTensor message = {.data = &token, .device = {kDLCPU, 0}, .dtype = {kDLInt, 32, 1}};
    DLTensor received = message;
    tutti_persistent *p = make_sum(g, &value, NULL);
    for (int run = 0; run < RUNS; run++) {
        value = me + 1 + run;
        EXPECT_OK(tutti_persistent_start(p, &e));
        for (int r = 1; me == 0 && r < RANKS; r++) {
            EXPECT_OK(tutti_recv(g, &received, r, 5, NULL, NULL));
        }
        EXPECT_OK(tutti_persistent_wait(p, TUTTI_FOREVER, &e));
        EXPECT(value == RANKS * (RANKS + 1) / 2 + RANKS * run);
        if (me != 0) {
            EXPECT_OK(tutti_send(g, &message, 0, 5, NULL));
        }
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
}

/* Of three blocks the one in the middle is freed. */
static void test_freed_memory(tutti_group *g)
{
    tutti_error e;
    void *blocks[3] = {NULL, NULL, NULL};
    tutti_persistent *sums[3];
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(tutti_alloc(g, 4096, &blocks[i], &e));
        int32_t *value = (int32_t *)((char *)blocks[i] + 4092); /* the last element */
        *value = tutti_group_rank(g) + 1;
        sums[i] = make_sum(g, value, NULL);
    }
    EXPECT_OK(tutti_persistent_run(sums[1], &e));
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_free(g, blocks[1], &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "freed", tutti_persistent_run(sums[1], &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "freed", tutti_persistent_start(sums[1], &e));
    for (int i = 0; i < 3; i++) {
        if (i != 1) {
            EXPECT_OK(tutti_persistent_run(sums[i], &e));
            EXPECT(*(int32_t *)((char *)blocks[i] + 4092) == RANKS * (RANKS + 1) / 2);
            EXPECT_OK(tutti_free(g, blocks[i], &e));
        }
        EXPECT_OK(tutti_persistent_release(sums[i], &e));
    }
}

/* After the end of its group, in both senses. */
static void test_group_end(tutti_group *g)
{
    tutti_error e;
    int32_t value = 1;
    tutti_group *sub = NULL;
    EXPECT_OK(tutti_group_split(g, 0, tutti_group_rank(g), NULL, &sub, &e));
    tutti_persistent *p = make_sum(sub, &value, NULL);
    tutti_persistent *running = make_sum(sub, &value, NULL);
    EXPECT_OK(tutti_persistent_run(p, &e));
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_group_abort(sub, &e));
    EXPECT_ERROR(&e, TUTTI_REVOKED, "", tutti_persistent_run(p, &e));
    if (tutti_persistent_start(running, &e) == TUTTI_OK) {
        EXPECT_ERROR(&e, TUTTI_REVOKED, "", tutti_persistent_wait(running, TUTTI_FOREVER, &e));
    } else {
        EXPECT(e.status == TUTTI_REVOKED);
    }
    EXPECT_OK(tutti_group_destroy(sub, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "the group has been destroyed", tutti_persistent_run(p, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "the group has been destroyed", tutti_persistent_start(p, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
    EXPECT_OK(tutti_persistent_release(running, &e));
}

struct taker {
    tutti_queue *queue;
    int refused;
};

static void try_to_take(const tutti_event *event, void *user)
{
    struct taker *t = user;
    tutti_error e;
    t->refused += tutti_queue_enqueue(t->queue, event->work, &e) == TUTTI_BAD_STATE &&
                  tutti_work_release(event->work) == TUTTI_BAD_STATE;
}

/* Handlers of events get the handles of a persistent operation, which stay its own, for kept works and others. */
static void test_owned_handles(tutti_group *g, const tutti_call *call)
{
    tutti_error e;
    tutti_events *events = NULL;
    struct taker taker = {0};
    int32_t value = 1;
    tutti_persistent *p = make_sum(g, &value, call);
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_queue_create(&taker.queue, &e));
    EXPECT_OK(tutti_events_on_complete(events, try_to_take, &taker, NULL, &e));
    for (int run = 1; run <= 3; run++) {
        value = 1;
        EXPECT_OK(tutti_persistent_start(p, &e));
        EXPECT_OK(tutti_persistent_wait(p, TUTTI_FOREVER, &e));
        EXPECT(value == RANKS);
    }
    EXPECT_OK(tutti_events_destroy(events, &e)); /* all handlers have returned */
    EXPECT(taker.refused == 3);
    EXPECT_OK(tutti_queue_destroy(taker.queue, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
}

struct visit {
    tutti_persistent *persistent;
    _Atomic int started; /* the start has returned */
    _Atomic int inside;  /* the handler has tried to wait */
    _Atomic int tried;   /* another thread has tried to start it again */
};

static void wait_in_handler(const tutti_event *event, void *user)
{
    struct visit *v = user;
    tutti_error e;
    EXPECT(event->status == TUTTI_OK && await_count(&v->started, 1));
    for (int64_t limit_ms = -1; limit_ms <= 1; limit_ms++) {
        EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_persistent_wait(v->persistent, limit_ms, &e));
    }
    atomic_store(&v->inside, 1);
    EXPECT(await_count(&v->tried, 1));
}

/* While the handler of its end runs, a run has not ended: no wait in the handler takes its outcome, and no thread
 * starts it again. For kept works and others. */
static void test_handler_of_own_end(tutti_group *g, const tutti_call *call)
{
    tutti_error e;
    tutti_events *events = NULL;
    int32_t value = 0;
    tutti_persistent *p = make_sum(g, &value, call);
    EXPECT_OK(tutti_events_create(g, &events, &e));
    for (int run = 0; run < RUNS; run++) {
        struct visit v = {.persistent = p};
        int64_t listener = 0;
        value = tutti_group_rank(g) + 1 + run;
        EXPECT_OK(tutti_events_on_complete(events, wait_in_handler, &v, &listener, &e));
        EXPECT_OK(tutti_persistent_start(p, &e));
        atomic_store(&v.started, 1);
        EXPECT(await_count(&v.inside, 1));
        EXPECT_ERROR(&e, TUTTI_BAD_STATE, "it is running", tutti_persistent_start(p, &e));
        atomic_store(&v.tried, 1);
        EXPECT_OK(tutti_persistent_wait(p, TUTTI_FOREVER, &e));
        EXPECT(value == RANKS * (RANKS + 1) / 2 + RANKS * run);
        EXPECT_OK(tutti_events_remove(events, listener, &e));
    }
    EXPECT_OK(tutti_events_destroy(events, &e));
    EXPECT_OK(tutti_persistent_release(p, &e));
}

static int32_t rank_main(tutti_group *g, void *user)
{
    (void)user;
    test_alone(g);
    test_list(g, 1, 0);
    test_list(g, 2, 0);
    test_list(g, 1, 1);
    test_bad_arguments(g);
    test_order(g);
    test_mismatch(g);
    test_batch(g);
    test_callback(g);
    test_start_in_callback(g);
    test_again(g);
    test_cancel(g);
    test_token(g);
    test_waiting_threads(g);
    test_start_arrives(g);
    test_freed_memory(g);
    test_owned_handles(g, NULL);
    test_owned_handles(g, TUTTI_CALL(.operation_id = 7));
    test_handler_of_own_end(g, NULL);
    test_handler_of_own_end(g, TUTTI_CALL(.operation_id = 7));
    test_group_end(g);
    return 0;
}

int main(void)
{
    test_ranks(RANKS, rank_main);
    return test_result();
}
