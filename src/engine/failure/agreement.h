/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement after deaths: agreement.c. Votes and proposals lie on the fault page of each segment, and only its owner
 * writes them. The decision word lies in the doorbell, behind the alarm.
 */
#ifndef TTI_ENGINE_FAILURE_AGREEMENT_H
#define TTI_ENGINE_FAILURE_AGREEMENT_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "engine/lane.h"

#define TTI_AGREEMENT_WORDS (TTI_MAX_RANKS / 64)
#define TTI_AGREEMENT_EXCLUDED                                                                                         \
    UINT64_MAX /* instead of a round: the other ranks have gone on without the owner, which votes no more */

/* A rank's vote in a round. There are two of each, for odd and even rounds: a slow rank can still read the round
 * before. */
struct tti_vote {
    _Atomic uint64_t round; /* stored last: then the rest is there */
    _Atomic uint64_t flags;
};

/* A rank's proposal for the decision. The one of the rank that the decision word names is the decision. */
struct tti_proposal {
    _Atomic uint64_t round; /* 0 while the rest is being written */
    _Atomic uint64_t flags;
    _Atomic uint64_t token[2];
    _Atomic uint64_t absent[TTI_AGREEMENT_WORDS];
};

struct tti_agreement_page {
    struct tti_vote votes[TTI_AGREEMENT_SERIES][2];
    struct tti_proposal proposals[TTI_AGREEMENT_SERIES][2];
};
#define TTI_AGREEMENT_OFFSET 1024u /* on the fault page */
static_assert(sizeof(struct tti_fault) <= TTI_AGREEMENT_OFFSET, "the fault comes first");
static_assert(TTI_AGREEMENT_OFFSET + sizeof(struct tti_agreement_page) <= TTI_PAGE, "both fit the page");

/* Written by all ranks. `decided`, and the decision on a split, are the words of the doorbell that are no hints. */
struct tti_decision_word {
    _Atomic uint64_t decided[TTI_AGREEMENT_SERIES]; /* round << 16 | 1 + rank whose proposal counts; grows */
    _Atomic uint32_t event_count;                   /* grows after each vote and decision: ranks sleep on it */
    uint32_t unused;
};
#define TTI_DECISION_WORD_OFFSET 64u
static_assert(TTI_DECISION_WORD_OFFSET + sizeof(struct tti_decision_word) <= TTI_SPLIT_DECISION_OFFSET &&
                  TTI_SPLIT_DECISION_OFFSET + sizeof(uint64_t) <= TTI_ALARM_SLEEPERS_OFFSET &&
                  TTI_ALARM_SLEEPERS_OFFSET + sizeof(uint32_t) <= TTI_LINE,
              "the doorbell's first line");

/* The functions behind tutti_backend_ops.agree and .revoke. */
tutti_status tti_engine_agree(struct tti_engine *e, tutti_agreement *agreement, tutti_error *error);
void tti_engine_revoke(struct tti_engine *e, tutti_operation how);

#endif
