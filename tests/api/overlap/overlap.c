/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One all_reduce beside one computation, and the pipeline: their results, the order of errors, and proof that
 * communication continues while a rank computes. For the proof, the other ranks join an operation only while rank 0 is
 * in the computation beside it. Rank 0 leaves that computation only when the others have their results.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"
#include "clock.h"

#define RANKS 3
#define MANY  40 /* tensors: more than may be under way at a time */
#define LARGE 300000

static tutti_group *group_of_all(tutti_group *world)
{
    const int32_t all[RANKS] = {0, 1, 2};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_create(world, all, RANKS, NULL, &g, NULL));
    return g;
}

/* ---- one all_reduce beside one computation ----------------------------------------------------------------------- */

/* Counters by which the ranks synchronize. */
struct progress {
    _Atomic int computing; /* computations that rank 0 has begun */
    _Atomic int reduced;   /* all_reduces that have ended, of all the others */
};

struct beside {
    pthread_t thread;
    int calls;
    struct progress *progress; /* NULL: waits for no rank */
    tutti_status answer;
};

static tutti_status compute_beside(void *user)
{
    struct beside *b = user;
    b->calls++;
    EXPECT(pthread_equal(b->thread, pthread_self()));
    if (b->progress) {
        atomic_fetch_add(&b->progress->computing, 1);
        EXPECT(await_count(&b->progress->reduced, RANKS - 1));
    }
    return b->answer;
}

static void beside(tutti_group *g, int64_t count, struct progress *progress)
{
    int32_t me = tutti_group_rank(g);
    double *in = malloc((size_t)count * sizeof(*in));
    double *out = malloc((size_t)count * sizeof(*out));
    if (!in || !out) {
        abort();
    }
    for (int64_t i = 0; i < count; i++) {
        in[i] = (double)((me + 1) * (i % 1000));
    }
    tutti_error e;
    DLTensor input = tutti_tensor_1d(in, &count, TUTTI_F64);
    DLTensor output = tutti_tensor_1d(out, &count, TUTTI_F64);
    struct beside b = {.thread = pthread_self(), .progress = me == 0 ? progress : NULL};
    if (me == 0) {
        EXPECT_OK(tutti_overlap_all_reduce(g, &input, &output, TUTTI_SUM, compute_beside, &b, TUTTI_CALL(.error = &e)));
        EXPECT(b.calls == 1 && e.status == TUTTI_OK);
    } else {
        EXPECT(await_count(&progress->computing, 1));
        EXPECT_OK(tutti_all_reduce(g, &input, &output, TUTTI_SUM, NULL));
        atomic_fetch_add(&progress->reduced, 1);
    }
    bool right = true;
    for (int64_t i = 0; i < count; i++) {
        right = right && out[i] == (double)(6 * (i % 1000)) && in[i] == (double)((me + 1) * (i % 1000));
    }
    EXPECT(right);
    free(in);
    free(out);
}

struct counter {
    _Atomic int calls;
    tutti_status status;
};

static void count_end(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    struct counter *c = user;
    c->status = status;
    atomic_fetch_add(&c->calls, 1);
}

static void beside_errors(tutti_group *g)
{
    int64_t count = tutti_group_rank(g) == 1 ? 4 : 5;
    int64_t one = 1;
    float data[5] = {1, 1, 1, 1, 1};
    tutti_error e;
    struct beside b = {.thread = pthread_self(), .answer = TUTTI_NOT_FOUND};
    struct counter c = {.status = -1};
    DLTensor t = tutti_tensor_1d(data, &one, TUTTI_F32);
    /* as seen by the computation: the all_reduce has been waited for */
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "overlap_all_reduce: the computation returned NOT_FOUND",
                 tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, compute_beside, &b,
                                          TUTTI_CALL(.error = &e, .callback = count_end, .user = &c)));
    EXPECT(data[0] == RANKS && e.operation == TUTTI_OP_ALL_REDUCE && e.rank == tutti_group_rank(g));
    EXPECT(atomic_load(&c.calls) == 1 && c.status == TUTTI_OK); /* the callback is the operation's */
    /* as seen by the all_reduce: the computation has run; its own error comes first */
    DLTensor uneven = tutti_tensor_1d(data, &count, TUTTI_F32);
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "computation",
                 tutti_overlap_all_reduce(g, &uneven, &uneven, TUTTI_SUM, compute_beside, &b, TUTTI_CALL(.error = &e)));
    b.answer = TUTTI_OK;
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "overlap_all_reduce: ",
                 tutti_overlap_all_reduce(g, &uneven, &uneven, TUTTI_SUM, compute_beside, &b,
                                          TUTTI_CALL(.error = &e, .callback = count_end, .user = &c)));
    EXPECT(e.sequence > 0 && e.rank == tutti_group_rank(g) && strcmp(e.backend, tutti_group_backend(g)) == 0);
    EXPECT(b.calls == 3 && atomic_load(&c.calls) == 2 && c.status == TUTTI_MISMATCH);
    EXPECT(tutti_overlap_all_reduce(g, &uneven, &uneven, TUTTI_SUM, compute_beside, &b, NULL) == TUTTI_MISMATCH);
    EXPECT_USABLE(g);
}

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

