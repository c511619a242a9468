/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of the hierarchical backend: who is where, how pieces, slices and windows are cut, and how sentences about
 * a part of the group become sentences about the group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/hier/state.h"

#define MOST 16

/* A group of which only the numbers exist; `layout` has a letter for each rank, the name of its host. */
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

/* The slices of a piece follow one another, cover it, and no seat without a rail has one. */
static void slices(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 15, 1000, 4096, 5000, 70000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t covered = 0;
        const size_t pieces = 1 + (counts[i] * 4 - 1) / (64 << 10);
        for (size_t k = 0; k < pieces; k++) {
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

/* What is packed window by window comes back to its place, whatever the rows, and nothing else is written. */
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
    tti_hier_translate(from, ranks, 3, text, sizeof(text));
    assert_string_equal(text, wanted);
}

static void words(void **state)
{
    (void)state;
    expect_text("rank 0 has died", "rank 1 has died");
    expect_text("suspected: rank 1, 2", "suspected: rank 3, 12");
    expect_text("ranks 0 and 2, 17 of them; rank 2 or 1", "ranks 1 and 12, 17 of them; rank 12 or 3");
    expect_text("rank 3 is unknown, lane 0 is no rank", "rank 3 is unknown, lane 0 is no rank");
    expect_text("frank 0 crank 1 rank", "frank 0 crank 1 rank");
    expect_text("rank 1 heard: between hosts: rank 1 has gone", "rank 3 heard: between hosts: rank 1 has gone");
    expect_text("rank 1: inside host 0 of 2: rank 2 has gone", "rank 3: inside host 0 of 2: rank 2 has gone");
    char little[12];
    const int32_t ranks[] = {100};
    tti_hier_translate("it is rank 0 that has died", ranks, 1, little, sizeof(little));
    assert_string_equal(little, "it is rank ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(slices),
        cmocka_unit_test(windows),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
