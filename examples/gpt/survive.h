/* SPDX-License-Identifier: BSD-3-Clause */
/* Training that goes on when ranks die: the others load the last checkpoint with a new split. */
#ifndef EXAMPLES_GPT_SURVIVE_H
#define EXAMPLES_GPT_SURVIVE_H

#include "train.h"

/*
 * After an error in t->parallel: makes a group of the ranks that are left, chooses how many of them share the layers,
 * and loads the last checkpoint. Leaves OK in t->parallel->status. Ends the program if the ranks cannot go on. `o` are
 * the trainer's options, of which the split is changed. `first` is the caller's world, which is not destroyed.
 */
void survive(struct trainer *t, struct options *o, const tutti_group *first);

#endif
