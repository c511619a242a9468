/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of the hierarchical backend: the tables of hosts, and the sizes of chunks, slices and windows. Also
 * how a failure of one engine becomes a failure of the group, with engines that only record their calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/hier/failure.h"
#include "backends/hier/renumber.h"
#include "backends/hier/steps/slices.h"
#include "backends/hier/steps/windows.h"
#include "base/error.h"

#define MOST 16

/* A group without engines; `layout` has a letter for each rank, the name of its host. */
static void make(struct tti_hier *s, const char *layout, int32_t rank, size_t chunk)
{
    uint64_t hosts[MOST];
    const int32_t size = (int32_t)strlen(layout);
    for (int32_t r = 0; r < size; r++) {
        hosts[r] = (uint64_t)layout[r];
    }
    memset(s, 0, sizeof(*s));
    assert_true(tti_hosts_make(&s->hosts, hosts, size));
    s->size = size;
    s->rank = rank;
    s->host = s->hosts.host_of[rank];
    s->local_rank = s->hosts.local_rank_of[rank];
    s->chunk = chunk;
}

static void hosts(void **state)
{
    (void)state;
    struct tti_hier s;
    make(&s, "ABAAB", 3, 1024);
    assert_int_equal(s.hosts.count, 2);
    assert_int_equal(s.hosts.rails, 2);
    assert_false(s.hosts.even);
    assert_int_equal(s.host, 0);
    assert_int_equal(s.local_rank, 2);
    assert_int_equal(tti_host_ranks(&s.hosts, 0), 3);
    assert_int_equal(tti_host_member(&s.hosts, 0, 1), 2);
    assert_int_equal(tti_host_member(&s.hosts, 1, 1), 4);
    tti_hosts_free(&s.hosts);
    make(&s, "ABAB", 0, 1024);
    assert_true(s.hosts.even);
    tti_hosts_free(&s.hosts);
    struct tti_hosts one;
    assert_true(tti_hosts_make(&one, NULL, 3));
    assert_int_equal(one.count, 1);
    assert_int_equal(one.rails, 3);
    assert_true(one.even);
    tti_hosts_free(&one);
}

/* The slices of a chunk follow one another and cover it, and no rank without a rail has one. */
static void slices(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 15, 1000, 4096, 5000, 70000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t covered = 0;
        const size_t chunks = 1 + (counts[i] * 4 - 1) / (64 << 10);
        for (size_t k = 0; k < chunks; k++) {
            for (int32_t rank = 0; rank < 6; rank++) {
                struct tti_hier s;
                struct tti_slices cut;
                int64_t list[MOST];
                make(&s, "AAABBB", rank, 64 << 10);
                tti_slices_cut(&s, counts[i], 4, k, &cut, list);
                assert_int_equal(cut.from, k * (64 << 10) / 4);
                assert_int_equal(cut.own, list[s.local_rank]);
                assert_true(cut.own <= tti_slices_most(&s, 4));
                assert_int_equal(list[0] + list[1] + list[2], cut.count);
                size_t before = 0;
                for (int32_t local_rank = 0; local_rank < s.local_rank; local_rank++) {
                    before += (size_t)list[local_rank];
                }
                assert_int_equal(cut.begin, before);
                covered += rank == 0 ? cut.count : 0;
                tti_hosts_free(&s.hosts);
            }
        }
        assert_int_equal(covered, counts[i]);
    }
}

/* How many rails a vector of this many bytes uses on hosts of two ranks. */
static int32_t rails_of(int32_t hosts, size_t bytes)
{
    static const char letters[] = "AABBCCDDEEFFGGHH";
    char layout[MOST + 1];
    struct tti_hier s;
    struct tti_slices cut;
    int64_t list[MOST];
    snprintf(layout, sizeof(layout), "%.*s", (int)(2 * hosts), letters);
    make(&s, layout, 0, 1 << 20);
    tti_slices_cut(&s, bytes / 4, 4, 0, &cut, list);
    tti_hosts_free(&s.hosts);
    return (list[0] > 0) + (list[1] > 0);
}

/* A short vector takes one rail, up to twice 2 KiB for each host. */
static void short_vectors(void **state)
{
    (void)state;
    assert_int_equal(rails_of(2, 8), 1);
    assert_int_equal(rails_of(2, 8188), 1);
    assert_int_equal(rails_of(2, 8192), 2);
    assert_int_equal(rails_of(8, 32764), 1);
    assert_int_equal(rails_of(8, 32768), 2);
    assert_int_equal(rails_of(8, 1 << 20), 2);
}

