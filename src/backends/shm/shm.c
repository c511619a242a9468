/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: ranks are processes of one host. Each makes a sealed segment and hands it to the others through the rendezvous;
 * rank 0 also makes the doorbell. If the rendezvous cannot pass descriptors (tcp, file, callbacks), rank 0 serves a
 * descriptor channel: a unix store under a random name. The records of all ranks are checked, those of rank 0 included.
 *
 * A rank asks for the segments of all peers at once and gets up to 64 descriptors in a message. So of the n^2 steps to
 * form a group only mapping the segments is left.
 */
#include "backends/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/engine_ops.h"
#include "backends/engine_settings.h"
#include "backends/record.h"
#include "backends/shm/group.h"
#include "backends/shm/heap/alloc.h"
#include "backends/shm/heap/heap.h"
#include "backends/shm/heap/register.h"
#include "backends/shm/root.h"
#include "backends/shm/segment.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process/proc.h"
#include "base/wait/polled_wait.h"
#include "base/wait/retry.h"
#include "engine/failure/liveness_monitor.h"
#include "engine/failure/peer_death.h"
#include "store/store.h"

#define AT_ONCE  64   /* descriptors from one request */
#define GRACE_MS 1000 /* for a rank that has aborted to report its cause */

/* The descriptor channel: the rendezvous itself, or a store of its own. */
struct channel {
    const tutti_rendezvous *rendezvous;
    struct tti_store *store;
};

static int32_t available(char *why, size_t capacity)
{
    struct tti_mapping probe = {.fd = -1};
    tutti_error error;
    tutti_status status = tti_mapping_create("tutti-probe", TTI_PAGE, 0, TTI_PAGE, &probe, &error);
    if (status == TUTTI_OK) {
        status = tti_memory_seal(probe.fd, &error);
        tti_mapping_close(&probe);
    }
    snprintf(why, capacity, "%s", status == TUTTI_OK ? "sealed memory files work" : error.message);
    return tti_is_resource_error(status) ? -status : status == TUTTI_OK;
}

static int64_t deadline_of(const tutti_open_info *info)
{
    return tti_deadline_ns(tti_now_ns(), info->timeout_ms);
}

/* If the channel has ended, rank 0 has died or failed, and perhaps reports the cause at the rendezvous. */
static tutti_status channel_result(const struct channel *p, tutti_status status, tutti_error *error)
{
    const tutti_rendezvous *rv = p->rendezvous;
    const int64_t deadline_ns = tti_deadline_ns(tti_now_ns(), GRACE_MS);
    tutti_status found = TUTTI_OK;
    tutti_error cause;
    int pause = 0;
    if (status != TUTTI_PEER_LEFT) {
        return status;
    }
    do {
        found = rv->poll_failures ? rv->poll_failures(rv->self, &cause) : TUTTI_OK;
    } while (found == TUTTI_OK && rv->poll_failures && tti_retry_sleep(&pause, deadline_ns));
    if (found == TUTTI_OK) {
        found = tti_error_set(&cause, status, "rank 0, which serves the descriptor channel, has ended");
        cause.suspect = 0;
    }
    if (error) {
        *error = cause;
    }
    return found;
}

static tutti_status channel_open(const tutti_open_info *info, struct channel *p, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    *p = (struct channel){.rendezvous = rv};
    if (rv->can_pass_descriptors) {
        return TUTTI_OK;
    }
    char url[TTI_STORE_LOCAL_URL];
    uint64_t r[2] = {0}; /* a number, not a URL: rank 0 chooses the name only, not the kind of store */
    tutti_status status = TUTTI_OK;
    if (info->rank == 0 && getrandom(r, sizeof(r), 0) != sizeof(r)) {
        return tti_error_system(error, errno, "no random name for the descriptor channel");
    }
    if (info->rank != 0) {
        status = tti_record_get(info, 0, "channel", r, sizeof(r), deadline_of(info), error);
    }
    if (status == TUTTI_OK) {
        tti_store_local_url(info->socket_directory, "channel", r, url);
        status = channel_result(p, tti_store_open(url, info->rank == 0, info->timeout_ms, &p->store, error), error);
    }
    return status == TUTTI_OK && info->rank == 0 ? rv->set(rv->self, "channel", r, sizeof(r), error) : status;
}

static tutti_status channel_put_fd(const struct channel *p, const char *key, int fd, int readers, tutti_error *error)
{
    const tutti_rendezvous *rv = p->rendezvous;
    return p->store ? channel_result(p, tti_store_put_fd(p->store, key, fd, readers, error), error)
                    : rv->put_fd(rv->self, key, fd, readers, error);
}

/* Descriptors that other ranks hand over: under `stem`/first, `stem`/(first + 1) and so on. */
struct descriptors {
    const char *stem;
    int first;
    int count;
    int fds[AT_ONCE];
    int got;
};

