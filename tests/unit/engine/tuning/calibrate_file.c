/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Profiles of a machine in files. The library reads only a complete and plausible profile of this machine, from a
 * folder that no other user can write. A reader never sees a partial profile. Where no file can be written, everything
 * works without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/tuning/calibrate.h"
#include "engine/tuning/measure.h"
#include "engine/tuning/profile_file.h"

#define TEXT 4096

static const struct tti_machine machine = {.cpu = "Some CPU", .kernel = "6.1 x86_64", .isa = "avx2", .cpus = 4};
static char folder[64]; /* of this test: empty at its beginning */
static char path[512];
static char note[256];

static struct tti_profile some_profile(void)
{
    struct tti_profile p = tti_profile_built_in;
    p.measured_s = (int64_t)time(NULL);
    p.wake_ns = 12345;
    return p;
}

static int remove_entry(const char *name, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(name);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/tutti-test-XXXXXX");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    return mkdtemp(folder) && setenv("TUTTI_CACHE_DIR", folder, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static bool load(const struct tti_machine *m, struct tti_profile *p)
{
    return tti_profile_load(m, p, path, sizeof(path), note, sizeof(note));
}

static bool save(const struct tti_machine *m, const struct tti_profile *p)
{
    return tti_profile_save(m, p, path, sizeof(path), note, sizeof(note));
}

static int entries(const char *name)
{
    DIR *directory = opendir(name);
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    if (directory) {
        closedir(directory);
    }
    return count;
}

static void assert_same(const struct tti_profile *a, const struct tti_profile *b)
{
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        assert_int_equal(tti_profile_value(a, i), tti_profile_value(b, i));
    }
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static void test_there_and_back(void **state)
{
    (void)state;
    char text[TEXT];
    struct tti_profile p = some_profile();
    struct tti_profile q;
    p.far_ns = 0; /* not seen */
    p.far_mbs = 0;
    const size_t length = tti_profile_format(&machine, &p, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_true(length > 0);
    assert_true(tti_profile_parse(text, &machine, &q));
    assert_same(&p, &q);
    for (size_t room = 0; room <= length; room += 7) {
        assert_int_equal(tti_profile_format(&machine, &p, text, room), 0);
    }
}

static void test_damaged_text(void **state)
{
    (void)state;
    char good[TEXT];
    char bad[TEXT + 64];
    struct tti_profile p = some_profile();
    struct tti_profile q;
    const size_t length = tti_profile_format(&machine, &p, good, sizeof(good));
    for (size_t cut = 0; cut < length; cut++) { /* every beginning */
        memcpy(bad, good, cut);
        bad[cut] = '\0';
        assert_false(tti_profile_parse(bad, &machine, &q));
    }
    for (size_t at = 0; at < length; at++) { /* every byte replaced; only another digit for a digit may be accepted */
        static const char others[] = {'\n', '=', 'x', '-', ' ', '+', '\t', (char)0xff};
        for (size_t i = 0; i < sizeof(others); i++) {
            memcpy(bad, good, length + 1);
            if (bad[at] != others[i]) {
                bad[at] = others[i];
                assert_false(tti_profile_parse(bad, &machine, &q));
            }
        }
    }
    static const char *const endings[] = {"\n", "end\n", "wake_ns=1\n", " "};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        snprintf(bad, sizeof(bad), "%s%s", good, endings[i]);
        assert_false(tti_profile_parse(bad, &machine, &q));
    }
}

/* Replaces the value of one field in a good text. */
static void with_value(const char *field, const char *value, char bad[TEXT])
{
    char good[TEXT];
    char name[64];
    struct tti_profile p = some_profile();
    tti_profile_format(&machine, &p, good, sizeof(good));
    snprintf(name, sizeof(name), "\n%s=", field);
    char *at = strstr(good, name);
    assert_non_null(at);
    at += strlen(name);
    const char *behind = strchr(at, '\n');
    snprintf(bad, TEXT, "%.*s%s%s", (int)(at - good), good, value, behind);
}

static void test_impossible_values(void **state)
{
    (void)state;
    char bad[TEXT];
    char value[32];
    struct tti_profile q;
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        const struct tti_profile_field *field = &tti_profile_fields[i];
        snprintf(value, sizeof(value), "%lld", (long long)field->most + 1);
        with_value(field->name, value, bad);
        assert_false(tti_profile_parse(bad, &machine, &q));
        if (field->least > 1) {
            snprintf(value, sizeof(value), "%lld", (long long)field->least - 1);
            with_value(field->name, value, bad);
            assert_false(tti_profile_parse(bad, &machine, &q));
        }
        static const char *const words[] = {"", "-5", "99999999999999999999", "0x40", "5.5", "70 ", "nan"};
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
            with_value(field->name, words[k], bad);
            assert_false(tti_profile_parse(bad, &machine, &q));
        }
    }
    with_value("wake_ns", "777", bad); /* the tool works */
    assert_true(tti_profile_parse(bad, &machine, &q));
    assert_int_equal(q.wake_ns, 777);
    with_value("wake_ns", "0", bad); /* known on every machine with two CPUs */
    assert_false(tti_profile_parse(bad, &machine, &q));
}

