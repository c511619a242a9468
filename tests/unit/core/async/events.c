/* SPDX-License-Identifier: BSD-3-Clause */
/* Which listeners and handlers are notified of an end, in which order, how often; and what handlers may do to their own
 * list. */
#include "events_support.h"

/* The calls, as letters in their order. */
static char calls[64];
static size_t call_count;

static struct tti_group *group;
static tutti_events *events;
static tutti_error error;

static int setup(void **state)
{
    (void)state;
    memset(calls, 0, sizeof(calls));
    call_count = 0;
    group = group_make();
    return tutti_events_create(group->handle, &events, &error) != TUTTI_OK;
}

static int teardown(void **state)
{
    (void)state;
    if (tutti_events_destroy(events, NULL) == TUTTI_INVALID_ARGUMENT) {
        return 1;
    }
    return group_free(group) != TUTTI_OK;
}

/* Exactly these have been called since the last check. */
static void expect_calls(const char *letters)
{
    assert_string_equal(calls, letters);
    memset(calls, 0, sizeof(calls));
    call_count = 0;
}

static void record(const tutti_event *event, void *user)
{
    (void)event;
    if (call_count + 1 < sizeof(calls)) {
        calls[call_count++] = *(const char *)user;
    }
}

static void on_operation(tutti_events *e, int64_t operation_id, const char *letter)
{
    assert_int_equal(tutti_events_on_operation(e, operation_id, record, (void *)letter, NULL, &error), TUTTI_OK);
}

static void on_complete(tutti_events *e, const char *letter)
{
    assert_int_equal(tutti_events_on_complete(e, record, (void *)letter, NULL, &error), TUTTI_OK);
}

static void listeners_get_events_of_their_kind(void **state)
{
    (void)state;
    notify_end(group, 0, TUTTI_OK);
    on_complete(events, "c");
    assert_int_equal(tutti_events_on_error(events, record, "e", NULL, &error), TUTTI_OK);
    notify_end(group, 0, TUTTI_OK);
    notify_end(group, 7, TUTTI_OK);
    expect_calls("cc");
    notify_end(group, 0, TUTTI_TIMEOUT);
    notify_end(group, 7, TUTTI_CANCELLED);
    expect_calls("ee");
}

static void handlers_are_called_once(void **state)
{
    (void)state;
    on_operation(events, 7, "a");
    on_operation(events, -7, "n");
    on_operation(events, 7, "b");
    on_operation(events, 7 + 32, "o"); /* in the same place as 7 */
    notify_end(group, 0, TUTTI_OK);
    notify_end(group, 8, TUTTI_OK);
    expect_calls("");
    notify_end(group, 7, TUTTI_MISMATCH);
    expect_calls("ab");
    notify_end(group, 7, TUTTI_OK);
    expect_calls("");
    notify_end(group, 39, TUTTI_OK);
    notify_end(group, -7, TUTTI_OK);
    expect_calls("on");
}

static void order_is_that_of_adding(void **state)
{
    (void)state;
    tutti_events *other;
    assert_int_equal(tutti_events_create(group->handle, &other, &error), TUTTI_OK);
    on_complete(other, "x");
    on_complete(events, "y");
    on_operation(events, 5, "1");
    on_operation(other, 5, "2");
    on_complete(other, "z");
    on_operation(events, 5, "3");
    notify_end(group, 5, TUTTI_OK);
    expect_calls("xyz123");
    assert_int_equal(tutti_events_destroy(other, &error), TUTTI_OK);
    notify_end(group, 5, TUTTI_OK);
    expect_calls("y");
}

static void check_event(const tutti_event *event, void *user)
{
    if (event->size == sizeof(*event) && event->status == TUTTI_TIMEOUT && event->operation == TUTTI_OP_BARRIER &&
        event->operation_id == 3 && event->error && event->error->status == TUTTI_TIMEOUT) {
        record(event, user);
    }
}

