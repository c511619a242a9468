/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a token takes, engine by engine, with random weights in the shapes of known models. */
#ifndef EXAMPLES_GPT_INFERENCE_DECODE_H
#define EXAMPLES_GPT_INFERENCE_DECODE_H

#include "options.h"

#include <tutti/tutti.h>

/* The command `gpt decode`. Returns the exit status. */
int decode_command(tutti_group *world, const struct options *o);

#endif
