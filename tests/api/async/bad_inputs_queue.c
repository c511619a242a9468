/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad arguments of the functions on queues and cancellation tokens: the status, a message, and no output written. */
#include "api/check.h"

#define UNTOUCHED INT64_C(77)

/* NULL, invented handles, and one of another type. `kind` is in the low bits. */
#define WRONG 6

static void wrong_handles(tutti_queue *queues[WRONG], tutti_cancel_token *tokens[WRONG], tutti_group *g)
{
    tutti_queue *queue = NULL;
    tutti_cancel_token *token = NULL;
    EXPECT_OK(tutti_queue_create(&queue, NULL));
    EXPECT_OK(tutti_cancel_token_create(NULL, -1, &token, NULL));
    EXPECT_OK(tutti_queue_destroy(queue, NULL));
    EXPECT_OK(tutti_cancel_token_destroy(token, NULL));
    const uintptr_t common[WRONG - 2] = {0, (uintptr_t)g, (uintptr_t)-1, 0x51};
    for (int i = 0; i < WRONG - 2; i++) {
        queues[i] = (tutti_queue *)common[i];        /* NOLINT: no address */
        tokens[i] = (tutti_cancel_token *)common[i]; /* NOLINT */
    }
    queues[WRONG - 2] = queue;
    tokens[WRONG - 2] = token;
    queues[WRONG - 1] = (tutti_queue *)token;
    tokens[WRONG - 1] = (tutti_cancel_token *)queue;
}

static void bad_queues(tutti_queue *const *queues, tutti_work *work)
{
    for (int i = 0; i < WRONG; i++) {
        tutti_error e;
        DLTensor view = {.ndim = 77};
        int64_t n = UNTOUCHED;
        tutti_queue *q = queues[i];
        tutti_status want = i == 0 ? TUTTI_INVALID_ARGUMENT : TUTTI_BAD_STATE;
        const char *word = i == 0 ? "queue is NULL" : "queue has been destroyed";
        EXPECT(tutti_queue_count(q, &n) == want);
        EXPECT(tutti_queue_pending(q, &n) == want);
        EXPECT(tutti_queue_clear_completed(q, &n) == want);
        EXPECT(tutti_queue_cancel_all(q, &n) == want);
        EXPECT_ERROR(&e, want, word, tutti_queue_enqueue(q, work, &e));
        EXPECT_ERROR(&e, want, word, tutti_queue_wait_all(q, TUTTI_FOREVER, &e));
        EXPECT_ERROR(&e, want, word, tutti_queue_wait_any(q, TUTTI_FOREVER, &n, &e));
        EXPECT_ERROR(&e, want, word, tutti_queue_status(q, 0, &e));
        EXPECT_ERROR(&e, want, word, tutti_queue_result(q, 0, &view, &e));
        EXPECT_ERROR(&e, want, word, tutti_queue_destroy(q, &e));
        EXPECT(tutti_queue_destroy(q, NULL) == want);
        EXPECT(n == UNTOUCHED && view.ndim == 77);
    }
}

static void bad_arguments(tutti_work *work)
{
    tutti_error e;
    DLTensor view;
    int64_t n = UNTOUCHED;
    tutti_queue *queue = NULL;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "queue_create", tutti_queue_create(NULL, &e));
    EXPECT_OK(tutti_queue_create(&queue, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "work is NULL", tutti_queue_enqueue(queue, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "work has been released",
                 tutti_queue_enqueue(queue, (tutti_work *)(uintptr_t)0x56, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "work has been released", tutti_queue_enqueue(queue, (tutti_work *)queue, &e));
    EXPECT(tutti_queue_count(queue, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_queue_pending(queue, NULL) == TUTTI_INVALID_ARGUMENT);
    for (int round = 0; round < 2; round++) { /* the same in an empty queue and in one with a member */
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-2", tutti_queue_wait_all(queue, -2, &e));
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-9223372036854775808", tutti_queue_wait_all(queue, INT64_MIN, &e));
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-2", tutti_queue_wait_any(queue, -2, &n, &e));
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "index", tutti_queue_wait_any(queue, 0, NULL, &e));
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "tensor", tutti_queue_result(queue, 0, NULL, &e));
        EXPECT(tutti_queue_status(queue, 0, NULL) == TUTTI_INVALID_ARGUMENT);
        EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "queue of", tutti_queue_status(queue, round, &e));
        EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "queue of", tutti_queue_status(queue, INT64_MIN, &e));
        EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "queue of", tutti_queue_result(queue, INT64_MAX, &view, &e));
        EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "queue of", tutti_queue_result(queue, -1, &view, &e));
        if (round == 0) {
            EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
        }
    }
    EXPECT(n == UNTOUCHED);
    EXPECT_OK(tutti_queue_wait_all(queue, INT64_MAX, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "no output", tutti_queue_result(queue, 0, &view, &e)); /* a barrier */
    EXPECT_OK(tutti_queue_destroy(queue, &e));
}

static void bad_tokens(tutti_cancel_token *const *tokens)
{
    tutti_error e;
    tutti_cancel_token *made = (tutti_cancel_token *)(uintptr_t)UNTOUCHED;
    tutti_cancel_token *good = NULL;
    for (int i = 0; i < WRONG; i++) {
        int64_t n = UNTOUCHED;
        int32_t fired = (int32_t)UNTOUCHED;
        tutti_status want = i == 0 ? TUTTI_INVALID_ARGUMENT : TUTTI_BAD_STATE;
        const char *word = i == 0 ? "token is NULL" : "token has been destroyed";
        EXPECT(tutti_cancel_token_fired(tokens[i], &fired) == want);
        EXPECT_ERROR(&e, want, word, tutti_cancel_token_cancel(tokens[i], &n, &e));
        EXPECT_ERROR(&e, want, word, tutti_cancel_token_destroy(tokens[i], &e));
        EXPECT(tutti_cancel_token_destroy(tokens[i], NULL) == want);
        if (i > 0) { /* no parent is legal */
            EXPECT_ERROR(&e, want, "parent token has been", tutti_cancel_token_create(tokens[i], -1, &made, &e));
        }
        EXPECT(n == UNTOUCHED && fired == (int32_t)UNTOUCHED);
    }
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-2", tutti_cancel_token_create(NULL, -2, &made, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "pointer", tutti_cancel_token_create(NULL, 0, NULL, &e));
    EXPECT(made == (tutti_cancel_token *)(uintptr_t)UNTOUCHED);
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &good, NULL));
    EXPECT(tutti_cancel_token_fired(good, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_OK(tutti_cancel_token_destroy(good, NULL));
}

/* 8192 of each, and then no more. */
static void too_many(void)
{
    static tutti_queue *queues[8192];
    tutti_error e;
    tutti_queue *more = NULL;
    for (int i = 0; i < 8192; i++) {
        EXPECT_OK(tutti_queue_create(&queues[i], NULL));
    }
    EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "queues", tutti_queue_create(&more, &e));
    EXPECT(more == NULL);
    for (int i = 0; i < 8192; i++) {
        EXPECT_OK(tutti_queue_destroy(queues[i], NULL));
    }
    EXPECT_OK(tutti_queue_create(&more, &e));
    EXPECT_OK(tutti_queue_destroy(more, &e));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_queue *queues[WRONG];
    tutti_cancel_token *tokens[WRONG];
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    wrong_handles(queues, tokens, g);
    bad_queues(queues, work);
    bad_tokens(tokens);
    bad_arguments(work);
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

int main(void)
{
    too_many();
    test_ranks(1, rank);
    return test_result();
}
