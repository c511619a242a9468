/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* Texts of files, and values in them. */
#include "base/host/text_file.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void files_are_read_and_cut(void **state)
{
    (void)state;
    char text[32];
    const ssize_t length = tti_read_text(text, sizeof(text), "/proc/%s/comm", "self");
    assert_string_equal(text, "text_file\n");
    assert_int_equal(length, strlen(text));
    assert_int_equal(tti_read_text(text, 5, "/proc/self/status"), 4);
    assert_string_equal(text, "Name");
}

/* A file of /proc gives its lines in several reads. */
static void reads_end_with_the_file(void **state)
{
    (void)state;
    const size_t capacity = 1 << 20;
    char *text = malloc(capacity);
    assert_non_null(text);
    const ssize_t length = tti_read_text(text, capacity, "/proc/self/smaps");
    assert_in_range(length, 8192, capacity - 2);
    assert_int_equal(text[length - 1], '\n');
    free(text);
}

static void failures_leave_no_text(void **state)
{
    (void)state;
    char text[16] = "old";
    assert_int_equal(tti_read_text(text, sizeof(text), "/proc/no/such/file"), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(text, "");
    strcpy(text, "old");
    assert_int_equal(tti_read_text(text, sizeof(text), "/proc"), -1);
    assert_int_equal(errno, EISDIR);
    assert_string_equal(text, "");
    assert_int_equal(tti_read_text(text, sizeof(text), "/%*d", PATH_MAX, 1), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

static void expect(const char *text, const char *key, const char *value)
{
    char found[16] = "old";
    assert_int_equal(tti_find_value(text, key, found, sizeof(found)), value != NULL);
    assert_string_equal(found, value ? value : "");
}

static void values_stand_behind_whole_keys(void **state)
{
    (void)state;
    static const char processor[] = "processor\t: 0\nmodel name\t: A: b  c\nmodel\t\t: 25\n\nempty :\nmodel\t: 26";
    expect(processor, "model name", "A: b  c");
    expect(processor, "model", "25");
    expect(processor, "empty", "");
    expect(processor, "name", NULL);
    expect(processor, "", NULL);
    expect("", "model", NULL);
    static const char numbers[] = "inactive_anon 7\ninactive_file 8192\nfile 5\nMemFree:     12 kB\nlast";
    expect(numbers, "inactive_file", "8192");
    expect(numbers, "file", "5");
    expect(numbers, "inactive", NULL);
    expect(numbers, "MemFree", "12 kB");
    expect(numbers, "last", NULL);
    expect("long: 123456789012345678", "long", "123456789012345");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_and_cut),
        cmocka_unit_test(reads_end_with_the_file),
        cmocka_unit_test(failures_leave_no_text),
        cmocka_unit_test(values_stand_behind_whole_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
