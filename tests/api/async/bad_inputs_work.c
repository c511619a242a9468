/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad arguments of the asynchronous forms: the status, no work, no callback. The group still works. */
#include <sys/wait.h>
#include <unistd.h>

#include "api/check.h"

static _Atomic int called_back;

static void never(tutti_status status, const tutti_error *error, void *user)
{
    (void)status;
    (void)error;
    (void)user;
    atomic_fetch_add_explicit(&called_back, 1, memory_order_relaxed);
}

#define UNTOUCHED ((tutti_work *)(uintptr_t)0x51)
#define CALL      TUTTI_CALL(.error = &e, .callback = never)
#define BAD(status, word, call)                                                                                        \
    do {                                                                                                               \
        work = UNTOUCHED;                                                                                              \
        EXPECT_ERROR(&e, status, word, call);                                                                          \
        EXPECT(work == UNTOUCHED);                                                                                     \
    } while (0)

/* Every form refuses to start without a place for the work. */
static void no_place(tutti_group *g, DLTensor *t, DLTensor *u)
{
    tutti_error e;
    tutti_work *work;
    int64_t counts[2] = {1, 1};
    DLManagedTensorVersioned *managed = NULL;
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_all_reduce_async(g, t, t, TUTTI_SUM, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_reduce_async(g, t, t, TUTTI_SUM, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_broadcast_async(g, t, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_all_gather_async(g, t, u, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_gather_async(g, t, u, 0, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_scatter_async(g, u, t, 0, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_reduce_scatter_async(g, u, t, TUTTI_SUM, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_all_to_all_async(g, u, u, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_barrier_async(g, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_all_gather_v_async(g, t, u, 0, counts, NULL, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_reduce_scatter_v_async(g, u, t, TUTTI_SUM, 0, counts, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_all_to_all_v_async(g, u, u, 0, counts, NULL, counts, NULL, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_send_async(g, t, 0, 0, CALL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_recv_async(g, t, 0, 0, CALL, NULL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_recv_alloc_async(g, 0, 0, CALL, &managed, NULL, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_sendrecv_async(g, t, 0, 0, u, 0, 0, CALL, NULL, NULL));
    EXPECT_OK(tutti_batch_begin(g, NULL));
    BAD(TUTTI_INVALID_ARGUMENT, "work", tutti_batch_end_async(g, CALL, NULL));
    BAD(TUTTI_BAD_STATE, "batch", tutti_batch_end_async(g, CALL, &work)); /* closed in any case */
}

/* The checks are those of the synchronous forms; one of each kind shows that they are made. */
static void bad_arguments(tutti_group *g, DLTensor *t, DLTensor *u)
{
    tutti_error e;
    tutti_work *work;
    int64_t counts[2] = {1, -1};
    BAD(TUTTI_INVALID_ARGUMENT, "input", tutti_all_reduce_async(g, NULL, t, TUTTI_SUM, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "op is", tutti_all_reduce_async(g, t, t, 99, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "root", tutti_reduce_async(g, t, t, TUTTI_SUM, 7, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "root", tutti_broadcast_async(g, t, -1, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "dim", tutti_all_gather_async(g, t, u, 3, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "all_to_all_async", tutti_all_to_all_async(g, u, u, 0, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "counts", tutti_all_gather_v_async(g, t, u, 0, counts, NULL, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "peer", tutti_send_async(g, t, 9, 0, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "tag", tutti_recv_async(g, t, 1, -2, CALL, NULL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "tensor", tutti_recv_alloc_async(g, 1, 0, CALL, NULL, NULL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "own rank", tutti_send_async(g, t, tutti_group_rank(g), 0, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "overlaps", tutti_sendrecv_async(g, t, 1, 0, t, 1, 0, CALL, NULL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "flags",
        tutti_barrier_async(g, TUTTI_CALL(.error = &e, .callback = never, .flags = 0x80), &work));
    BAD(TUTTI_INVALID_ARGUMENT, "lane",
        tutti_barrier_async(g, TUTTI_CALL(.error = &e, .callback = never, .lane = 5), &work));
    BAD(TUTTI_INVALID_ARGUMENT, "NULL", tutti_barrier_async(NULL, CALL, &work));
    BAD(TUTTI_BAD_STATE, "destroyed", tutti_barrier_async((tutti_group *)(uintptr_t)0x700000015, CALL, &work));
    BAD(TUTTI_INVALID_ARGUMENT, "token",
        tutti_barrier(g, TUTTI_CALL(.error = &e, .token = (tutti_cancel_token *)(uintptr_t)0x18)));
    BAD(TUTTI_INVALID_ARGUMENT, "operation_id", tutti_barrier(g, TUTTI_CALL(.error = &e, .operation_id = 3)));
    BAD(TUTTI_BAD_STATE, "token",
        tutti_barrier_async(g, TUTTI_CALL(.error = &e, .token = (tutti_cancel_token *)(uintptr_t)0x700000018), &work));
    EXPECT_OK(tutti_batch_begin(g, NULL));
    BAD(TUTTI_BAD_STATE, "batch", tutti_barrier_async(g, CALL, &work));
    BAD(TUTTI_BAD_STATE, "batch", tutti_send_async(g, t, 1 - tutti_group_rank(g), 0, CALL, &work));
    EXPECT_OK(tutti_batch_end(g, NULL));
}

/* A handle of another type is as stale as one of nothing. */
static void bad_handles(tutti_group *g)
{
    tutti_work *const wrong[] = {NULL, UNTOUCHED, (tutti_work *)(uintptr_t)g,
                                 (tutti_work *)(uintptr_t)0x7fffffff00000006, (tutti_work *)(uintptr_t)-1};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tutti_status want = i == 0 ? TUTTI_INVALID_ARGUMENT : TUTTI_BAD_STATE;
        tutti_error e;
        int32_t answer = 77;
        int fd = 77;
        DLTensor view;
        EXPECT(tutti_work_test(wrong[i], &answer) == want);
        EXPECT(tutti_work_wait(wrong[i], TUTTI_FOREVER) == want);
        EXPECT(tutti_work_cancelled(wrong[i], &answer) == want);
        EXPECT(tutti_work_release(wrong[i]) == want);
        EXPECT_ERROR(&e, want, "work_error", tutti_work_error(wrong[i], &e));
        EXPECT_ERROR(&e, want, "work_result", tutti_work_result(wrong[i], &view, &e));
        EXPECT_ERROR(&e, want, "work_cancel", tutti_work_cancel(wrong[i], &e));
        EXPECT_ERROR(&e, want, "work_eventfd", tutti_work_eventfd(wrong[i], &fd, &e));
        EXPECT_ERROR(&e, want, "work_wait_token", tutti_work_wait_token(wrong[i], 0, NULL, &e));
        EXPECT(answer == 77 && fd == 77);
    }
}

static void bad_uses(tutti_group *g)
{
    tutti_error e;
    tutti_cancel_token *token = NULL;
    tutti_work *work;
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    EXPECT(tutti_work_wait(work, -2) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_work_test(work, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_work_cancelled(work, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_work_error(work, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "tensor", tutti_work_result(work, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "descriptor", tutti_work_eventfd(work, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "token", tutti_work_wait_token(work, 0, NULL, &e));
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "limit_ms is -2", tutti_work_wait_token(work, -2, token, &e));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    DLTensor view;
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "no output", tutti_work_result(work, &view, &e));
    EXPECT_OK(tutti_work_release(work));
    EXPECT(tutti_work_release(work) == TUTTI_BAD_STATE);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    float a[2] = {1, 2};
    float b[4] = {0};
    int64_t two = 2;
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(a, &two, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(b, &four, TUTTI_F32);
    no_place(g, &t, &u);
    bad_arguments(g, &t, &u);
    bad_handles(g);
    bad_uses(g);
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* In a child with a group of its own, a token of the parent. */
static void forked_token(void)
{
    tutti_error e;
    tutti_cancel_token *token = NULL;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    const pid_t pid = fork();
    if (pid == 0) {
        tutti_group *g = NULL;
        tutti_work *work;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1), &g, &e));
        BAD(TUTTI_FORKED, "token of the call was made before fork(); the child must create its own",
            tutti_barrier_async(g, TUTTI_CALL(.error = &e, .token = token), &work));
        EXPECT_OK(tutti_barrier_async(g, NULL, &work));
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(work));
        EXPECT_ERROR(&e, TUTTI_FORKED, "made before fork()", tutti_cancel_token_cancel(token, NULL, &e));
        EXPECT_OK(tutti_group_destroy(g, &e));
        _exit(test_result());
    }
    int status = -1;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
}

int main(void)
{
    forked_token();
    test_ranks(2, rank);
    EXPECT(atomic_load_explicit(&called_back, memory_order_relaxed) == 0);
    return test_result();
}
