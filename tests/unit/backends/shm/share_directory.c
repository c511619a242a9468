/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * Two ranks in one process take shares for groups of both, offer, find and release them. An entry of the directory is
 * visible from its offer on, whichever group had it before; more groups of a list than its home has places; shares that
 * are used again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "backends/shm/shares.h"
#include "base/clock.h"

#define RANKS 2
#define MANY  12 /* groups at once: more than the 8 places of their home */
#define LIST  UINT64_C(0x123456789abcdef)

struct job {
    struct tti_layout layout;
    struct tti_mapping segments[RANKS];
    struct tti_mapping doorbell;
    struct tti_root *roots[RANKS]; /* one for each rank, over the same memory */
};

static void job_open(struct job *j)
{
    tutti_error error;
    j->layout = tti_layout_make(RANKS, 1, 1 << 20, 0, 0);
    for (int r = 0; r < RANKS; r++) {
        j->roots[r] = tti_root_create(RANKS, r);
        assert_non_null(j->roots[r]);
        j->roots[r]->layout = j->layout;
        j->roots[r]->doorbell_room = tti_root_doorbell_room(RANKS);
        assert_int_equal(tti_mapping_create("segment", tti_root_segment_bytes(&j->layout), TTI_ROOT_BLOCK,
                                            j->layout.stages, &j->segments[r], &error),
                         TUTTI_OK);
    }
    assert_int_equal(tti_mapping_create("doorbell", tti_root_rooms(j->roots[0]) + RANKS * j->roots[0]->doorbell_room, 0,
                                        tti_root_rooms(j->roots[0]), &j->doorbell, &error),
                     TUTTI_OK);
    for (int r = 0; r < RANKS; r++) {
        memcpy(j->roots[r]->segments, j->segments, sizeof(j->segments));
        j->roots[r]->doorbell = j->doorbell;
    }
}

