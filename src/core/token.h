/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancellation tokens: a list of the operations that share one, and of child tokens. */
#ifndef TTI_CORE_TOKEN_H
#define TTI_CORE_TOKEN_H

#include <stdbool.h>
#include <tutti/work.h>

struct tti_token;

/* Who is told when a token fires; embedded in a work, or in a waiter. */
struct tti_token_link {
    struct tti_token *token; /* NULL: not linked */
    struct tti_token_link *next;
    struct tti_token_link *previous;
    /* True if it was too late. On the thread that fires, with the token's lock held: must not block, nor call this file. */
    bool (*fired)(struct tti_token_link *link);
};

/* Links to a live token, or says why not: CANCELLED (fired already), BAD_STATE, FORKED. */
tutti_status tti_token_link(tutti_cancel_token *handle, struct tti_token_link *link);

/* Afterwards it is not told, and is not being told. Harmless if not linked. */
void tti_token_unlink(struct tti_token_link *link);

#endif