static void test_foreign_and_old(void **state)
{
    (void)state;
    char text[TEXT];
    struct tti_profile p = some_profile();
    struct tti_profile q;
    tti_profile_format(&machine, &p, text, sizeof(text));
    struct tti_machine others[4] = {machine, machine, machine, machine};
    snprintf(others[0].cpu, sizeof(others[0].cpu), "Some CPU 2");
    snprintf(others[1].kernel, sizeof(others[1].kernel), "6.2 x86_64");
    snprintf(others[2].isa, sizeof(others[2].isa), "base");
    others[3].cpus = 8;
    for (int i = 0; i < 4; i++) {
        assert_false(tti_profile_parse(text, &others[i], &q));
    }
    static const int days[] = {-70, 2};
    for (int i = 0; i < 2; i++) {
        p.measured_s = (int64_t)time(NULL) + days[i] * INT64_C(86400);
        tti_profile_format(&machine, &p, text, sizeof(text));
        assert_false(tti_profile_parse(text, &machine, &q));
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_save_and_load(void **state)
{
    (void)state;
    struct tti_profile p = some_profile();
    struct tti_profile q;
    assert_false(load(&machine, &q));
    assert_string_equal(note, ""); /* a missing file is not reported */
    for (int i = 0; i < 3; i++) {
        p.wake_ns += i;
        assert_true(save(&machine, &p));
        assert_int_equal(entries(folder), 1); /* replaced, and nothing left beside it */
        assert_true(load(&machine, &q));
        assert_same(&p, &q);
    }
    struct tti_machine other = machine;
    other.cpus = 2;
    assert_false(load(&other, &q));
    assert_true(save(&other, &p));
    assert_int_equal(entries(folder), 2);
    assert_true(load(&machine, &q));
}

static _Atomic int writing; /* relaxed: the threads are joined */

static void *write_often(void *unused)
{
    (void)unused;
    char where[512];
    char why[256];
    struct tti_profile p = some_profile();
    bool good = true;
    for (int i = 0; i < 200 && good; i++) {
        p.wake_ns = 20000 + i;
        good = tti_profile_save(&machine, &p, where, sizeof(where), why, sizeof(why));
    }
    atomic_fetch_sub_explicit(&writing, 1, memory_order_relaxed);
    return good ? NULL : "a file could not be replaced";
}

static void test_readers_see_whole_files(void **state)
{
    (void)state;
    pthread_t threads[2];
    struct tti_profile p = some_profile();
    struct tti_profile q;
    assert_true(save(&machine, &p));
    atomic_store_explicit(&writing, 2, memory_order_relaxed);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, NULL), 0);
    }
    int failures = 0;
    do {
        failures += !load(&machine, &q);
    } while (failures == 0 && atomic_load_explicit(&writing, memory_order_relaxed) > 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(failures, 0);
    assert_int_equal(entries(folder), 1);
}

static void test_what_is_no_file_of_ours(void **state)
{
    (void)state;
    struct tti_profile p = some_profile();
    struct tti_profile q;
    char aside[600];
    assert_true(save(&machine, &p));
    snprintf(aside, sizeof(aside), "%s.aside", path);
    char file[512];
    snprintf(file, sizeof(file), "%s", path);
    assert_int_equal(chmod(file, 0666), 0); /* other users could have written it */
    assert_false(load(&machine, &q));
    assert_int_equal(chmod(file, 0600), 0);
    assert_true(load(&machine, &q));
    assert_int_equal(rename(file, aside), 0); /* the same file behind a link */
    assert_int_equal(symlink(aside, file), 0);
    assert_false(load(&machine, &q));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0); /* opening it does not wait for a writer */
    assert_false(load(&machine, &q));
    assert_true(save(&machine, &p)); /* replaces a file of any kind */
    assert_true(load(&machine, &q));
    FILE *f = fopen(file, "ae");
    assert_non_null(f);
    for (int i = 0; i < 2000; i++) {
        fputs("more\n", f);
    }
    fclose(f);
    assert_false(load(&machine, &q));
    p.measured_s -= 400 * INT64_C(86400); /* too old: its figures do not count either */
    assert_true(save(&machine, &p));
    memset(&q, 0, sizeof(q));
    assert_false(load(&machine, &q));
    assert_int_equal(q.near_ns, 0);
}

