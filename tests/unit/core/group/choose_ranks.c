/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend that cannot join so many ranks is not chosen, or refused if it is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/group/backend/choose.h"

#define MOST 1024 /* of shm and local, as tutti/group.h says */

static struct tti_hello all[MOST + 1];

/* Processes of one host, or threads of one process, on which these backends can be used. */
static void place(bool processes, const char *available)
{
    memset(all, 0, sizeof(all));
    for (int r = 0; r <= MOST; r++) {
        all[r].host = all[r].machine = 1;
        all[r].process.instance = processes ? (uint64_t)r + 1 : 1;
        strcpy(all[r].backend, "auto");
        snprintf(all[r].available, sizeof(all[r].available), "%s ", available);
    }
}

static const char *chosen(int32_t size)
{
    struct tti_group_plan plan = {.size = size};
    struct tti_choice choice;
    tutti_error error;
    const tutti_status status = tti_choose(&plan, all, &choice, &error);
    return status == TUTTI_OK ? choice.backend->name : tutti_status_name(status);
}

static void automatic(void **state)
{
    (void)state;
    place(true, "shm local gloo");
    assert_string_equal(chosen(MOST), "shm");
    assert_string_equal(chosen(MOST + 1), "gloo");
    place(false, "shm local gloo");
    assert_string_equal(chosen(MOST), "local");
    assert_string_equal(chosen(MOST + 1), "gloo");
    place(true, "shm local");
    assert_string_equal(chosen(MOST + 1), "NOT_AVAILABLE");
}

static void named(void **state)
{
    (void)state;
    const tutti_backend *backend = NULL;
    tutti_error error;
    place(true, "shm local gloo");
    assert_int_equal(tti_choose_part(all, NULL, MOST, "shm", &backend, &error), TUTTI_OK);
    assert_int_equal(tti_choose_part(all, NULL, MOST + 1, "shm", &backend, &error), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(error.message, "backend shm takes up to 1024 ranks, not 1025"));
    assert_int_equal(tti_choose_part(all, NULL, MOST + 1, "auto", &backend, &error), TUTTI_OK);
    assert_string_equal(backend->name, "gloo");
}

static void reason(void **state)
{
    (void)state;
    char text[200];
    place(true, "shm local gloo");
    assert_true(tti_choose_shm_unused(all, MOST + 1, tutti_backend_find("gloo"), text, sizeof(text)));
    assert_non_null(strstr(text, "up to 1024 ranks"));
    assert_false(tti_choose_shm_unused(all, MOST, tutti_backend_find("gloo"), text, sizeof(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(automatic), cmocka_unit_test(named), cmocka_unit_test(reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
