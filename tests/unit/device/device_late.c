/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is released while work runs on its device. The device here is a table of counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device.h"

static char events[2];
static int32_t done[2];
static tutti_status queried;
static int destroyed;
static int freed;
static int freed_pinned;

static tutti_status event_query(void *event, int32_t *is_done, tutti_error *error)
{
    (void)error;
    *is_done = done[(char *)event - events];
    return queried;
}

static tutti_status event_destroy(void *event, tutti_error *error)
{
    (void)event;
    (void)error;
    destroyed++;
    return TUTTI_OK;
}

static tutti_status free_here(void *memory, tutti_error *error)
{
    (void)error;
    freed += *(int *)memory;
    return TUTTI_OK;
}

static tutti_status free_pinned(void *memory, tutti_error *error)
{
    (void)error;
    freed_pinned += *(int *)memory;
    return TUTTI_OK;
}

static const struct tti_device device = {
    .event_query = event_query, .event_destroy = event_destroy, .free = free_here, .free_host = free_pinned};

static int start(void **state)
{
    (void)state;
    done[0] = done[1] = 0;
    queried = TUTTI_OK;
    destroyed = freed = freed_pinned = 0;
    return 0;
}

static void idle_device_frees_at_once(void **state)
{
    (void)state;
    int one = 1;
    int ten = 10;
    tti_device_release(&device, 0, &one, false);
    tti_device_release(&device, 0, &ten, true);
    tti_device_release(&device, 0, NULL, false);
    assert_int_equal(freed, 1);
    assert_int_equal(freed_pinned, 10);
}

static void memory_waits_for_all_late_work(void **state)
{
    (void)state;
    int one = 1;
    int ten = 10;
    int hundred = 100;
    tti_device_note_late(&device, 1, &events[0], NULL);
    tti_device_note_late(&device, 1, &events[1], NULL);
    tti_device_release(&device, 1, &one, false);
    done[1] = 1;
    tti_device_release(&device, 1, &ten, true);
    assert_int_equal(destroyed, 1);
    assert_int_equal(freed + freed_pinned, 0);
    tti_device_release(&device, 0, &one, false); /* another device of the kind */
    assert_int_equal(freed, 1);
    done[0] = 1;
    tti_device_release(&device, 1, &hundred, false);
    assert_int_equal(destroyed, 2);
    assert_int_equal(freed, 102);
    assert_int_equal(freed_pinned, 10);
}

/* The work may still run. */
static void memory_waits_after_an_error(void **state)
{
    (void)state;
    int one = 1;
    int ten = 10;
    tti_device_note_late(&device, 0, &events[0], NULL);
    queried = TUTTI_BACKEND;
    tti_device_release(&device, 0, &one, false);
    assert_int_equal(freed + destroyed, 0);
    queried = TUTTI_OK;
    done[0] = 1;
    tti_device_release(&device, 0, &ten, false);
    assert_int_equal(freed, 11);
    assert_int_equal(destroyed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(idle_device_frees_at_once, start),
        cmocka_unit_test_setup(memory_waits_for_all_late_work, start),
        cmocka_unit_test_setup(memory_waits_after_an_error, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
