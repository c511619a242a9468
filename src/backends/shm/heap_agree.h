/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a collective call of the heap. */
#ifndef TTI_BACKENDS_SHM_HEAP_AGREE_H
#define TTI_BACKENDS_SHM_HEAP_AGREE_H

#include <tutti/backend.h>

#include "backends/shm/heap_state.h"
#include "store/store.h"

/* Tells everybody `mine` and reads all records; the first failure among them becomes everybody's, with a sentence that
 * begins with `what`. On failure before the call `mine.status` is set and *error is what went wrong. */
tutti_status tti_heap_agree(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                            struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error);

/*
 * The passage of descriptors: a store under a random name, which rank 0 has told all in its record. A step of its own, as a rank
 * that cannot open it could not tell the others, who would wait for what it hands over. It is to stay open until all ranks
 * have agreed that they are done.
 */
tutti_status tti_heap_open_fd_channel(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                                      struct tti_heap_record *mine, struct tti_heap_record *all,
                                      struct tti_store **channel, tutti_error *error);

/*
 * Hands `fd` (-1: none) to the other ranks and maps what those with wanted[rank] hand over, as their region: `arena`, the one
 * that has this number, or not. PEER_CORRUPT: a rank means a region that it cannot have.
 */
tutti_status tti_heap_exchange_fds(struct tti_heap_view *v, const struct tti_heap_record *all, const bool *wanted,
                                   bool arena, int fd, struct tti_store *channel, tutti_error *error);

/* The same for a rank that cannot hand over what the others want: they need not wait for it. */
void tti_heap_put_no_fd(const struct tti_heap_view *v, struct tti_store *channel);

/* NO_MEMORY if what all ranks want cannot be had. */
tutti_status tti_heap_check_available(const struct tti_heap_view *v, const struct tti_heap_record *all,
                                      tutti_error *error);

#endif
