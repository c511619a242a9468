/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long sequences by chance: what goes wrong only when a slot, a window or a ring comes round again, or when one kind of
 * operation follows another. Every operation has data of its own, so a result that belongs to an earlier one is seen.
 */
#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/operation/jobs.h"
#include "check/operation/shortcuts.h"

static void sequence(struct tti_check *c, int operations, size_t max_bytes)
{
    for (int i = 0; i < operations; i++) {
        const uint64_t draw = tti_check_mix(c->key, (uint64_t)i + 1000);
        const struct tti_check_collective *collective = &tti_check_collectives[draw % tti_check_collectives_count];
        struct tti_check sub = tti_check_sub(c, c->group, (uint64_t)i);
        tti_check_label(&sub, "#%d %s", i, collective->name);
        sub.completion = tti_check_random_completion(&sub, 0, 4);
        if (collective->form) {
            const struct tti_check_plan p = tti_check_plan_random(&sub, collective->traits, draw, max_bytes);
            tti_check_run(&sub, collective->form, &p);
        } else if (draw % 2 == 0) {
            tti_check_ok(&sub, "barrier", tti_check_barrier(&sub));
        }
        tti_check_merge(c, &sub);
    }
}

void tti_check_soak_cases(struct tti_check *c)
{
    const int small = c->quick ? 300 : 1000;
    for (int i = 0; i < (c->quick ? 1 : 4); i++) {
        TTI_CHECK_CASE(c, "small/%d", i) {
            sequence(c, small, 600);
        }
    }
    for (int i = 0; i < (c->quick ? 1 : 4); i++) {
        TTI_CHECK_CASE(c, "mixed/%d", i) {
            sequence(c, c->quick ? 60 : 200, c->quick ? (size_t)300 << 10 : (size_t)3 << 20);
        }
    }
}
