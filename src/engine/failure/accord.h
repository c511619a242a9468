/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks need to agree after some of them have died: accord.c. Ballots and verdicts lie on the fault page of each
 * segment and are written by its owner only; the arbiter lies in the bell, behind the alarm.
 */
#ifndef TTI_ENGINE_ACCORD_H
#define TTI_ENGINE_ACCORD_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "engine/memory/layout.h"

struct tti_engine;

#define TTI_ACCORD_SERIES 2
#define TTI_ACCORD_WORDS  (TTI_MAX_RANKS / 64)
#define TTI_ACCORD_RESIGNED                                                                                            \
    UINT64_MAX /* instead of a round: the owner has been left out, and takes part in nothing more */

/* What a rank says in a round. Rounds take turns with two of each, so that a slow rank can still read the one before. */
struct tti_ballot {
    _Atomic uint64_t round; /* stored last: the rest is there */
    _Atomic uint64_t flags;
};

/* What it takes the outcome to be; that of the rank that the arbiter names is the outcome. */
struct tti_verdict {
    _Atomic uint64_t round; /* 0 while the rest is being written */
    _Atomic uint64_t flags;
    _Atomic uint64_t token[2];
    _Atomic uint64_t absent[TTI_ACCORD_WORDS];
};

struct tti_accord_page {
    struct tti_ballot ballots[TTI_ACCORD_SERIES][2];
    struct tti_verdict verdicts[TTI_ACCORD_SERIES][2];
};
#define TTI_ACCORD_AT 1024u /* on the fault page */
static_assert(sizeof(struct tti_fault) <= TTI_ACCORD_AT, "the fault comes first");
static_assert(TTI_ACCORD_AT + sizeof(struct tti_accord_page) <= TTI_PAGE, "both fit the page");

/* Written by all: the one word of the bell that is no hint. */
struct tti_arbiter {
    _Atomic uint64_t decided[TTI_ACCORD_SERIES]; /* round << 16 | 1 + rank whose verdict counts; grows */
    _Atomic uint32_t news;                       /* bumped after each ballot and decision: what ranks sleep on */
    uint32_t unused;
};
#define TTI_ARBITER_AT 64u
static_assert(TTI_ARBITER_AT + sizeof(struct tti_arbiter) <= TTI_LINE, "the bell's first line");

/* This rank's own memory of a series. */
struct tti_accord_state {
    uint64_t round; /* the last one that it has taken part in */
    bool open;      /* it has not seen its end */
    bool resigned;
};

/* As tutti_backend_ops.accord, .lost and .fate. */
tutti_status tti_engine_accord(struct tti_engine *e, tutti_accord *accord, tutti_error *error);
void tti_engine_lost(struct tti_engine *e, uint64_t *ranks);
tutti_status tti_engine_fate(struct tti_engine *e, int rank, tutti_error *error);

/* As tutti_backend_ops.revoke. */
void tti_engine_revoke(struct tti_engine *e, tutti_operation how);

#endif