static void the_event_is_handed_on(void **state)
{
    (void)state;
    assert_int_equal(tutti_events_on_operation(events, 3, check_event, "h", NULL, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_error(events, check_event, "l", NULL, &error), TUTTI_OK);
    notify_end(group, 3, TUTTI_TIMEOUT);
    expect_calls("lh");
}

/* ---- handlers that change the list ------------------------------------------------------------------------------- */

/* A handler that removes another one, and records whether that one existed. */
struct removal {
    int64_t target;
};

static void remove_target(const tutti_event *event, void *user)
{
    struct removal *r = user;
    tutti_status status = tutti_events_remove(events, r->target, NULL);
    record(event, status == TUTTI_OK ? "r" : status == TUTTI_NOT_FOUND ? "n" : "?");
}

static void removed_ones_are_not_called(void **state)
{
    (void)state;
    struct removal next = {0};
    struct removal last = {0};
    int64_t id;
    assert_int_equal(tutti_events_on_operation(events, 4, remove_target, &next, NULL, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_operation(events, 4, record, "h", &next.target, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_complete(events, remove_target, &last, &id, &error), TUTTI_OK);
    on_complete(events, "k");
    assert_int_equal(tutti_events_on_complete(events, record, "l", &last.target, &error), TUTTI_OK);
    notify_end(group, 4, TUTTI_OK);
    expect_calls("rkr");
    notify_end(group, 4, TUTTI_OK);
    expect_calls("nk"); /* there is nothing left to remove */
    assert_int_equal(tutti_events_remove(events, id, &error), TUTTI_OK);
    notify_end(group, 4, TUTTI_OK);
    expect_calls("k");
}

static void a_listener_may_remove_itself(void **state)
{
    (void)state;
    struct removal itself = {0};
    assert_int_equal(tutti_events_on_complete(events, remove_target, &itself, &itself.target, &error), TUTTI_OK);
    on_complete(events, "l");
    notify_end(group, 0, TUTTI_OK);
    expect_calls("rl");
    notify_end(group, 0, TUTTI_OK);
    expect_calls("l");
    /* a handler has been removed already when it is called */
    assert_int_equal(tutti_events_on_operation(events, 6, remove_target, &itself, &itself.target, &error), TUTTI_OK);
    notify_end(group, 6, TUTTI_OK);
    expect_calls("ln");
}

static void add_more(const tutti_event *event, void *user)
{
    record(event, user);
    tutti_events_on_operation(events, event->operation_id, record, "h", NULL, NULL);
    tutti_events_on_complete(events, record, "l", NULL, NULL);
}

static void added_ones_wait_for_the_next_event(void **state)
{
    (void)state;
    assert_int_equal(tutti_events_on_operation(events, 9, add_more, "a", NULL, &error), TUTTI_OK);
    notify_end(group, 9, TUTTI_OK);
    expect_calls("a");
    notify_end(group, 9, TUTTI_OK);
    expect_calls("lh");
}

static void remove_and_add_again(const tutti_event *event, void *user)
{
    int64_t *id = user;
    record(event, tutti_events_remove(events, *id, NULL) == TUTTI_OK ? "r" : "?");
    tutti_events_on_complete(events, remove_and_add_again, id, id, NULL);
}

static void replacing_oneself_does_not_go_round(void **state)
{
    (void)state;
    int64_t id = 0;
    assert_int_equal(tutti_events_on_complete(events, remove_and_add_again, &id, &id, &error), TUTTI_OK);
    notify_end(group, 0, TUTTI_OK);
    notify_end(group, 0, TUTTI_OK);
    expect_calls("rr");
}

static void destroy_all(const tutti_event *event, void *user)
{
    (void)user;
    record(event, tutti_events_destroy(events, NULL) == TUTTI_OK ? "d" : "?");
    record(event, tutti_events_destroy(events, NULL) == TUTTI_BAD_STATE ? "b" : "?");
    record(event, tutti_events_on_complete(events, record, "x", NULL, NULL) == TUTTI_BAD_STATE ? "b" : "?");
}

static void a_handler_may_destroy_its_object(void **state)
{
    (void)state;
    tutti_events *other;
    assert_int_equal(tutti_events_create(group->handle, &other, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_operation(events, 2, destroy_all, NULL, NULL, &error), TUTTI_OK);
    on_operation(events, 2, "h");
    on_operation(other, 2, "o");
    on_complete(events, "l");
    on_complete(other, "p");
    notify_end(group, 2, TUTTI_OK);
    expect_calls("lpdbbo");
    assert_int_equal(group_free(group), TUTTI_BUSY);
    assert_int_equal(tutti_events_destroy(other, &error), TUTTI_OK);
    assert_int_equal(tti_events_newest(group), 0);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static void objects_have_limits_and_ends(void **state)
{
    (void)state;
    tutti_events *more[TTI_EVENTS_OBJECTS];
    tutti_events *none = NULL;
    assert_true(tti_events_newest(group) > 0);
    for (size_t i = 1; i < TTI_EVENTS_OBJECTS; i++) {
        assert_int_equal(tutti_events_create(group->handle, &more[i], &error), TUTTI_OK);
    }
    assert_int_equal(tutti_events_create(group->handle, &none, &error), TUTTI_NO_RESOURCE);
    assert_non_null(strstr(error.message, "16 events objects"));
    assert_null(none);
    for (size_t i = 1; i < TTI_EVENTS_OBJECTS; i++) {
        on_complete(more[i], "m");
        assert_int_equal(tutti_events_destroy(more[i], &error), TUTTI_OK);
        assert_int_equal(tutti_events_destroy(more[i], &error), TUTTI_BAD_STATE);
        assert_non_null(strstr(error.message, "events_destroy"));
    }
    assert_int_equal(tutti_events_create(group->handle, &none, &error), TUTTI_OK);
    assert_int_equal(tutti_events_destroy(none, &error), TUTTI_OK);
    assert_int_equal(group_free(group), TUTTI_BUSY);
    assert_int_equal(tutti_events_destroy(events, &error), TUTTI_OK);
    assert_int_equal(tti_events_newest(group), 0);
    notify_end(group, 0, TUTTI_OK);
    expect_calls("");
}

static void numbers_belong_to_their_object(void **state)
{
    (void)state;
    tutti_events *other;
    int64_t id = 0;
    assert_int_equal(tutti_events_create(group->handle, &other, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_complete(events, record, "c", &id, &error), TUTTI_OK);
    assert_int_equal(tutti_events_remove(other, id, &error), TUTTI_NOT_FOUND);
    const int64_t wrong[] = {0, -1, INT64_MIN, INT64_MAX, id + 1, id + TTI_EVENTS_BUCKETS};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tutti_events_remove(events, wrong[i], &error), TUTTI_NOT_FOUND);
    }
    notify_end(group, 0, TUTTI_OK);
    assert_int_equal(tutti_events_remove(events, id, &error), TUTTI_OK);
    assert_int_equal(tutti_events_remove(events, id, &error), TUTTI_NOT_FOUND);
    notify_end(group, 0, TUTTI_OK);
    expect_calls("c");
    assert_int_equal(tutti_events_destroy(other, &error), TUTTI_OK);
}

static void all_are_destroyed_at_the_end(void **state)
{
    (void)state;
    struct tti_group *second = group_make();
    tutti_events *other;
    assert_int_equal(tutti_events_create(second->handle, &other, &error), TUTTI_OK);
    tti_events_destroy_all();
    assert_int_equal(tutti_events_destroy(other, &error), TUTTI_BAD_STATE);
    assert_int_equal(tutti_events_destroy(events, &error), TUTTI_BAD_STATE);
    assert_int_equal(group_free(second), TUTTI_OK);
}

/* ---- events_start ------------------------------------------------------------------------------------------------ */

static tutti_status fail_to_start(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)work;
    int64_t *seen = user;
    *seen = call->operation_id;
    return tti_error_set(call->error, TUTTI_UNSUPPORTED, "barrier: not here");
}

static tutti_status fail_without_message(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    return TUTTI_NO_MEMORY;
}

static tutti_status forget_the_work(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    return TUTTI_OK;
}

static void a_start_that_fails_leaves_no_handler(void **state)
{
    (void)state;
    tutti_work *work = NULL;
    int64_t seen = 0;
    tutti_error callers;
    tutti_call call = {.size = (uint32_t)sizeof(call), .error = &callers, .operation_id = 99};
    assert_int_equal(tutti_events_start(events, 5, fail_to_start, &seen, &call, record, "h", &work, &error),
                     TUTTI_UNSUPPORTED);
    assert_int_equal(seen, 5);
    assert_string_equal(error.message, "barrier: not here");
    assert_memory_equal(&error, &callers, sizeof(error));
    assert_int_equal(tutti_events_start(events, 5, fail_without_message, NULL, NULL, record, "h", &work, &error),
                     TUTTI_NO_MEMORY);
    assert_int_equal(error.status, TUTTI_NO_MEMORY);
    assert_non_null(strstr(error.message, "NO_MEMORY"));
    assert_int_equal(tutti_events_start(events, 5, forget_the_work, NULL, NULL, record, "h", &work, &error),
                     TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "no work"));
    assert_null(work);
    notify_end(group, 5, TUTTI_OK);
    expect_calls("");
    call.size = 4;
    assert_int_equal(tutti_events_start(events, 5, fail_to_start, &seen, &call, record, "h", &work, &error),
                     TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "call.size"));
}

/* The operation ends before its start returns, and its handler destroys the object. */
static tutti_status end_at_once(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)user;
    notify_end(group, call->operation_id, TUTTI_OK);
    *work = (tutti_work *)(uintptr_t)0x1234;
    return TUTTI_OK;
}

