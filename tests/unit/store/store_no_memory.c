/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 trees=release,debug,undefined */
/*
 * The process that serves a store has no memory. Its clients get that status, and keep their connections, so that they
 * can report it to one another. A get of a key that could not be stored ends. Later all works as before.
 */
#include "time_limits.h"
#include "unit/store/token_store_support.h"

static _Atomic bool no_memory;
static _Thread_local bool is_client; /* clients get memory */

static bool allocation_fails(void)
{
    return no_memory && !is_client;
}

#include "allocator.h"

#define LONG 4000 /* bytes of a value; the server needs memory for it in every case */

static void check(const char *url, bool sealed)
{
    static const char value[LONG];
    char got[LONG];
    size_t length = 0;
    tutti_error error;
    struct tti_store *first = open_store(url, true);
    assert_non_null(first);
    struct tti_store *second = open_store(tti_store_url(first), false);
    assert_non_null(second);
    assert_int_equal(tti_store_set(first, "before", value, LONG, &error), TUTTI_OK);

    no_memory = true;
    const tutti_status kept = tti_store_set(first, "long", value, LONG, &error);
    const tutti_status also = tti_store_set(first, "short", value, 1, NULL);
    const int64_t refused = tti_store_refused_count(first);
    /* in a sealed frame the key is unknown */
    const tutti_status missed = tti_store_get(second, "long", got, LONG, &length, sealed ? 0 : TUTTI_FOREVER, NULL);
    const tutti_status noted = tti_store_get(second, "short", got, LONG, &length, TUTTI_FOREVER, NULL);
    const tutti_status other = tti_store_get(second, "other", got, LONG, &length, 0, NULL);
    const tutti_status read = tti_store_get(second, "before", got, LONG, &length, TUTTI_FOREVER, NULL);
    no_memory = false;
    assert_int_equal(kept, TUTTI_NO_MEMORY);
    assert_non_null(strstr(error.message, tti_store_url(first)));
    assert_int_equal(also, TUTTI_NO_MEMORY);
    assert_int_equal(refused, 0);
    assert_int_equal(missed, sealed ? TUTTI_TIMEOUT : TUTTI_NO_MEMORY);
    assert_int_equal(noted, TUTTI_NO_MEMORY);
    assert_int_equal(other, TUTTI_TIMEOUT);
    assert_int_equal(read, TUTTI_NO_MEMORY);

    assert_int_equal(tti_store_set(first, "long", value, LONG, &error), TUTTI_OK);
    assert_int_equal(tti_store_set(first, "short", value, 1, &error), TUTTI_OK);
    assert_int_equal(tti_store_get(second, "long", got, LONG, &length, LONG_MS, &error), TUTTI_OK);
    assert_int_equal(length, LONG);
    assert_int_equal(tti_store_get(second, "short", got, LONG, &length, LONG_MS, &error), TUTTI_OK);
    assert_int_equal(length, 1);
    tti_store_release(second);
    tti_store_release(first);
}

static void a_server_without_memory_says_so(void **state)
{
    (void)state;
    char url[80];
    set_token(NULL);
    unique_unix_url(url);
    check(url, false);
    check("tcp://127.0.0.1:0", false);
}

static void sealed_connections_stay_in_step(void **state)
{
    (void)state;
    need_sodium();
    set_token(TOKEN_A);
    check("tcp://127.0.0.1:0", true);
    set_token(NULL);
}

int main(void)
{
    is_client = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_memory_says_so),
        cmocka_unit_test(sealed_connections_stay_in_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
