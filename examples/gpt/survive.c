/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recovery of ULFM (Bland et al. 2013): revoke, shrink, restore. A rank that sees an error revokes its groups, so
 * that ranks in other groups, which do not have the dead one, see one, too. Then all living ranks shrink the world. The
 * parts of the model that the dead rank held are lost, so all load the last checkpoint, which any split can read.
 */
#include "survive.h"

#include "common/common.h"

#include <stdio.h>

#define SHRINK_MS 60000

/* How many ranks share the layers now: at least as many as before, so that no rank needs more memory; if that does not
 * work, as many as possible; 0: no number works. */
static int32_t choose_split(const struct options *o, int32_t ranks, const struct text *text)
{
    char why[512];
    int32_t best = 0;
    for (int32_t tensor = 1; tensor <= ranks; tensor++) {
        if (train_check(o, ranks, tensor, text, why, sizeof(why)) && best < o->tensor) {
            best = tensor;
        }
    }
    return best;
}

/* Replaces the groups by those of the ranks that are left. An error of more deaths is left in p->status. */
static void shrink(struct parallel *p, struct options *o, const struct text *text, const tutti_group *first)
{
    tutti_group *old = p->world;
    tutti_group *rest;
    tutti_error error;
    parallel_revoke(p);
    parallel_close(p);
    must(tutti_group_shrink(old, SHRINK_MS, &rest, &error), &error);
    if (old != first) {
        tutti_group_destroy(old, NULL);
    }
    const int32_t tensor = choose_split(o, tutti_group_size(rest), text);
    if (tensor == 0) {
        input_check(rest,
                    "the ranks that are left divide neither the layers nor the batch; resume with another number");
    }
    o->tensor = tensor;
    parallel_open(p, rest, tensor, o->sequence);
}

void survive(struct trainer *t, struct options *o, const tutti_group *first)
{
    struct parallel *p = t->parallel;
    const struct text *text = t->text;
    const long long step = (long long)t->adam.step + 1;
    const tutti_error reason = p->error;
    do {
        trainer_close(t);
        do {
            shrink(p, o, text, first);
        } while (p->status != TUTTI_OK);
        trainer_open(t, p, o, text);
        trainer_load(t);
    } while (p->status != TUTTI_OK);
    if (p->rank == 0) {
        printf("step %lld: %s\n", step, reason.message);
        printf("%d ranks (%d x %d, tensor x data) go on from step %lld\n", p->ranks, p->tensor_ranks, p->data_ranks,
               (long long)t->adam.step);
    }
}