struct stage {
    size_t next;               /* index that must come now */
    struct progress *progress; /* NULL: waits for no rank */
    size_t fails_at;
    tutti_status answer;
    int32_t rank;
};

static double tensor_value(int32_t rank, size_t index, int64_t element)
{
    return (double)(rank + 1) * (double)(index + 1) + (double)(element % 50);
}

static double tensor_sum(size_t index, int64_t element)
{
    double sum = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        sum += tensor_value(r, index, element);
    }
    return sum;
}

static tutti_status compute_stage(size_t index, DLTensor *tensor, void *user)
{
    struct stage *s = user;
    EXPECT(index == s->next++);
    if (s->progress) {
        atomic_fetch_add(&s->progress->computing, 1);
        EXPECT(await_count(&s->progress->reduced, (RANKS - 1) * (int)index)); /* all those before */
    }
    double *data = tensor->data;
    for (int64_t e = 0; e < tensor->shape[0]; e++) {
        data[e] = tensor_value(s->rank, index, e);
    }
    return index == s->fails_at ? s->answer : TUTTI_OK;
}

struct tensors {
    int64_t counts[MANY];
    double *data[MANY];
    DLTensor tensor[MANY];
    DLTensor *list[MANY];
};

static void make_tensors(struct tensors *t, int64_t largest)
{
    for (size_t i = 0; i < MANY; i++) {
        t->counts[i] = i % 5 == 3 ? largest : (int64_t)i % 7; /* 0 too */
        t->data[i] = calloc((size_t)t->counts[i] + 1, sizeof(double));
        if (!t->data[i]) {
            abort();
        }
        t->tensor[i] = tutti_tensor_1d(t->data[i], &t->counts[i], TUTTI_F64);
        t->list[i] = &t->tensor[i];
    }
}

/* Whether tensors begin..end-1 hold their sums. */
static bool summed(const struct tensors *t, size_t begin, size_t end)
{
    bool right = true;
    for (size_t i = begin; i < end; i++) {
        for (int64_t e = 0; e < t->counts[i]; e++) {
            right = right && t->data[i][e] == tensor_sum(i, e);
        }
    }
    return right;
}

static void free_tensors(struct tensors *t)
{
    for (size_t i = 0; i < MANY; i++) {
        free(t->data[i]);
    }
}

/* Rank 0 pipelines. The others reduce one by one, each tensor when rank 0 computes the next. */
static void pipeline(tutti_group *g, int64_t largest, struct progress *progress)
{
    int32_t me = tutti_group_rank(g);
    tutti_error e;
    struct tensors t;
    struct counter c = {.status = -1};
    struct stage s = {.fails_at = MANY, .rank = me};
    make_tensors(&t, largest);
    if (me == 0) {
        s.progress = progress;
        EXPECT_OK(tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s,
                                         TUTTI_CALL(.error = &e, .callback = count_end, .user = &c)));
        EXPECT(s.next == MANY && e.status == TUTTI_OK && atomic_load(&c.calls) == MANY && c.status == TUTTI_OK);
    } else {
        for (size_t i = 0; i < MANY; i++) {
            EXPECT_OK(compute_stage(i, t.list[i], &s));
            EXPECT(i + 1 == MANY || await_count(&progress->computing, (int)i + 2));
            EXPECT_OK(tutti_all_reduce(g, t.list[i], t.list[i], TUTTI_SUM, NULL));
            atomic_fetch_add(&progress->reduced, 1);
        }
    }
    EXPECT(summed(&t, 0, MANY));
    free_tensors(&t);
}

