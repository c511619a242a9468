/* SPDX-License-Identifier: BSD-3-Clause */
/* Proofs that a split model is the same model. */
#ifndef EXAMPLES_GPT_VERIFY_H
#define EXAMPLES_GPT_VERIFY_H

#include "options.h"

#include <tutti/tutti.h>

/* The command `gpt verify`: gradients by finite differences, then each step's loss against one rank's. Returns the exit
 * status: 0 if both are equal within float tolerance. */
int verify_command(tutti_group *world, const struct options *o);

#endif