static void test_unusable_folders(void **state)
{
    (void)state;
    struct tti_profile p = some_profile();
    char name[256];
    static const char *const hopeless[] = {"/dev/null/below", "/proc/self/fdinfo", "relative", "/no/such/parent"};
    for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++) {
        setenv("TUTTI_CACHE_DIR", hopeless[i], 1);
        assert_false(load(&machine, &p));
        p = some_profile();
        assert_false(save(&machine, &p));
        assert_true(strlen(note) > 0);
    }
    snprintf(name, sizeof(name), "%s/open", folder);
    assert_int_equal(mkdir(name, 0700), 0);
    setenv("TUTTI_CACHE_DIR", name, 1);
    assert_true(save(&machine, &p));
    assert_int_equal(chmod(name, 0777), 0); /* now others could put files there */
    assert_false(load(&machine, &p));
    p = some_profile();
    assert_false(save(&machine, &p));
    assert_non_null(strstr(note, "other users may write it"));
    assert_int_equal(chmod(name, 0700), 0);
    assert_true(load(&machine, &p));
    char link[300];
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink(name, link), 0);
    setenv("TUTTI_CACHE_DIR", link, 1);
    assert_false(load(&machine, &p));
    p = some_profile();
    assert_false(save(&machine, &p));
}

static void test_where_files_go(void **state)
{
    (void)state;
    struct tti_profile p = some_profile();
    char wanted[256];
    unsetenv("TUTTI_CACHE_DIR");
    setenv("HOME", folder, 1);
    assert_true(save(&machine, &p)); /* makes ~/.cache, too */
    snprintf(wanted, sizeof(wanted), "%s/.cache/tutti/machine-", folder);
    assert_int_equal(strncmp(path, wanted, strlen(wanted)), 0);
    snprintf(wanted, sizeof(wanted), "%s/xdg", folder);
    setenv("XDG_CACHE_HOME", wanted, 1);
    assert_int_equal(mkdir(wanted, 0755), 0);
    assert_true(save(&machine, &p));
    snprintf(wanted, sizeof(wanted), "%s/xdg/tutti/machine-", folder);
    assert_int_equal(strncmp(path, wanted, strlen(wanted)), 0);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

static void test_calibration_of_the_process(void **state)
{
    (void)state;
    struct tti_machine here;
    struct tti_calibration c;
    tti_calibrate(TTI_CALIBRATE_OFF, &c);
    assert_int_equal(c.source, TTI_CALIBRATE_BUILT_IN);
    assert_same(&c.profile, &tti_profile_built_in);
    assert_int_equal(entries(folder), 0); /* off touches nothing */
    tti_machine_find(&here);
    struct tti_profile p = some_profile();
    assert_true(save(&here, &p));
    tti_calibrate(TTI_CALIBRATE_AUTO, &c);
    assert_int_equal(c.source, TTI_CALIBRATE_FILE);
    assert_same(&c.profile, &p);
    assert_string_equal(c.path, path);
    assert_int_equal(unlink(path), 0);
    tti_calibrate(TTI_CALIBRATE_AUTO, &c); /* the process has it already */
    assert_int_equal(c.source, TTI_CALIBRATE_FILE);
    assert_int_equal(entries(folder), 0);
    tti_calibrate(TTI_CALIBRATE_AGAIN, &c);
    assert_int_not_equal(c.source, TTI_CALIBRATE_FILE);
    const int64_t when = c.profile.measured_s;
    tti_calibrate(TTI_CALIBRATE_AGAIN, &c); /* once is enough */
    assert_int_equal(c.profile.measured_s, when);
    assert_int_equal(tti_calibrate_mode("off"), TTI_CALIBRATE_OFF);
    assert_int_equal(tti_calibrate_mode("again"), TTI_CALIBRATE_AGAIN);
    assert_int_equal(tti_calibrate_mode("auto"), TTI_CALIBRATE_AUTO);
    assert_int_equal(tti_calibrate_mode(NULL), TTI_CALIBRATE_AUTO);
}

/* The figures depend on the machine and its load. On every machine they are plausible or unknown. */
static void test_measurement(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    cpu_set_t after;
    struct tti_profile p;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
        }
    }
    for (int round = 0; round < 2; round++) {
        assert_true(tti_calibrate_measure(&p));
        assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
        assert_true(CPU_EQUAL(&after, round == 0 ? &before : &one)); /* the caller stays where it is */
        for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
            const int64_t value = tti_profile_value(&p, i);
            assert_true(value == 0 || (value >= tti_profile_fields[i].least && value <= tti_profile_fields[i].most));
        }
        if (round == 1 || CPU_COUNT(&before) == 1) {
            assert_int_equal(p.near_ns + p.far_ns + p.wake_ns, 0);
        }
        tti_profile_complete(&p);
        assert_true(tti_profile_plausible(&p, true));
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_impossible_values),
        cmocka_unit_test(test_foreign_and_old),
        cmocka_unit_test_setup_teardown(test_save_and_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_readers_see_whole_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_file_of_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unusable_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_files_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calibration_of_the_process, set_up, tear_down),
        cmocka_unit_test(test_measurement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
