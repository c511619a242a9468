/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to the victim of a round while it runs as a rank. */
#ifndef TESTS_FAULTS_SUPPORT_VICTIM_H
#define TESTS_FAULTS_SUPPORT_VICTIM_H

#include "faults/support/round.h"

/* The rank is the victim, and begins. */
void victim_prepare(struct round_state *s);
/* Before init, the call, or the destruction in which it happens; and behind that, if there is something behind it. */
void victim_begin(struct round_state *s);
void victim_end(struct round_state *s);
/* Nothing happens any more. */
void victim_calm(const struct round_state *s);
/* In a thread that waits to end the process: does not return. */
void victim_await(void);

#endif
