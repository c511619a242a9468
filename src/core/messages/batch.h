/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches: a thread collects messages and runs them together. A thread has at most one batch at a time, for one group,
 * and no other thread uses it, so it needs no lock. The batch holds no reference on its group: if the group is
 * destroyed first, the batch is dropped.
 *
 * Of the call options of a message only `.error` counts, for the checks; `.callback`, `.timeout_ms` and `.lane` are
 * those of tutti_batch_end.
 */
#ifndef TTI_CORE_MESSAGES_BATCH_H
#define TTI_CORE_MESSAGES_BATCH_H

#include <stdbool.h>

#include "core/messages/transfer.h"

struct tti_batch;
struct tti_signature;

/* Whether this thread has a batch open on the group. */
bool tti_batch_is_open(const tutti_group *group);

static inline bool tti_batch_open(const tutti_group *group)
{
    return tti_thread.open_scopes != 0 && tti_batch_is_open(group);
}

/* BAD_STATE if this thread has one open already. */
tutti_status tti_batch_begin(struct tti_call *c, tutti_group *group);

/* Takes this thread's batch on the group, to run or drop it; NULL if there is none. */
struct tti_batch *tti_batch_take(tutti_group *group);

/* Makes all messages transfers, of which *first is the first one; NULL: the batch is empty. False: there is no
 * memory. */
bool tti_batch_transfers(struct tti_batch *batch, struct tti_group *group, struct tti_transfer **first);

/* Runs the batch. */
tutti_status tti_batch_run(struct tti_call *c, struct tti_batch *batch);

void tti_batch_free(struct tti_batch *batch);

/* Adds a message of the call cache, if all others are so, too. False: nothing was done. `message` is checked, or
 * NULL. */
bool tti_batch_note_cached(const tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                           tutti_message *message);

/* Adds copies of a list of transfers to this thread's batch, which must be open. The copies take over all that the
 * transfers own. False: there is no memory, no copy was added, and the transfers still own everything. */
bool tti_batch_note(const struct tti_transfer *first);

#endif