static tutti_status channel_get_fds(const struct channel *p, struct descriptors *d, int64_t timeout_ms,
                                    tutti_error *error)
{
    const tutti_rendezvous *rv = p->rendezvous;
    if (!p->store) {
        return rv->get_fds(rv->self, d->stem, d->first, d->count, d->fds, &d->got, timeout_ms, error);
    }
    struct tti_store_range range = {
        .stem = d->stem, .first = (uint32_t)d->first, .count = (uint32_t)d->count, .fds = d->fds};
    const tutti_status status = tti_store_get_range(p->store, &range, timeout_ms, error);
    d->got = (int)range.got;
    return channel_result(p, status, error);
}

static size_t doorbell_bytes(const struct tti_root *root)
{
    return tti_root_rooms(root) + (size_t)root->size * root->doorbell_room;
}

/* Makes, fills, seals and hands over the own segment and, on rank 0, the doorbell. */
static tutti_status offer(const tutti_open_info *info, const struct channel *p, uint64_t nonce, struct tti_root *root,
                          tutti_error *error)
{
    char key[32];
    const struct tti_layout *layout = &root->layout;
    struct tti_mapping *own = &root->segments[info->rank];
    tutti_status status = tti_mapping_create("tutti-segment", tti_root_segment_bytes(layout),
                                             tti_root_spare_bytes(layout), layout->stages, own, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_engine_segment_init(own->base, layout, info->rank, nonce);
    root->kept = info->world_size > 1 && tti_liveness_register((struct tti_segment_header *)own->base);
    status = tti_memory_seal(own->fd, error);
    snprintf(key, sizeof(key), "segment/%d", info->rank);
    if (status == TUTTI_OK && info->world_size > 1) {
        status = channel_put_fd(p, key, own->fd, info->world_size - 1, error);
    }
    if (status != TUTTI_OK || info->rank != 0) {
        return status;
    }
    status =
        tti_mapping_create("tutti-doorbell", doorbell_bytes(root), 0, tti_root_rooms(root), &root->doorbell, error);
    if (status == TUTTI_OK && (status = tti_memory_seal(root->doorbell.fd, error)) == TUTTI_OK &&
        info->world_size > 1) {
        status = channel_put_fd(p, "doorbell/0", root->doorbell.fd, info->world_size - 1, error);
    }
    return status;
}

static tutti_status report_loss(int rank, const struct tti_segment_header *h, bool died, tutti_error *error)
{
    const struct tti_proc_id id = tti_segment_owner(h);
    const struct tti_proc process = tti_proc_query(&id);
    tutti_status status = TUTTI_PEER_LEFT;
    char end[160];
    if (died) {
        status = tti_proc_describe_end(rank, &id, &process, end, sizeof(end));
    } else {
        char name[TTI_PROC_TEXT];
        tti_proc_text(&id, name, sizeof(name));
        snprintf(end, sizeof(end), "rank %d (%s) has aborted", rank, name);
    }
    tti_error_set(error, status, "%s while the group was being made", end);
    if (error) {
        error->suspect = rank;
    }
    return status;
}

/* Polls the ranks whose segments are mapped already. A rank that has aborted is about to report its cause at the
 * rendezvous. That cause is better, so the report has until *grace_ns (0: no rank has aborted yet). */
static tutti_status poll_for_losses(const struct tti_root *root, int64_t *grace_ns, tutti_error *error)
{
    for (int r = 0; r < root->size; r++) {
        const struct tti_segment_header *h = tti_root_header(root, r);
        if (!h || r == root->rank) {
            continue;
        }
        const bool died = tti_segment_is_marked_dead(h);
        /* acquire: as in tti_segment_leaves */
        const bool ends = died || atomic_load_explicit(&h->leaving, memory_order_acquire) != 0;
        const bool aborts = !ends && tti_segment_leaves(h);
        if (aborts && *grace_ns == 0) {
            *grace_ns = tti_deadline_ns(tti_now_ns(), GRACE_MS);
        }
        if (ends || (aborts && tti_remaining_ms(*grace_ns) == 0)) {
            return report_loss(r, h, died, error);
        }
    }
    return TUTTI_OK;
}

struct awaited {
    const struct channel *channel;
    const struct tti_root *root;
    struct descriptors *descriptors;
    int64_t total_ms; /* of the whole wait */
    int64_t grace_ns;
};

static tutti_status get_descriptors(void *user, int64_t timeout_ms, tutti_error *error)
{
    const struct awaited *a = user;
    struct descriptors *d = a->descriptors;
    const tutti_status status = channel_get_fds(a->channel, d, timeout_ms, error);
    if (status == TUTTI_TIMEOUT) {
        tti_error_set(error, status, "rank %d did not offer its memory (%s/%d) within %lld ms", d->first, d->stem,
                      d->first, (long long)a->total_ms);
        error->suspect = d->first;
    }
    return status;
}

static tutti_status poll_failures(void *user, tutti_error *error)
{
    struct awaited *a = user;
    const tutti_rendezvous *rv = a->channel->rendezvous;
    const tutti_status status = rv->poll_failures ? rv->poll_failures(rv->self, error) : TUTTI_OK;
    return status == TUTTI_OK ? poll_for_losses(a->root, &a->grace_ns, error) : status;
}

/* Waits for one of them at least. */
static tutti_status await_descriptors(const tutti_open_info *info, const struct channel *p, const struct tti_root *root,
                                      int64_t deadline, struct descriptors *d, tutti_error *error)
{
    tutti_error unused;
    struct awaited a = {.channel = p, .root = root, .descriptors = d, .total_ms = info->timeout_ms};
    const struct tti_polled_wait wait = {.attempt = get_descriptors,
                                         .poll = poll_failures,
                                         .user = &a,
                                         .min_slice_ms = tti_poll_interval_ms(TTI_POLL_EAGER_MS, info->world_size)};
    d->got = 0;
    return tti_wait_polling(&wait, deadline, error ? error : &unused);
}

/* Maps the descriptors that have arrived, and closes them, also after an error. */
static tutti_status adopt_segments(const struct descriptors *d, uint64_t nonce, struct tti_root *root,
                                   tutti_error *error)
{
    const struct tti_layout *layout = &root->layout;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < d->got; i++) {
        const int r = d->first + i;
        if (status != TUTTI_OK) {
            close(d->fds[i]);
            continue;
        }
        status = tti_mapping_adopt(d->fds[i], tti_root_segment_bytes(layout), TTI_ROOT_SPARE_MOST, false, r,
                                   &root->segments[r], error);
        if (status == TUTTI_OK) {
            status = tti_engine_segment_check(root->segments[r].base, layout, r, nonce, error);
        }
    }
    return status;
}