/* The memory is the job's. */
static void job_close(struct job *j)
{
    for (int r = 0; r < RANKS; r++) {
        for (int peer = 0; peer < RANKS; peer++) {
            j->roots[r]->segments[peer] = (struct tti_mapping){.fd = -1};
        }
        j->roots[r]->doorbell = (struct tti_mapping){.fd = -1};
        tti_root_release(j->roots[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        tti_mapping_close(&j->segments[r]);
    }
    tti_mapping_close(&j->doorbell);
}

static struct tti_share_group group_of(int rank, uint64_t serial)
{
    return (struct tti_share_group){.group = LIST, .serial = serial, .size = RANKS, .rank = rank};
}

static struct tti_share *take(struct job *j, int rank, uint64_t serial)
{
    const struct tti_share_group group = group_of(rank, serial);
    struct tti_share *share = tti_share_take(j->roots[rank], &j->layout, &group);
    assert_non_null(share);
    return share;
}

static void offer(struct job *j, int rank, uint64_t serial, const struct tti_share *share)
{
    const struct tti_share_group group = group_of(rank, serial);
    tti_share_offer(j->roots[rank], share, &group);
}

/* Whether the other rank finds the share of `rank`. */
static bool is_found(struct job *j, int rank, uint64_t serial, struct tti_share_offer *found)
{
    const struct tti_share_group group = group_of(1 - rank, serial);
    return tti_share_find(j->roots[1 - rank], rank, &group, rank, found);
}

/* Both ranks have the group; returns their shares. */
static void form(struct job *j, uint64_t serial, struct tti_share *shares[RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        shares[r] = take(j, r, serial);
        offer(j, r, serial, shares[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        struct tti_share_offer found;
        assert_true(is_found(j, r, serial, &found));
        assert_int_equal(found.state, TTI_SHARE_OFFERED);
        assert_int_equal(found.offset, shares[r]->offset);
        assert_int_equal(found.doorbell, r == 0 ? shares[r]->doorbell : 0);
        tti_share_pair(shares[1 - r], r, r, &found);
    }
}

static void release(struct job *j, struct tti_share *shares[RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        tti_share_release(j->roots[r], shares[r]);
    }
}

/* The ninth group of a list has the home of the first one. */
static void an_entry_is_visible_from_its_offer_on(void **state)
{
    struct job j;
    struct tti_share *shares[RANKS];
    struct tti_share_offer found;
    (void)state;
    job_open(&j);
    for (uint64_t serial = 0; serial < 3 * 8; serial++) {
        for (int r = 0; r < RANKS; r++) {
            assert_false(is_found(&j, r, serial, &found));
        }
        form(&j, serial, shares);
        release(&j, shares);
        struct tti_share *next = take(&j, 0, serial + 8);
        assert_ptr_equal(next, shares[0]); /* used again */
        assert_false(is_found(&j, 0, serial, &found));
        assert_false(is_found(&j, 0, serial + 8, &found));
        tti_share_return(j.roots[0], next);
        assert_int_equal(atomic_load(&tti_root_header(j.roots[0], 0)->places), 1);
    }
    job_close(&j);
}

static void many_groups_of_a_list_are_found(void **state)
{
    struct job j;
    struct tti_share *shares[MANY][RANKS];
    struct tti_share_offer found;
    (void)state;
    job_open(&j);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < MANY; i++) {
            form(&j, (uint64_t)round * MANY + i, shares[i]);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            for (int r = 0; r < RANKS; r++) {
                assert_true(is_found(&j, r, (uint64_t)round * MANY + i, &found));
                assert_int_equal(found.offset, shares[i][r]->offset);
            }
        }
        assert_true(atomic_load(&tti_root_header(j.roots[0], 0)->places) > 1);
        for (uint64_t i = 0; i < MANY; i++) {
            release(&j, shares[i]);
        }
    }
    job_close(&j);
}

static void an_offer_that_is_taken_back_is_seen(void **state)
{
    struct job j;
    struct tti_share_offer found;
    (void)state;
    job_open(&j);
    struct tti_share *share = take(&j, 1, 0);
    offer(&j, 1, 0, share);
    tti_share_withdraw(j.roots[1], share);
    assert_true(is_found(&j, 1, 0, &found));
    assert_int_equal(found.state, TTI_SHARE_WITHDRAWN);
    tti_share_return(j.roots[1], share);
    assert_false(is_found(&j, 1, 0, &found));
    share = take(&j, 1, 8);
    offer(&j, 1, 8, share);
    assert_true(is_found(&j, 1, 8, &found));
    tti_share_abandon(share);
    job_close(&j);
}

/* ---- both ranks at once ------------------------------------------------------------------------------------------ */

#define SERIALS 200000
#define LONG_NS INT64_C(300000000)

/* How often the entry of each group's share has been taken, as its owner says. */
static _Atomic uint64_t taken[RANKS][SERIALS];
static struct job shared_job;
static _Atomic bool over;
static _Atomic bool failed;

static void *form_again_and_again(void *number)
{
    const int rank = (int)(intptr_t)number;
    const int64_t until_ns = tti_now_ns() + LONG_NS;
    for (uint64_t serial = 0; serial < SERIALS; serial++) {
        struct tti_share_offer found;
        struct tti_share *share = take(&shared_job, rank, serial);
        atomic_store(&taken[rank][serial], share->taken);
        offer(&shared_job, rank, serial, share);
        while (!is_found(&shared_job, 1 - rank, serial, &found)) {
            if (atomic_load(&over)) {
                tti_share_abandon(share);
                return NULL;
            }
            sched_yield();
        }
        if (found.state == TTI_SHARE_WITHDRAWN || found.taken != atomic_load(&taken[1 - rank][serial])) {
            atomic_store(&failed, true);
        }
        tti_share_pair(share, 1 - rank, 1 - rank, &found);
        tti_share_release(shared_job.roots[rank], share);
        if (atomic_load(&failed) || tti_now_ns() > until_ns) {
            break;
        }
    }
    atomic_store(&over, true);
    return NULL;
}

/* What a rank finds while the entry changes is none of another group. */
static void an_entry_is_read_whole(void **state)
{
    pthread_t other;
    (void)state;
    job_open(&shared_job);
    assert_int_equal(pthread_create(&other, NULL, form_again_and_again, (void *)(intptr_t)1), 0);
    form_again_and_again((void *)(intptr_t)0);
    pthread_join(other, NULL);
    assert_false(atomic_load(&failed));
    job_close(&shared_job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_visible_from_its_offer_on),
        cmocka_unit_test(many_groups_of_a_list_are_found),
        cmocka_unit_test(an_offer_that_is_taken_back_is_seen),
        cmocka_unit_test(an_entry_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