/* A computation fails on all ranks: the tensors before it are reduced, those after it are not. */
static void pipeline_computation_fails(tutti_group *g)
{
    tutti_error e;
    struct tensors t;
    struct stage s = {.fails_at = 20, .answer = TUTTI_NO_RESOURCE, .rank = tutti_group_rank(g)};
    make_tensors(&t, 50);
    EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "overlap_pipeline: the computation of tensor 20 returned NO_RESOURCE",
                 tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s, TUTTI_CALL(.error = &e)));
    EXPECT(s.next == 21 && summed(&t, 0, 20) && e.rank == s.rank);
    EXPECT_USABLE(g);
    free_tensors(&t);
}

/* Ranks differ in one tensor: all continue to the end, or to a computation that fails later, and return that status. */
static void pipeline_mismatch(tutti_group *g, size_t fails_at)
{
    tutti_error e;
    struct tensors t;
    struct stage s = {.fails_at = fails_at, .answer = TUTTI_NO_RESOURCE, .rank = tutti_group_rank(g)};
    make_tensors(&t, 50);
    if (tutti_group_rank(g) == 1) {
        t.counts[13] -= 1;
    }
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "overlap_pipeline: tensor 13: ",
                 tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s, TUTTI_CALL(.error = &e)));
    EXPECT(s.next == (fails_at < MANY ? fails_at + 1 : MANY));
    EXPECT(summed(&t, 0, 13) && summed(&t, 14, fails_at) && e.sequence > 0);
    EXPECT_USABLE(g);
    free_tensors(&t);
}

/* The last rank leaves the pipeline in the middle: the others reach their deadline and stop. */
static void pipeline_missing_rank(tutti_group *world)
{
    static _Atomic int ended;
    tutti_error e;
    struct tensors t;
    tutti_group *g = group_of_all(world);
    struct stage s = {.fails_at = MANY, .answer = TUTTI_NO_RESOURCE, .rank = tutti_group_rank(g)};
    make_tensors(&t, 50);
    if (s.rank == RANKS - 1) {
        s.fails_at = 9;
        tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s, NULL);
        EXPECT(s.next <= 10); /* fewer if another rank was so slow that its deadline came first */
        EXPECT(await_count(&ended, RANKS - 1));
    } else {
        tutti_status status = tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s,
                                                     TUTTI_CALL(.error = &e, .timeout_ms = 300));
        EXPECT(status >= TUTTI_TIMEOUT && e.status == status && strstr(e.message, "overlap_pipeline: tensor "));
        EXPECT(s.next < MANY);
        struct beside b = {.thread = pthread_self()};
        EXPECT(tutti_overlap_all_reduce(g, t.list[1], t.list[1], TUTTI_SUM, compute_beside, &b, NULL) == TUTTI_REVOKED);
        s.next = 0;
        EXPECT_ERROR(&e, TUTTI_REVOKED, "tensor 0",
                     tutti_overlap_pipeline(g, t.list, MANY, TUTTI_SUM, compute_stage, &s, TUTTI_CALL(.error = &e)));
        atomic_fetch_add(&ended, 1);
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    free_tensors(&t);
}

/* ---- in a callback: waiting there could never end, so nothing is started ----------------------------------------- */

struct visit {
    tutti_group *g;
    _Atomic int over;
};

static void visit(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    struct visit *v = user;
    int64_t one = 1;
    double number = 1;
    tutti_error e;
    DLTensor t = tutti_tensor_1d(&number, &one, TUTTI_F64);
    DLTensor *list = &t;
    struct beside b = {.thread = pthread_self()};
    struct stage s = {.fails_at = 1};
    EXPECT(status == TUTTI_OK);
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback",
                 tutti_overlap_all_reduce(v->g, &t, &t, TUTTI_SUM, compute_beside, &b, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback",
                 tutti_overlap_pipeline(v->g, &list, 1, TUTTI_SUM, compute_stage, &s, TUTTI_CALL(.error = &e)));
    EXPECT(b.calls == 0 && s.next == 0);
    atomic_store(&v->over, 1);
}

static void in_callback(tutti_group *g)
{
    struct visit v = {.g = g};
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = visit, .user = &v), &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    EXPECT(atomic_load(&v.over) == 1);
    EXPECT_USABLE(g);
}

static tutti_status rank(tutti_group *g, void *user)
{
    static struct progress progress_of[4];
    (void)user;
    beside(g, 1, &progress_of[0]);
    beside(g, LARGE, &progress_of[1]);
    beside_errors(g);
    pipeline(g, 100, &progress_of[2]);
    pipeline(g, LARGE, &progress_of[3]);
    pipeline_computation_fails(g);
    pipeline_mismatch(g, MANY);
    pipeline_mismatch(g, 15);
    pipeline_missing_rank(g);
    in_callback(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
