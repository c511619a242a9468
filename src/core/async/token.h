/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancellation tokens: a token has a list of links, one for each operation with the token, and a list of child tokens.
 * It fires once: by tutti_cancel_token_cancel, by its limit, or with its parent. All tokens below it fire with it, and
 * each of their links is notified. A token never becomes unfired.
 */
#ifndef TTI_CORE_ASYNC_TOKEN_H
#define TTI_CORE_ASYNC_TOKEN_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/work.h>

#include "core/group/handles.h"

struct tti_token;

/* Notified when a token fires; embedded in a work, or in a waiter. Zero-initialised. Its owner unlinks it before it
 * links it again or frees it. */
struct tti_token_link {
    struct tti_token *token; /* under the lock; NULL: not linked, or notified */
    struct tti_token_link *next;
    struct tti_token_link *previous;
    /* True if it was too late. On the thread that fires, with the token's lock held: must not block or call this
     * file. */
    bool (*fired)(struct tti_token_link *link);
    pthread_mutex_t *lock; /* of the linker: from link to unlink; the token's, which outlives it */
};

/* Links to a live token. INVALID_ARGUMENT (NULL), CANCELLED (fired already), BAD_STATE, FORKED. */
tutti_status tti_token_link(tutti_cancel_token *handle, struct tti_token_link *link);

/* Afterwards the link is not notified, and `fired` is not running. No effect if it is not linked. The caller must hold
 * no lock that `fired` takes. */
void tti_token_unlink(struct tti_token_link *link);

/* ---- for the public functions ----------------------------------------------------------------------------------- */

/* The token, with the caller counted as a user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
struct tti_token *tti_token_acquire(tutti_cancel_token *handle, tutti_status *why);
void tti_token_release(struct tti_token *token);

/* Below `parent` (may be NULL); limit_ms is -1 (none) or more. NO_MEMORY, NO_RESOURCE. */
tutti_status tti_token_create(struct tti_token *parent, int64_t limit_ms, tutti_cancel_token **handle,
                              tutti_error *error);

/* Fires it if it has not fired; how many links were too late when it did, those of the tokens below included. */
int64_t tti_token_fire(struct tti_token *token);
bool tti_token_fired(struct tti_token *token);

/* Whether a token is `above` or one below it, that is, fires with it. False if one of them is gone. */
bool tti_token_below(tutti_cancel_token *handle, tutti_cancel_token *above);

/* Frees it, instead of a release: OK; BUSY if there is another user. */
tutti_status tti_token_destroy(struct tti_token *token);

#endif
