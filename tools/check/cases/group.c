/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups made from the world: by list, by split, nested; operations in them touch their members only, so different
 * sub-groups run different numbers of them at the same time. */
#include <stdlib.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

/* Every collective once small and once not, seen from a member. */
static void run_all(struct tti_check *c, int64_t count)
{
    for (size_t i = 0; i < tti_check_collectives_count; i++) {
        const struct tti_check_collective *collective = &tti_check_collectives[i];
        if (collective->form) {
            struct tti_check_plan p = tti_check_plan_for(collective, count);
            p.root = c->size - 1;
            c->completion = tti_check_random_completion(c, i, 4);
            tti_check_run(c, collective->form, &p);
        }
    }
    c->completion = tti_check_random_completion(c, tti_check_collectives_count, 4);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
}

static void destroy(struct tti_check *c, tutti_group *group)
{
    tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    tti_check_expect_i64(c, "rank in a destroyed group", tutti_group_rank(group), -1);
}

/* Runs everything in a new group whose rank i is rank ranks[i] of c->group, checks its numbering, and destroys it. */
static void use(struct tti_check *c, tutti_group *group, const int32_t *ranks, int count, uint64_t salt)
{
    struct tti_check sub = tti_check_sub(c, group, salt);
    tti_check_expect_i64(&sub, "size of the group", sub.size, count);
    if (sub.size == count && sub.rank >= 0) {
        tti_check_expect_i64(&sub, "place in the list", ranks[sub.rank], c->rank);
        for (int i = 0; i < count; i++) {
            const int32_t global = tutti_group_global_rank(c->group, ranks[i]);
            tti_check_expect_i64(&sub, "global rank of a member", tutti_group_global_rank(group, i), global);
            tti_check_expect_i64(&sub, "local rank of a member", tutti_group_local_rank(group, global), i);
        }
        run_all(&sub, 7);
        run_all(&sub, c->quick ? 3000 : 30000);
    }
    destroy(&sub, group);
    tti_check_merge(c, &sub);
}

static void create_and_use(struct tti_check *c, const int32_t *ranks, int count, uint64_t salt)
{
    tutti_group *group = NULL;
    if (tti_check_ok(c, "group_create", tutti_group_create(c->group, ranks, count, NULL, &group, &c->error))) {
        use(c, group, ranks, count, salt);
    }
}

static void reversed(struct tti_check *c, int32_t *ranks)
{
    for (int i = 0; i < c->size; i++) {
        ranks[i] = c->size - 1 - i;
    }
    create_and_use(c, ranks, c->size, 1);
}

static void pairs(struct tti_check *c, int32_t *ranks)
{
    if (c->size == 1) {
        tti_check_skip(c);
    }
    /* beyond a few ranks, pairs at all distances, but not all pairs */
    for (int32_t a = 0; a < c->size; a++) {
        for (int32_t distance = 1; a + distance < c->size; distance = c->size <= 8 ? distance + 1 : 2 * distance) {
            /* the higher rank first, every other time */
            const int32_t b = a + distance;
            ranks[0] = distance % 2 ? a : b;
            ranks[1] = distance % 2 ? b : a;
            if (c->rank == a || c->rank == b) {
                create_and_use(c, ranks, 2, 100 + (uint64_t)a * 10000 + (uint64_t)b);
            }
        }
    }
}

static void alone(struct tti_check *c, int32_t *ranks)
{
    ranks[0] = c->rank;
    create_and_use(c, ranks, 1, 200 + (uint64_t)c->rank);
}

/* A world of one rank: it uses no store, though the job has one. */
static void private_world(struct tti_check *c, int32_t *ranks)
{
    (void)ranks;
    tutti_group *group = NULL;
    const DLDevice device = tutti_group_device(c->group);
    const char *kind = device.device_type == kDLCUDA ? "cuda" : device.device_type == kDLROCM ? "rocm" : "cpu";
    const tutti_config *config =
        TUTTI_CONFIG(.world_size = 1, .backend = tutti_group_backend(c->group), .device = kind,
                     .device_index = device.device_id, .lanes = 4, .timeout_ms = c->options->timeout_ms);
    if (!tti_check_ok(c, "init of a world of one rank", tutti_init(config, &group, &c->error))) {
        return;
    }
    struct tti_check sub = tti_check_sub(c, group, 250 + (uint64_t)c->rank);
    tti_check_expect_i64(&sub, "size of the group", sub.size, 1);
    run_all(&sub, 7);
    tti_check_group_works(c); /* the group of all, while there is the other one */
    run_all(&sub, c->quick ? 3000 : 30000);
    destroy(&sub, group);
    tti_check_merge(c, &sub);
}

