/* SPDX-License-Identifier: BSD-3-Clause */
/* A text of several parts: the length is that of all, also where the memory ends within a part, or before it. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* clang-format off: cmocka needs the ones above first */
#include <cmocka.h>
/* clang-format on */

static const char whole[] = "one 2 three";

/* As a backend describes itself inside the description of a group. */
static size_t write_number(char *text, size_t capacity)
{
    return (size_t)snprintf(text, capacity, "%d ", 2);
}

static size_t write_all(char *text, size_t capacity)
{
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t, "%s ", "one");
    t.length += write_number(tti_text_end(&t), tti_text_room(&t));
    tti_append(&t, "three");
    return t.length;
}

static void every_capacity(void **state)
{
    (void)state;
    for (size_t capacity = 1; capacity <= sizeof(whole) + 1; capacity++) {
        char text[sizeof(whole) + 2];
        memset(text, '#', sizeof(text));
        assert_int_equal(write_all(text, capacity), strlen(whole));
        const size_t fits = capacity < sizeof(whole) ? capacity - 1 : strlen(whole);
        assert_memory_equal(text, whole, fits);
        assert_int_equal(text[fits], '\0');
        assert_int_equal(text[capacity], '#');
    }
}

static void no_memory(void **state)
{
    (void)state;
    assert_int_equal(write_all(NULL, 0), strlen(whole));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_capacity), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