static void an_early_end_is_not_missed(void **state)
{
    (void)state;
    tutti_work *work = NULL;
    on_complete(events, "l");
    assert_int_equal(tutti_events_start(events, 5, end_at_once, NULL, NULL, record, "h", &work, &error), TUTTI_OK);
    assert_true(work == (tutti_work *)(uintptr_t)0x1234);
    assert_int_equal(error.status, TUTTI_OK);
    expect_calls("lh");
    assert_int_equal(tutti_events_start(events, 0, end_at_once, NULL, NULL, NULL, NULL, &work, &error), TUTTI_OK);
    assert_int_equal(tutti_events_start(events, 6, end_at_once, NULL, NULL, NULL, NULL, &work, &error), TUTTI_OK);
    expect_calls("ll");
    assert_int_equal(tutti_events_start(events, 6, end_at_once, NULL, NULL, destroy_all, NULL, &work, &error),
                     TUTTI_OK);
    expect_calls("ldbb");
    assert_int_equal(tutti_events_start(events, 6, end_at_once, NULL, NULL, record, "h", &work, &error),
                     TUTTI_BAD_STATE);
    assert_int_equal(tti_events_newest(group), 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(listeners_get_events_of_their_kind),
        TEST(handlers_are_called_once),
        TEST(order_is_that_of_adding),
        TEST(the_event_is_handed_on),
        TEST(removed_ones_are_not_called),
        TEST(a_listener_may_remove_itself),
        TEST(added_ones_wait_for_the_next_event),
        TEST(replacing_oneself_does_not_go_round),
        TEST(a_handler_may_destroy_its_object),
        TEST(objects_have_limits_and_ends),
        TEST(numbers_belong_to_their_object),
        TEST(all_are_destroyed_at_the_end),
        TEST(a_start_that_fails_leaves_no_handler),
        TEST(an_early_end_is_not_missed),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
