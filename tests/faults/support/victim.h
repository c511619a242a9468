/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens to the victim of a round, as the rank that it is goes on. */
#ifndef TESTS_FAULTS_VICTIM_H
#define TESTS_FAULTS_VICTIM_H

#include "faults/support/round.h"

/* The rank is the victim, and begins. */
void victim_prepare(struct stage *s);
/* Before init, the call, or the destruction in which it happens; and behind that, if there is something behind it. */
void victim_begin(struct stage *s);
void victim_end(struct stage *s);
/* Nothing happens any more. */
void victim_calm(const struct stage *s);
/* In a thread to which it is left: returns never. */
void victim_await(void);

#endif