/* The segments of the ranks from `first` to `end`. */
static tutti_status map_range(const tutti_open_info *info, const struct channel *p, uint64_t nonce,
                              struct tti_root *root, int first, int end, int64_t deadline, tutti_error *error)
{
    struct descriptors d = {.stem = "segment", .first = first};
    tutti_status status = TUTTI_OK;
    for (; d.first < end && status == TUTTI_OK; d.first += d.got) {
        d.count = end - d.first < AT_ONCE ? end - d.first : AT_ONCE;
        status = await_descriptors(info, p, root, deadline, &d, error);
        if (status == TUTTI_OK) {
            status = adopt_segments(&d, nonce, root, error);
        }
    }
    return status;
}

static tutti_status map_segments(const tutti_open_info *info, const struct channel *p, uint64_t nonce,
                                 struct tti_root *root, tutti_error *error)
{
    const int64_t deadline = deadline_of(info);
    tutti_status status = map_range(info, p, nonce, root, 0, info->rank, deadline, error);
    if (status == TUTTI_OK) {
        status = map_range(info, p, nonce, root, info->rank + 1, info->world_size, deadline, error);
    }
    if (status == TUTTI_OK && info->rank != 0) {
        struct descriptors d = {.stem = "doorbell", .count = 1};
        status = await_descriptors(info, p, root, deadline, &d, error);
        if (status == TUTTI_OK) {
            status = tti_mapping_adopt(d.fds[0], doorbell_bytes(root), 0, true, 0, &root->doorbell, error);
        }
    }
    return status;
}

/* Rank 0 decides these for all ranks. */
struct terms {
    uint64_t nonce; /* a number that only the members know: it proves that a segment belongs to this group */
    struct tti_tuning tuning;
    struct tti_tuning_basis basis; /* for groups that share the segments */
};

static bool are_usable(const struct terms *terms, int size)
{
    struct tti_tuning from_basis;
    tti_tuning_from_basis(&terms->basis, size, &from_basis);
    return tti_tuning_is_valid(size, &terms->tuning) && tti_tuning_is_valid(size, &from_basis);
}

static tutti_status agree(const tutti_open_info *info, struct terms *terms, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    if (info->rank == 0) {
        if (getrandom(&terms->nonce, sizeof(terms->nonce), 0) != sizeof(terms->nonce)) {
            return tti_error_system(error, errno, "no random number for the group");
        }
        tti_tuning_basis_measure(info, false, &terms->basis);
        tti_tuning_from_basis(&terms->basis, info->world_size, &terms->tuning);
        return rv->set(rv->self, "terms", terms, sizeof(*terms), error);
    }
    const tutti_status status = tti_record_get(info, 0, "terms", terms, sizeof(*terms), deadline_of(info), error);
    return status == TUTTI_OK && !are_usable(terms, info->world_size)
               ? tti_error_set(error, TUTTI_PROTOCOL, "rank 0 announced no usable terms for the group")
               : status;
}

