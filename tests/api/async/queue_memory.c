/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of queues: a queue that has reached its size allocates nothing. Without memory, a call that needs some fails
 * and changes nothing. The allocator of this program counts, and refuses on request; sanitizers have their own.
 *
 * tutti-test: trees=release,debug
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/check.h"

#define MEMBERS 100

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

/* Of this thread: allocations so far, and how many more succeed. */
static _Thread_local long allocations;
static _Thread_local long left = -1;

static bool allowed(void)
{
    allocations++;
    if (left == 0) {
        return false;
    }
    left -= left > 0;
    return true;
}

void *malloc(size_t size)
{
    return allowed() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t count, size_t size)
{
    return allowed() ? __libc_calloc(count, size) : NULL;
}

void *realloc(void *memory, size_t size)
{
    return allowed() ? __libc_realloc(memory, size) : NULL;
}

static void fill(tutti_group *g, tutti_queue *queue, int count)
{
    for (int i = 0; i < count; i++) {
        tutti_work *work = NULL;
        EXPECT_OK(tutti_barrier_async(g, NULL, &work));
        EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
    }
}

static void steady(tutti_group *g, tutti_queue *queue)
{
    int64_t n = 0;
    fill(g, queue, MEMBERS);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT_OK(tutti_queue_clear_completed(queue, &n));
    long before = allocations;
    for (int round = 0; round < 20; round++) {
        fill(g, queue, MEMBERS);
        EXPECT_OK(tutti_queue_wait_any(queue, TUTTI_FOREVER, &n, NULL));
        EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
        EXPECT_OK(tutti_queue_clear_completed(queue, &n));
        EXPECT(n == MEMBERS);
    }
    EXPECT(allocations == before);
}

/* A work that is refused is unchanged: once it is released, its slot can be used again. */
static void refused_for_good(tutti_group *g, tutti_queue *queue)
{
    int64_t n = 0;
    long before = allocations;
    for (int round = 0; round < 2 * MEMBERS; round++) {
        tutti_work *work = NULL;
        EXPECT_OK(tutti_barrier_async(g, NULL, &work));
        EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
        EXPECT(tutti_queue_enqueue(queue, work, NULL) == TUTTI_BAD_STATE);
        EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
        EXPECT_OK(tutti_queue_clear_completed(queue, &n));
        EXPECT(n == 1);
    }
    EXPECT(allocations == before);
}

/* Without memory there are only the works that were made before. */
static void work_refused(tutti_group *g)
{
    tutti_error e;
    tutti_work *works[10 * MEMBERS];
    tutti_status status = TUTTI_OK;
    int count = 0;
    left = 0;
    while (count < 10 * MEMBERS &&
           (status = tutti_work_create(g, NULL, TUTTI_CALL(.error = &e), &works[count])) == TUTTI_OK) {
        count++;
    }
    left = -1;
    EXPECT(status == TUTTI_NO_MEMORY && e.status == TUTTI_NO_MEMORY && strstr(e.message, "no memory for another"));
    while (count-- > 0) {
        EXPECT_OK(tutti_work_complete(works[count], TUTTI_OK, NULL, NULL));
        EXPECT_OK(tutti_work_release(works[count]));
    }
}

/* An enqueue needs at most two allocations: a longer array and a member. */
static void refused(tutti_group *g, tutti_queue *queue)
{
    tutti_error e;
    int64_t n = -1;
    tutti_work *work = NULL;
    fill(g, queue, 16);
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    for (long successes = 0; successes < 2; successes++) {
        left = successes;
        tutti_status status = tutti_queue_enqueue(queue, work, &e);
        left = -1;
        EXPECT(status == TUTTI_NO_MEMORY && e.status == TUTTI_NO_MEMORY && strstr(e.message, "member 16"));
        EXPECT_OK(tutti_queue_count(queue, &n));
        EXPECT(n == 16);
    }
    EXPECT_OK(tutti_queue_enqueue(queue, work, &e)); /* it is in no queue yet */
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e));
    EXPECT_OK(tutti_queue_clear_completed(queue, &n));
    EXPECT(n == 17);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_queue *queue = NULL;
    tutti_cancel_token *token = NULL;
    left = 0;
    tutti_status queue_status = tutti_queue_create(&queue, NULL);
    tutti_status token_status = tutti_cancel_token_create(NULL, -1, &token, NULL);
    left = -1;
    EXPECT(queue_status == TUTTI_NO_MEMORY && !queue && token_status == TUTTI_NO_MEMORY && !token);
    EXPECT_OK(tutti_queue_create(&queue, &e));
    refused(g, queue);
    work_refused(g);
    steady(g, queue);
    refused_for_good(g, queue);
    EXPECT_OK(tutti_queue_destroy(queue, &e));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, rank);
    return test_result();
}