/* Packing and unpacking all windows restores every part, in any rows, and writes nothing else. */
static void windows(void **state)
{
    (void)state;
    enum { ROWS = 3, PITCH = 64 };
    static const int64_t counts[] = {3, 0, 5, 1, 7};
    static const int64_t places[] = {1, 0, 20, 5, 10};
    const tutti_parts parts = {.outer = ROWS, .pitch = PITCH, .unit = 2, .counts = counts, .displacements = places};
    struct tti_hier s;
    struct tti_windows w;
    unsigned char from[ROWS * PITCH];
    unsigned char to[ROWS * PITCH] = {0};
    unsigned char packed[ROWS * PITCH];
    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (unsigned char)(i + 1);
    }
    make(&s, "ABAAB", 0, 64);
    tti_windows_make(&s, &parts, 0, 2, &w);
    size_t total = 0;
    for (size_t k = 0; k < w.count; k++) {
        for (int32_t rail = 0; rail < s.hosts.rails; rail++) {
            total += tti_window_rail(&w, k, rail);
        }
        tti_window_pack(&w, k, from, &parts, packed);
        tti_window_unpack(&w, k, packed, &parts, to);
    }
    assert_int_equal(total, ROWS * 16);
    for (size_t i = 0; i < sizeof(from); i++) {
        const int64_t at = (int64_t)(i % PITCH / 2);
        bool part = false;
        for (int r = 0; r < 5; r++) {
            part = part || (at >= places[r] && at < places[r] + counts[r]);
        }
        assert_int_equal(to[i], part ? from[i] : 0);
    }
    tti_hosts_free(&s.hosts);
}

static void expect_text(const char *from, const char *wanted)
{
    static const int32_t ranks[] = {1, 3, 12};
    char text[200];
    tti_hier_renumber(from, ranks, 3, text, sizeof(text));
    assert_string_equal(text, wanted);
}