static tutti_status commit(void *user, size_t offset, size_t bytes)
{
    const struct tti_shm_group *s = user;
    return tti_mapping_commit(&s->root->segments[s->rank], offset, bytes);
}

static tutti_status start_engine(const tutti_open_info *info, const struct tti_tuning *tuning, struct tti_shm_group *s,
                                 tutti_error *error)
{
    struct tti_root *root = s->root;
    for (int r = 0; r < s->size; r++) {
        s->bases[r] = root->segments[r].base;
    }
    struct tti_engine_options options = {.rank = info->rank,
                                         .layout = root->layout,
                                         .tuning = *tuning,
                                         .segments = s->bases,
                                         .doorbell = root->doorbell.base,
                                         .commit = commit};
    tti_engine_options_from_settings(info, &options);
    root->spin_ns = options.spin_ns;
    root->yield_ns = options.yield_ns;
    const tutti_status status = tti_shm_engine_create(&options, s, error);
    root->engine = s->common.engine;
    return status;
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    if (info->world_size > TTI_MAX_RANKS) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "backend shm takes up to %d ranks, not %d", TTI_MAX_RANKS,
                             info->world_size);
    }
    struct tti_shm_group *s = tti_shm_group_create(info->world_size, info->rank);
    struct tti_root *root = s ? tti_root_create(info->world_size, info->rank) : NULL;
    if (!root) {
        tti_shm_group_free(s);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d processes", info->world_size);
    }
    s->root = root;
    struct channel p = {0};
    struct terms terms = {0};
    tutti_status status = agree(info, &terms, error);
    if (status == TUTTI_OK) {
        root->layout = tti_layout_make(info->world_size, info->lanes, terms.tuning.stage, terms.tuning.stage_far,
                                       terms.tuning.stage_small);
        root->doorbell_room = tti_root_doorbell_room(info->world_size);
        root->tuning = terms.basis;
    }
    if (status == TUTTI_OK && (status = channel_open(info, &p, error)) == TUTTI_OK &&
        (status = offer(info, &p, terms.nonce, root, error)) == TUTTI_OK &&
        (status = map_segments(info, &p, terms.nonce, root, error)) == TUTTI_OK &&
        (status = tti_shm_heap_open(info, s, error)) == TUTTI_OK) {
        status = start_engine(info, &terms.tuning, s, error);
    }
    if (p.store) {
        tti_store_release(p.store);
    }
    if (root->doorbell.fd >=
        0) { /* handed over: only the mapping is needed, and a forked child should not keep the memory */
        close(root->doorbell.fd);
        root->doorbell.fd = -1;
    }
    if (status != TUTTI_OK) {
        tti_shm_group_free(s);
        return status;
    }
    *state = s;
    return TUTTI_OK;
}

/* The root's own engine watches the processes for the groups that share the segments, so it ends with the root. */
static void close_group(void *state)
{
    struct tti_shm_group *s = state;
    if (s->heap) {
        tti_heap_view_attach(s->heap, NULL);
    }
    if (s->share) {
        tti_engine_destroy(s->common.engine);
        tti_share_release(s->root, s->share);
    } else {
        tti_engine_leave(s->common.engine);
    }
    tti_shm_group_free(s);
}

static uint32_t capabilities(void *state)
{
    const struct tti_shm_group *s = state;
    return TTI_ENGINE_CAPABILITIES | TUTTI_CAP_WIRE | (s->heap ? (uint32_t)TUTTI_CAP_HEAP : 0u);
}

static tutti_status alloc_memory(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                                 tutti_error *error)
{
    return tti_heap_alloc(((struct tti_shm_group *)state)->heap, bytes, exchange, memory, error);
}

static tutti_status release_memory(void *state, void *memory, tutti_error *error)
{
    return tti_heap_release(((struct tti_shm_group *)state)->heap, memory, error);
}

static tutti_status register_memory(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                                    tutti_error *error)
{
    return tti_heap_register(((struct tti_shm_group *)state)->heap, memory, bytes, exchange, error);
}

static tutti_status unregister_memory(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error)
{
    return tti_heap_unregister(((struct tti_shm_group *)state)->heap, memory, exchange, error);
}

static const tutti_backend_ops ops = {
    TTI_ENGINE_OPS,
    .available = available,
    .open = open_group,
    .close = close_group,
    .capabilities = capabilities,
    .alloc = alloc_memory,
    .release = release_memory,
    .register_memory = register_memory,
    .unregister_memory = unregister_memory,
};

const tutti_backend tti_backend_shm = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "shm",
    .priority = 80,
    .capabilities = TTI_ENGINE_CAPABILITIES | TUTTI_CAP_HEAP | TUTTI_CAP_WIRE,
    .ops = &ops,
};
