/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a group go through a collective call of the heap together: every step ends the same way for all. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/shm/heap_file.h"
#include "backends/shm/heap_room.h"
#include "backends/shm/heap_state.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/patience.h"

tutti_status tti_heap_agree(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                            struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error)
{
    mine->message[0] = '\0';
    if (mine->status != TUTTI_OK) {
        snprintf(mine->message, sizeof(mine->message), "%.*s", (int)sizeof(mine->message) - 1, error->message);
    }
    tutti_status status = exchange->gather(exchange->self, mine, sizeof(*mine), all, error);
    for (int r = 0; r < v->size && status == TUTTI_OK; r++) {
        if (all[r].status != TUTTI_OK) {
            all[r].message[sizeof(all[r].message) - 1] = '\0';
            status =
                tti_error_set(error, tti_status_of_peer(all[r].status), "%s: rank %d: %s", what, r, all[r].message);
            error->suspect = r;
        }
    }
    return status;
}

/* The others may be lost, or have given up, while they are waited for. */
static tutti_status await_descriptor(struct tti_heap_view *v, struct tti_store *passage, const char *key,
                                     int64_t deadline, int *fd, tutti_error *error)
{
    const struct tti_heap_movers group = tti_heap_movers_of(v);
    struct tti_patience patience = tti_patience_until(deadline);
    for (;;) {
        tutti_status status = tti_store_get_fd(passage, key, fd, tti_patience_turn_ms(&patience), error);
        const tutti_status reason =
            status == TUTTI_TIMEOUT && group.failure ? group.failure(group.user, error) : TUTTI_OK;
        if (reason != TUTTI_OK || status != TUTTI_TIMEOUT || patience.last) {
            return reason != TUTTI_OK ? reason : status;
        }
    }
}

static tutti_status receive(struct tti_heap_view *v, int rank, unsigned region, struct tti_store *passage,
                            int64_t deadline, tutti_error *error)
{
    char key[32];
    int fd = -1;
    size_t bytes = 0;
    unsigned char *base = NULL;
    snprintf(key, sizeof(key), "heap/%d", rank);
    tutti_status status = await_descriptor(v, passage, key, deadline, &fd, error);
    if (status == TUTTI_TIMEOUT && tti_remaining_ms(deadline) == 0) {
        tti_error_set(error, status, "rank %d did not hand over its memory within %lld ms", rank,
                      (long long)v->timeout_ms);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_heap_file_check(fd, rank, &bytes, error);
    if (status == TUTTI_OK) {
        status = tti_heap_file_map(fd, bytes, false, &base, error);
    }
    close(fd);
    if (status == TUTTI_OK) {
        pthread_mutex_lock(&v->shared->lock);
        tti_heap_replace(v->shared, v->member_of[rank], region, tti_heap_word(base, bytes));
        pthread_mutex_unlock(&v->shared->lock);
    }
    return status;
}

/* A number out of a peer's record becomes an index: of the arena, or of what can be registered. */
static tutti_status check_regions(const struct tti_heap_view *v, const struct tti_heap_record *all, bool arena,
                                  tutti_error *error)
{
    for (int r = 0; r < v->size; r++) {
        const uint32_t region = all[r].region;
        if (region >= TTI_HEAP_REGIONS || (region == TTI_HEAP_ARENA) != arena) {
            return tti_error_set(error, TUTTI_PEER_CORRUPT,
                                 "rank %d means region %u of its memory, which it cannot have", r, (unsigned)region);
        }
    }
    return TUTTI_OK;
}

tutti_status tti_heap_pass(struct tti_heap_view *v, const struct tti_heap_record *all, const bool *wanted, bool arena,
                           int fd, struct tti_store **passage, tutti_error *error)
{
    char url[64];
    char key[32];
    int64_t deadline = tti_deadline_ns(tti_now_ns(), v->timeout_ms);
    snprintf(url, sizeof(url), "unix:heap-%016llx%016llx", (unsigned long long)all[0].random[0],
             (unsigned long long)all[0].random[1]);
    tutti_status status = check_regions(v, all, arena, error);
    if (status == TUTTI_OK) {
        status = tti_store_open(url, v->rank == 0, v->timeout_ms, passage, error);
    }
    if (status == TUTTI_OK && fd >= 0) {
        snprintf(key, sizeof(key), "heap/%d", v->rank);
        status = tti_store_put_fd(*passage, key, fd, v->size - 1, error);
        if (status != TUTTI_OK) { /* so that nobody waits for it: a value is not what they look for */
            tti_store_set(*passage, key, "", 1, NULL);
        }
    }
    for (int r = 0; r < v->size && status == TUTTI_OK; r++) {
        if (r != v->rank && wanted[r]) {
            status = receive(v, r, all[r].region, *passage, deadline, error);
        }
    }
    return status;
}

tutti_status tti_heap_check_room(const struct tti_heap_view *v, const struct tti_heap_record *all, tutti_error *error)
{
    struct tti_room room = tti_room_look();
    uint64_t host = 0;
    uint64_t limit = 0;
    bool endless = false; /* sums that no machine has */
    for (int r = 0; r < v->size; r++) {
        endless = __builtin_add_overflow(host, all[r].bytes, &host) || endless;
        limit += all[r].cgroup == room.cgroup && !endless ? all[r].bytes : 0;
    }
    if (endless || host > room.host) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "the ranks want %llu bytes, the host has %llu left",
                             (unsigned long long)host, (unsigned long long)room.host);
    }
    if (limit > room.limit) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "the ranks want %llu bytes, their control group leaves %llu",
                             (unsigned long long)limit, (unsigned long long)room.limit);
    }
    return TUTTI_OK;
}