static void sentences(void **state)
{
    (void)state;
    expect_text("rank 0 has died", "rank 1 has died");
    expect_text("suspected: rank 1, 2", "suspected: rank 3, 12");
    expect_text("ranks 0 and 2, 17 of them; rank 2 or 1", "ranks 1 and 12, 17 of them; rank 12 or 3");
    expect_text("rank 0 (process 7; last call: barrier, 1), rank 1, 2",
                "rank 1 (process 7; last call: barrier, 1), rank 3, 12");
    expect_text("rank 3 is unknown, lane 0 is no rank", "rank 3 is unknown, lane 0 is no rank");
    expect_text("frank 0 crank 1 rank", "frank 0 crank 1 rank");
    char little[12];
    const int32_t ranks[] = {100};
    tti_hier_renumber("it is rank 0 that has died", ranks, 1, little, sizeof(little));
    assert_string_equal(little, "it is rank ");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* An engine that keeps the cause that it is aborted with, as Gloo and MPI do, or has one from the test. `missing`: the
 * rank that an abort without a suspect names. */
struct recorder {
    tutti_error cause;
    int32_t missing;
};

static tutti_status recorded_failure(void *state, tutti_error *error)
{
    const struct recorder *r = state;
    if (r->cause.status != TUTTI_OK && error) {
        *error = r->cause;
    }
    return r->cause.status;
}

static void record_abort(void *state, int32_t lane, const tutti_error *cause)
{
    struct recorder *r = state;
    (void)lane;
    r->cause = *cause;
    r->cause.suspect = cause->suspect < 0 ? r->missing : cause->suspect;
}

static const tutti_backend_ops recorder_ops = {
    .size = sizeof(recorder_ops), .failure = recorded_failure, .abort = record_abort};
static const tutti_backend recorder_backend = {.name = "recorder", .ops = &recorder_ops};

/* Rank 2 of hosts A (ranks 0, 2, 4) and B (1, 3, 5): local rank 1, on the rail of ranks 2 and 3. */
struct fixture {
    struct tti_hier *s;
    struct recorder of_flat;
    struct recorder of_inner;
    struct recorder of_rail;
    tutti_engine flat;
    tutti_engine inner;
    tutti_engine rail;
};

static void fixture_make(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->s = malloc(sizeof(*f->s));
    assert_non_null(f->s);
    make(f->s, "ABABAB", 2, 1024);
    pthread_mutex_init(&f->s->lock, NULL);
    f->of_flat.missing = f->of_inner.missing = f->of_rail.missing = -1;
    f->flat = (tutti_engine){.rank = 2, .world_size = 6, .backend = &recorder_backend, .state = &f->of_flat};
    f->inner = (tutti_engine){.rank = 1, .world_size = 3, .backend = &recorder_backend, .state = &f->of_inner};
    f->rail = (tutti_engine){.rank = 0, .world_size = 2, .backend = &recorder_backend, .state = &f->of_rail};
    f->s->flat = &f->flat;
    f->s->inner = &f->inner;
    f->s->rail = &f->rail;
}

static void fixture_free(struct fixture *f)
{
    pthread_mutex_destroy(&f->s->lock);
    tti_hosts_free(&f->s->hosts);
    free(f->s);
}

static void expect_error(const tutti_error *e, tutti_status status, int32_t suspect, const char *message)
{
    assert_int_equal(e->status, status);
    assert_int_equal(e->suspect, suspect);
    assert_string_equal(e->message, message);
}

static const char inside_sentence[] = "inside host 0 of 2: rank 2 waited 9 ms for rank 4";

/* A time-out of the inner engine gets ranks of the group. The other engines carry it, with the suspect in their
 * numbers. */
static void failure_inside(void **state)
{
    (void)state;
    struct fixture f;
    tutti_error e;
    fixture_make(&f);
    tti_error_set(&e, TUTTI_TIMEOUT, "rank 1 waited 9 ms for rank 2");
    e.suspect = 2;
    e.elapsed_ms = 9;
    assert_int_equal(tti_hier_fail(f.s, &f.inner, 0, 0, &e), TUTTI_TIMEOUT);
    expect_error(&e, TUTTI_TIMEOUT, 4, inside_sentence);
    expect_error(&f.of_flat.cause, TUTTI_TIMEOUT, 4, inside_sentence);
    expect_error(&f.of_rail.cause, TUTTI_TIMEOUT, 0,
                 inside_sentence); /* rank 4 is not on the rail: its rank 0 reports */
    assert_int_equal(e.elapsed_ms, 9);
    assert_int_equal(tti_hier_usable(f.s, &e), TUTTI_REVOKED);
    assert_int_equal(e.vendor_code, TUTTI_TIMEOUT);
    assert_int_equal(e.suspect, 4);
    fixture_free(&f);
}

/* The cause of an engine's failure, which another rank has reported: an error of the group. */
static void set_cause(tutti_error *cause, tutti_status status, int32_t suspect, const char *sentence)
{
    tti_error_set(cause, status, "%s", sentence);
    cause->suspect = suspect;
    snprintf(cause->backend, sizeof(cause->backend), "%s", TTI_HIER_NAME);
}

/* The cause of a rank on another host comes through the flat engine: it is not renumbered, and gets no second origin. A
 * message of the application that resembles an origin changes nothing. */
static void failure_elsewhere(void **state)
{
    (void)state;
    static const char far[] = "inside host 1 of 2: rank 1 waited 9 ms for rank 3";
    struct fixture f;
    tutti_error e;
    tutti_error revoked;
    fixture_make(&f);
    set_cause(&f.of_flat.cause, TUTTI_TIMEOUT, 3, far);
    tti_error_set(&e, TUTTI_TIMEOUT, "rank 1 waited 10 ms for rank 0");
    e.elapsed_ms = 10;
    assert_int_equal(tti_hier_fail(f.s, &f.rail, 0, 0, &e), TUTTI_TIMEOUT);
    expect_error(&e, TUTTI_TIMEOUT, 3, far);
    assert_int_equal(e.elapsed_ms, 10);
    expect_error(&f.of_rail.cause, TUTTI_TIMEOUT, 1, far);
    tti_error_set(&revoked, TUTTI_REVOKED, "the group has failed: %s",
                  far); /* by the inner engine, which is aborted now */
    assert_int_equal(tti_hier_fail(f.s, &f.inner, 0, 0, &revoked), TUTTI_REVOKED);
    assert_int_equal(revoked.suspect, 3);
    assert_non_null(strstr(revoked.message, far));
    fixture_free(&f);
    fixture_make(&f);
    tti_error_set(&e, TUTTI_BACKEND, "\"inside host 9 of 2: rank 0\" of rank 0");
    assert_int_equal(tti_hier_fail(f.s, &f.rail, 0, 0, &e), TUTTI_BACKEND);
    expect_error(&e, TUTTI_BACKEND, -1, "between hosts: \"inside host 9 of 2: rank 2\" of rank 2");
    fixture_free(&f);
}

/* A rank of this rail has failed the rail only: its engine reports REVOKED and quotes the cause, which is of the
 * group. */
static void failure_between(void **state)
{
    (void)state;
    struct fixture f;
    tutti_error e;
    fixture_make(&f);
    set_cause(&f.of_rail.cause, TUTTI_PEER_DEAD, 1, "between hosts: rank 3 has died");
    tti_error_set(&e, TUTTI_REVOKED, "the group has failed: between hosts: rank 3 has died");
    e.suspect = 1;
    assert_int_equal(tti_hier_fail(f.s, &f.rail, 0, 0, &e), TUTTI_REVOKED);
    expect_error(&e, TUTTI_REVOKED, 3, "the group has failed: between hosts: rank 3 has died");
    assert_int_equal(tti_hier_usable(f.s, &e), TUTTI_REVOKED); /* a later call does not quote the quote */
    expect_error(&e, TUTTI_REVOKED, 3, "the group has failed: between hosts: rank 3 has died");
    fixture_free(&f);
}

/* A rank elsewhere failed alone, so its cause is REVOKED to the others. The sentence stays as it is. */
static void failure_of_one_rank(void **state)
{
    (void)state;
    struct fixture f;
    tutti_error e;
    fixture_make(&f);
    set_cause(&f.of_flat.cause, TUTTI_REVOKED, 3, "between hosts: rank 3 cannot read");
    assert_int_equal(tti_hier_failure(f.s, &e), TUTTI_REVOKED);
    expect_error(&e, TUTTI_REVOKED, 3, "between hosts: rank 3 cannot read");
    assert_int_equal(f.of_inner.cause.suspect, 1); /* rank 3 is not on this host: this rank reports for it */
    fixture_free(&f);
}

/* The first failure of this rank is the cause of all later ones. */
static void failure_before(void **state)
{
    (void)state;
    struct fixture f;
    tutti_error e;
    fixture_make(&f);
    tti_error_set(&e, TUTTI_TIMEOUT, "rank 1 waited 9 ms for rank 2");
    e.suspect = 2;
    tti_hier_fail(f.s, &f.inner, 0, 0, &e);
    tti_error_set(&e, TUTTI_BACKEND, "rank 0 cannot send to rank 1");
    assert_int_equal(tti_hier_fail(f.s, &f.rail, 0, 0, &e), TUTTI_TIMEOUT);
    expect_error(&e, TUTTI_TIMEOUT, 4, inside_sentence);
    assert_int_equal(tti_hier_failure(f.s, &e), TUTTI_TIMEOUT);
    expect_error(&e, TUTTI_TIMEOUT, 4, inside_sentence);
    fixture_free(&f);
}

/* An abort from above uses the ranks of the group. The inner engine has recorded which rank has not arrived. */
static void abort_without_suspect(void **state)
{
    (void)state;
    struct fixture f;
    tutti_error e;
    fixture_make(&f);
    f.of_inner.missing = 0;
    tti_error_set(&e, TUTTI_TIMEOUT, "the work of rank 1 has waited 9 ms");
    tti_hier_abort(f.s, 0, &e);
    assert_int_equal(tti_hier_failure(f.s, &e), TUTTI_TIMEOUT);
    expect_error(&e, TUTTI_TIMEOUT, 0, "the work of rank 1 has waited 9 ms; not arrived there: rank 0 on host 0 of 2");
    assert_string_equal(f.of_flat.cause.message, e.message);
    fixture_free(&f);
}

/* An engine suspects this rank itself if it misses no other one. Another engine may still miss a rank; if none does,
 * the cause of the group suspects this rank. */
static void abort_with_own_rank(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct fixture f;
        tutti_error e;
        fixture_make(&f);
        f.of_inner.missing = f.inner.rank;
        f.of_rail.missing = late ? 1 : f.rail.rank;
        tti_error_set(&e, TUTTI_TIMEOUT, "a work has waited 9 ms");
        tti_hier_abort(f.s, 0, &e);
        assert_int_equal(tti_hier_failure(f.s, &e), TUTTI_TIMEOUT);
        expect_error(&e, TUTTI_TIMEOUT, late ? 3 : 2,
                     late ? "a work has waited 9 ms; not arrived there: rank 3 on host 1 of 2"
                          : "a work has waited 9 ms");
        assert_int_equal(f.of_flat.cause.suspect, late ? 3 : -1);
        fixture_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(slices),
        cmocka_unit_test(short_vectors),
        cmocka_unit_test(windows),
        cmocka_unit_test(sentences),
        cmocka_unit_test(failure_inside),
        cmocka_unit_test(failure_elsewhere),
        cmocka_unit_test(failure_between),
        cmocka_unit_test(failure_of_one_rank),
        cmocka_unit_test(failure_before),
        cmocka_unit_test(abort_without_suspect),
        cmocka_unit_test(abort_with_own_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
