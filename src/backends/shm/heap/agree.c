/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective call of the heap consists of steps. At the end of each step all ranks exchange a record and decide alike
 * from all records, so a step succeeds on all ranks or fails on all of them. Cost: one all_gather of 304 bytes a rank
 * for each step.
 */
#include "backends/shm/heap/agree.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/shm/heap/file.h"
#include "backends/shm/heap/shared.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait/polled_wait.h"

/* Whether the rank that serves the descriptor channel refused what this one asked for. */
static bool was_refused(const struct tti_heap_record *record)
{
    return record->status == TUTTI_NO_RESOURCE && record->origin == TTI_RESOURCE_OF_SERVER;
}

/* How far a record is from the cause: 0, the rank failed by itself; 1, the server refused its request; 2, it missed
 * another rank. */
static int distance(const struct tti_heap_record *all, int r)
{
    return was_refused(&all[r]) ? 1 : all[r].suspect == r ? 0 : 2;
}

/* The rank whose record has the cause; -1: none failed. */
static int reason_among(const struct tti_heap_record *all, int size)
{
    int reason = -1;
    for (int r = 0; r < size; r++) {
        if (all[r].status != TUTTI_OK && (reason < 0 || distance(all, r) < distance(all, reason))) {
            reason = r;
        }
    }
    return reason;
}

/* The rank whose resource error it is, if that is the server's; -1: it is the rank's own. */
static int server_among(const struct tti_heap_record *all, int size, int reason)
{
    int server = 0;
    while (server < size && !all[server].serves) {
        server++;
    }
    return was_refused(&all[reason]) && server < size ? server : -1;
}

tutti_status tti_heap_no_list(const struct tti_heap_view *v, tutti_error *error)
{
    return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a list of %d ranks", v->size);
}

tutti_status tti_heap_agree(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                            struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error)
{
    mine->message[0] = '\0';
    mine->suspect = v->rank;
    if (mine->status != TUTTI_OK) {
        snprintf(mine->message, sizeof(mine->message), "%.*s", (int)sizeof(mine->message) - 1, error->message);
        mine->suspect = error->suspect >= 0 && error->suspect < v->size ? error->suspect : v->rank;
    }
    tutti_error failure;
    const tutti_status status = exchange->gather(exchange->self, mine, sizeof(*mine), all, &failure);
    if (status != TUTTI_OK && status != mine->status) { /* else the own sentence is of the first TIMEOUT */
        *error = failure;
    }
    if (status == TUTTI_OK && !all) {
        tti_error_set(error, mine->status, "%s: rank %d: %s", what, v->rank, mine->message);
        error->suspect = v->rank;
        return mine->status;
    }
    const int reason = status == TUTTI_OK ? reason_among(all, v->size) : -1;
    if (reason < 0) {
        return status;
    }
    struct tti_heap_record *reported = &all[reason];
    const int server = server_among(all, v->size, reason);
    reported->message[sizeof(reported->message) - 1] = '\0';
    if (server >= 0) {
        tti_error_set(error, TUTTI_NO_RESOURCE, "%s: rank %d could not serve rank %d: %s", what, server, reason,
                      reported->message);
        error->suspect = server;
        return TUTTI_NO_RESOURCE;
    }
    tti_error_set(error, tti_status_of_peer(reported->status), "%s: rank %d: %s", what, reason, reported->message);
    error->suspect = reported->suspect >= 0 && reported->suspect < v->size ? reported->suspect : reason;
    return error->status;
}

/* A descriptor that another rank hands over. */
struct awaited {
    struct tti_heap_group_ops group;
    struct tti_store *channel;
    const char *key;
    int *fd;
};

static tutti_status get_descriptor(void *user, int64_t timeout_ms, tutti_error *error)
{
    const struct awaited *a = user;
    return tti_store_get_fd(a->channel, a->key, a->fd, timeout_ms, error);
}

static tutti_status poll_group(void *user, tutti_error *error)
{
    return tti_heap_group_failure(&((struct awaited *)user)->group, error);
}

static tutti_status await_descriptor(struct tti_heap_view *v, struct tti_store *channel, const char *key,
                                     int64_t deadline, int *fd, tutti_error *error)
{
    struct awaited a = {.group = tti_heap_group_ops_of(v), .channel = channel, .key = key, .fd = fd};
    const struct tti_polled_wait wait = {
        .attempt = get_descriptor, .poll = poll_group, .user = &a, .min_slice_ms = TTI_POLL_MIN_MS};
    return tti_wait_polling(&wait, deadline, error);
}

static tutti_status receive(struct tti_heap_view *v, int rank, unsigned region, struct tti_store *channel,
                            int64_t deadline, tutti_error *error)
{
    char key[32];
    int fd = -1;
    size_t bytes = 0;
    unsigned char *base = NULL;
    snprintf(key, sizeof(key), "heap/%d", rank);
    tutti_status status = await_descriptor(v, channel, key, deadline, &fd, error);
    if (status == TUTTI_TIMEOUT && tti_remaining_ms(deadline) == 0) {
        tti_error_set(error, status, "rank %d did not hand over its memory before the deadline of the call", rank);
        error->suspect = rank;
    } else if (status == TUTTI_PROTOCOL) { /* a value is there: see put_own */
        tti_error_set(error, status, "rank %d has no memory to hand over", rank);
        error->suspect = rank;
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
                                 "rank %d names region %u of its memory, which it cannot have", r, (unsigned)region);
        }
    }
    return TUTTI_OK;
}

tutti_status tti_heap_open_fd_channel(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                                      struct tti_heap_record *mine, struct tti_heap_record *all,
                                      struct tti_store **channel, tutti_error *error)
{
    char url[TTI_STORE_LOCAL_URL];
    tti_store_local_url(v->directory[0] ? v->directory : NULL, "heap", all[0].random, url);
    enum tti_resource_origin origin;
    mine->status = tti_store_open_local(url, tti_remaining_ms(exchange->deadline_ns), channel, &origin, error);
    mine->origin = (uint8_t)origin;
    mine->serves = mine->status == TUTTI_OK && tti_store_served_here(*channel);
    return tti_heap_agree(v, exchange, what, mine, all, error);
}

/* Hands over `fd`. A rank without one (fd -1), or one that cannot hand it over, puts an empty value instead, which ends
 * the wait of the others; they read its cause in the next agreement. */
static tutti_status put_own(const struct tti_heap_view *v, struct tti_store *channel, int fd, tutti_error *error)
{
    char key[32];
    snprintf(key, sizeof(key), "heap/%d", v->rank);
    const tutti_status status = fd >= 0 ? tti_store_put_fd(channel, key, fd, v->size - 1, error) : TUTTI_OK;
    if (fd < 0 || status != TUTTI_OK) {
        tti_store_set(channel, key, "", 1, NULL);
    }
    return status;
}

tutti_status tti_heap_exchange_fds(struct tti_heap_view *v, const tutti_exchange *exchange,
                                   const struct tti_heap_record *all, const bool *wanted, bool arena, int fd,
                                   struct tti_store *channel, tutti_error *error)
{
    tutti_status status = put_own(v, channel, fd, error);
    if (status == TUTTI_OK) {
        status = check_regions(v, all, arena, error);
    }
    for (int r = 0; r < v->size && status == TUTTI_OK; r++) {
        if (r != v->rank && wanted[r]) {
            status = receive(v, r, all[r].region, channel, exchange->deadline_ns, error);
        }
    }
    return status;
}

void tti_heap_put_no_fd(const struct tti_heap_view *v, struct tti_store *channel)
{
    put_own(v, channel, -1, NULL);
}