/* Members of the same parity, in ascending or descending order. */
static int same_parity(const struct tti_check *c, int32_t *ranks, bool descending)
{
    int count = 0;
    for (int i = 0; i < c->size; i++) {
        const int r = descending ? c->size - 1 - i : i;
        if (r % 2 == c->rank % 2) {
            ranks[count++] = r;
        }
    }
    return count;
}

static void split(struct tti_check *c, int32_t *ranks, bool descending)
{
    tutti_group *group = NULL;
    const int32_t key = descending ? -c->rank : 0; /* equal keys: by rank in the parent */
    const int count = same_parity(c, ranks, descending);
    if (tti_check_ok(c, "group_split", tutti_group_split(c->group, c->rank % 2, key, NULL, &group, &c->error))) {
        use(c, group, ranks, count, 300 + (uint64_t)(c->rank % 2));
    }
}

static void split_without_last(struct tti_check *c, int32_t *ranks)
{
    tutti_group *group = NULL;
    const bool last = c->rank == c->size - 1;
    for (int i = 0; i < c->size; i++) {
        ranks[i] = i;
    }
    if (!tti_check_ok(c, "group_split", tutti_group_split(c->group, last ? -1 : 0, 0, NULL, &group, &c->error))) {
        return;
    }
    if (last) {
        tti_check_expect_i64(c, "a group for colour -1", group != NULL, 0);
    } else {
        use(c, group, ranks, c->size - 1, 400);
    }
}

static void different_numbers(struct tti_check *c, int32_t *ranks)
{
    tutti_group *group = NULL;
    const int count = same_parity(c, ranks, false);
    const uint64_t colour = (uint64_t)(c->rank % 2);
    if (!tti_check_ok(c, "group_create", tutti_group_create(c->group, ranks, count, NULL, &group, &c->error))) {
        return;
    }
    for (int i = 0; i < (colour == 0 ? 40 : 7); i++) {
        struct tti_check sub = tti_check_sub(c, group, 500 + 2 * (uint64_t)i + colour);
        const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, 13 * i);
        sub.completion = tti_check_random_completion(&sub, 0, 4);
        tti_check_run(&sub, &tti_check_all_reduce_form, &p);
        tti_check_merge(c, &sub);
        if (i % 5 == 0 && i < 7) {
            struct tti_check whole = tti_check_sub(c, c->group, 600 + (uint64_t)i);
            run_all(&whole, 11); /* parent and child take turns */
            tti_check_merge(c, &whole);
        }
    }
    destroy(c, group);
}

static void nested(struct tti_check *c, int32_t *ranks)
{
    tutti_group *outer = NULL;
    for (int i = 0; i < c->size; i++) {
        ranks[i] = (i + 1) % c->size;
    }
    if (!tti_check_ok(c, "group_create", tutti_group_create(c->group, ranks, c->size, NULL, &outer, &c->error))) {
        return;
    }
    struct tti_check sub = tti_check_sub(c, outer, 700);
    split(&sub, ranks, true);
    reversed(&sub, ranks);
    tti_check_merge(c, &sub);
    destroy(c, outer);
}

static void many(struct tti_check *c, int32_t *ranks)
{
    (void)ranks;
    for (int i = 0; i < (c->quick ? 5 : 40); i++) {
        tutti_group *group = tti_check_group_of_all(c, NULL);
        if (!group) {
            return;
        }
        struct tti_check sub = tti_check_sub(c, group, 800 + (uint64_t)i);
        const struct tti_check_plan p = tti_check_plan_1d(TUTTI_I32, TUTTI_SUM, 100);
        sub.completion = tti_check_random_completion(&sub, 0, 4);
        tti_check_run(&sub, &tti_check_all_reduce_form, &p);
        tti_check_merge(c, &sub);
        destroy(c, group);
    }
}

static void split_parity(struct tti_check *c, int32_t *ranks)
{
    split(c, ranks, false);
}

static void split_by_key(struct tti_check *c, int32_t *ranks)
{
    split(c, ranks, true);
}

void tti_check_group_cases(struct tti_check *c)
{
    static const struct {
        const char *name;
        void (*run)(struct tti_check *c, int32_t *ranks); /* `ranks` has room for all */
    } cases[] = {{"create/reversed", reversed},
                 {"create/alone", alone},
                 {"init/one-rank", private_world},
                 {"create/pairs", pairs},
                 {"create/many", many},
                 {"create/nested", nested},
                 {"split/parity", split_parity},
                 {"split/parity-by-key", split_by_key},
                 {"split/without-last", split_without_last},
                 {"different-numbers-at-once", different_numbers}};
    int32_t *ranks = tti_check_memory((size_t)c->size * sizeof(int32_t));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        TTI_CHECK_CASE(c, "%s", cases[i].name) {
            cases[i].run(c, ranks);
        }
    }
    free(ranks);
}
