/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentence on a handle without an object, for each kind and each reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/group/handles.h"

static const uint32_t kinds[] = {TTI_KIND_GROUP,  TTI_KIND_WORK,     TTI_KIND_QUEUE,     TTI_KIND_TOKEN,
                                 TTI_KIND_EVENTS, TTI_KIND_BUCKETER, TTI_KIND_PERSISTENT};

static void expect(tutti_status status, uint32_t kind, const char *sentence)
{
    tutti_error error;
    assert_int_equal(tti_handle_error(&error, status, "function", "noun", kind), status);
    assert_int_equal(error.status, status);
    assert_string_equal(error.message, sentence);
}

static void each_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        expect(TUTTI_INVALID_ARGUMENT, kinds[i], "function: the noun is NULL");
    }
    expect(TUTTI_FORKED, TTI_KIND_GROUP,
           "function: the noun was made before fork(); the child must call tutti_init itself");
    expect(TUTTI_FORKED, TTI_KIND_WORK, "function: the noun was made before fork(); it belongs to the parent process");
    expect(TUTTI_FORKED, TTI_KIND_QUEUE, "function: the noun was made before fork(); the child must create its own");
    expect(TUTTI_BAD_STATE, TTI_KIND_TOKEN, "function: the noun has been destroyed already, or never was one");
    expect(TUTTI_BAD_STATE, TTI_KIND_PERSISTENT, "function: the noun has been released already, or never was one");
}

static void without_an_error(void **state)
{
    (void)state;
    assert_int_equal(tti_handle_error(NULL, TUTTI_FORKED, "function", "noun", TTI_KIND_GROUP), TUTTI_FORKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_reason), cmocka_unit_test(without_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
