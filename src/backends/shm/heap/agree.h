/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a collective call of the heap. */
#ifndef TTI_BACKENDS_SHM_HEAP_AGREE_H
#define TTI_BACKENDS_SHM_HEAP_AGREE_H

#include <tutti/backend.h>

#include "backends/shm/heap/state.h"
#include "store/store.h"

/* Exchanges `mine` for the records of all ranks. The failure closest to the cause becomes the result on all ranks, with
 * a sentence that begins with `what`. If this rank has failed before, `mine.status` is set and *error holds its
 * sentence. `all` is NULL if this rank has no memory for the records: then mine.status is that of tti_heap_no_list. */
tutti_status tti_heap_agree(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                            struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error);

/* NO_MEMORY for the records of all ranks. The rank still takes part in the next agreement, since the others wait for
 * it. */
tutti_status tti_heap_no_list(const struct tti_heap_view *v, tutti_error *error);

/*
 * Opens the descriptor channel: a store under a random name from the record of rank 0. It is a step of its own: a rank
 * that cannot open it could not report that to ranks that already wait for its descriptor. The channel stays open until
 * all ranks have agreed that they are done.
 */
tutti_status tti_heap_open_fd_channel(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                                      struct tti_heap_record *mine, struct tti_heap_record *all,
                                      struct tti_store **channel, tutti_error *error);

/*
 * Hands `fd` (-1: none) to the other ranks and maps the descriptors of the ranks with wanted[rank] as the region that
 * their records name: the arena if `arena`, else a registered one. PEER_CORRUPT: a rank names a region that it cannot
 * have.
 */
tutti_status tti_heap_exchange_fds(struct tti_heap_view *v, const tutti_exchange *exchange,
                                   const struct tti_heap_record *all, const bool *wanted, bool arena, int fd,
                                   struct tti_store *channel, tutti_error *error);

/* For a rank that cannot hand over its descriptor: the others do not wait for it. */
void tti_heap_put_no_fd(const struct tti_heap_view *v, struct tti_store *channel);

/* After the first round: NO_MEMORY, on every rank, if the host or the control group of a rank has less memory than the
 * ranks want. */
static inline tutti_status tti_heap_check_available(const struct tti_heap_view *v, const struct tti_heap_record *all,
                                                    tutti_error *error)
{
    return tti_memory_requests_check(&all[0].memory, sizeof(*all), v->size, error);
}

#endif
