/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: ranks are processes of one host. Each makes a sealed segment and hands it to the others through the rendezvous;
 * rank 0 also makes the doorbell. If the rendezvous cannot pass descriptors (tcp, file, callbacks), rank 0 serves a
 * descriptor channel: a unix store under a random name. The records of all ranks are checked, those of rank 0 included.
 */
#include "backends/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/engine_ops.h"
#include "backends/record.h"
#include "backends/shm/heap/alloc.h"
#include "backends/shm/heap/heap.h"
#include "backends/shm/heap/register.h"
#include "backends/shm/segment.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process/proc.h"
#include "base/wait/polled_wait.h"
#include "engine/failure/liveness_monitor.h"
#include "engine/failure/peer_death.h"
#include "engine/p2p/memory_use.h"
#include "store/store.h"

#define GRACE_MS 1000 /* for a rank that has given up to report its cause */

struct shm_state {
    struct tti_engine_state common; /* first: engine_ops.h */
    int size;
    int rank;
    struct tti_mapping doorbell;
    struct tti_mapping *segments;
    struct tti_heap_view *heap; /* NULL: engine.heap is off */
    bool kept;                  /* the own segment: liveness_monitor.h */
};

/* The descriptor channel: the rendezvous itself, or a store of its own. */
struct channel {
    const tutti_rendezvous *rendezvous;
    struct tti_store *store;
};

static int32_t available(char *why, size_t capacity)
{
    struct tti_mapping probe = {.fd = -1};
    tutti_error error;
    tutti_status status = tti_mapping_create("tutti-probe", TTI_PAGE, TTI_PAGE, &probe, &error);
    if (status == TUTTI_OK) {
        status = tti_mapping_seal(&probe, &error);
        tti_mapping_close(&probe);
    }
    snprintf(why, capacity, "%s", status == TUTTI_OK ? "sealed memory files work" : error.message);
    return tti_is_resource_error(status) ? -status : status == TUTTI_OK;
}

static int64_t deadline_of(const tutti_open_info *info)
{
    return tti_deadline_ns(tti_now_ns(), info->timeout_ms);
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
        status = tti_store_open(url, info->rank == 0, info->timeout_ms, &p->store, error);
    }
    return status == TUTTI_OK && info->rank == 0 ? rv->set(rv->self, "channel", r, sizeof(r), error) : status;
}

static tutti_status channel_put_fd(const struct channel *p, const char *key, int fd, int readers, tutti_error *error)
{
    return p->store ? tti_store_put_fd(p->store, key, fd, readers, error)
                    : p->rendezvous->put_fd(p->rendezvous->self, key, fd, readers, error);
}

static tutti_status channel_get_fd(const struct channel *p, const char *key, int *fd, int64_t timeout_ms,
                                   tutti_error *error)
{
    if (!p->store) {
        return p->rendezvous->get_fd(p->rendezvous->self, key, fd, timeout_ms, error);
    }
    const tutti_status status = tti_store_get_fd(p->store, key, fd, timeout_ms, error);
    if (status == TUTTI_PEER_LEFT && error) {
        tti_error_set(error, status, "rank 0, which serves the descriptor channel, has ended");
        error->suspect = 0;
    }
    return status;
}

/* Makes, fills, seals and hands over the own segment and, on rank 0, the doorbell. */
static tutti_status offer(const tutti_open_info *info, const struct channel *p, const struct tti_layout *layout,
                          uint64_t nonce, struct shm_state *s, tutti_error *error)
{
    char key[32];
    struct tti_mapping *own = &s->segments[info->rank];
    tutti_status status = tti_mapping_create("tutti-segment", layout->segment_bytes, layout->stages, own, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_engine_segment_init(own->base, layout, info->rank, nonce);
    s->kept = info->world_size > 1 && tti_liveness_register((struct tti_segment_header *)own->base);
    status = tti_mapping_seal(own, error);
    snprintf(key, sizeof(key), "segment/%d", info->rank);
    if (status == TUTTI_OK && info->world_size > 1) {
        status = channel_put_fd(p, key, own->fd, info->world_size - 1, error);
    }
    if (status != TUTTI_OK || info->rank != 0) {
        return status;
    }
    status = tti_mapping_create("tutti-doorbell", layout->doorbell_bytes, layout->doorbell_bytes, &s->doorbell, error);
    if (status == TUTTI_OK && (status = tti_mapping_seal_size(&s->doorbell, error)) == TUTTI_OK &&
        info->world_size > 1) {
        status = channel_put_fd(p, "doorbell", s->doorbell.fd, info->world_size - 1, error);
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
        snprintf(end, sizeof(end), "rank %d (%s) has given up", rank, name);
    }
    tti_error_set(error, status, "%s while the group was being made", end);
    if (error) {
        error->suspect = rank;
    }
    return status;
}

/* Polls the ranks whose segments are mapped already. A rank that has given up is about to report its cause at the
 * rendezvous. That cause is better, so the report has until *grace_ns (0: no rank has given up yet). */
static tutti_status poll_for_losses(const struct shm_state *s, int64_t *grace_ns, tutti_error *error)
{
    for (int r = 0; r < s->size; r++) {
        const struct tti_segment_header *h = (const struct tti_segment_header *)s->segments[r].base;
        if (!h || r == s->rank) {
            continue;
        }
        const bool died = tti_peer_is_marked_dead(h);
        /* acquire: as in tti_segment_leaves */
        const bool ends = died || atomic_load_explicit(&h->leaving, memory_order_acquire) != 0;
        const bool gives_up = !ends && tti_segment_leaves(h);
        if (gives_up && *grace_ns == 0) {
            *grace_ns = tti_deadline_ns(tti_now_ns(), GRACE_MS);
        }
        if (ends || (gives_up && tti_remaining_ms(*grace_ns) == 0)) {
            return report_loss(r, h, died, error);
        }
    }
    return TUTTI_OK;
}

/* A descriptor that another rank hands over. */
struct awaited {
    const struct channel *channel;
    const struct shm_state *state;
    const char *key;
    int rank; /* that hands it over */
    int *fd;
    int64_t total_ms; /* of the whole wait */
    int64_t grace_ns;
};

static tutti_status get_descriptor(void *user, int64_t timeout_ms, tutti_error *error)
{
    const struct awaited *a = user;
    const tutti_status status = channel_get_fd(a->channel, a->key, a->fd, timeout_ms, error);
    if (status == TUTTI_TIMEOUT) {
        tti_error_set(error, status, "rank %d did not offer its memory (%s) within %lld ms", a->rank, a->key,
                      (long long)a->total_ms);
        error->suspect = a->rank;
    }
    return status;
}

static tutti_status poll_failures(void *user, tutti_error *error)
{
    struct awaited *a = user;
    const tutti_rendezvous *rv = a->channel->rendezvous;
    const tutti_status status = rv->poll_failures ? rv->poll_failures(rv->self, error) : TUTTI_OK;
    return status == TUTTI_OK ? poll_for_losses(a->state, &a->grace_ns, error) : status;
}

static tutti_status await_descriptor(const tutti_open_info *info, const struct channel *p, const char *key, int rank,
                                     const struct shm_state *s, int64_t deadline, int *fd, tutti_error *error)
{
    tutti_error unused;
    struct awaited a = {.channel = p, .state = s, .key = key, .rank = rank, .fd = fd, .total_ms = info->timeout_ms};
    const struct tti_polled_wait wait = {
        .attempt = get_descriptor, .poll = poll_failures, .user = &a, .min_slice_ms = TTI_POLL_EAGER_MS};
    return tti_wait_polling(&wait, deadline, error ? error : &unused);
}

static tutti_status map_segments(const tutti_open_info *info, const struct channel *p, const struct tti_layout *layout,
                                 uint64_t nonce, struct shm_state *s, tutti_error *error)
{
    char key[32];
    int fd = -1;
    const int64_t deadline = deadline_of(info);
    tutti_status status = TUTTI_OK;
    for (int r = 0; r < info->world_size && status == TUTTI_OK; r++) {
        if (r == info->rank) {
            continue;
        }
        snprintf(key, sizeof(key), "segment/%d", r);
        status = await_descriptor(info, p, key, r, s, deadline, &fd, error);
        if (status == TUTTI_OK &&
            (status = tti_mapping_adopt(fd, layout->segment_bytes, 0, r, &s->segments[r], error)) == TUTTI_OK) {
            status = tti_engine_segment_check(s->segments[r].base, layout, r, nonce, error);
        }
    }
    if (status == TUTTI_OK && info->rank != 0) {
        status = await_descriptor(info, p, "doorbell", 0, s, deadline, &fd, error);
        if (status == TUTTI_OK) {
            status = tti_mapping_adopt(fd, layout->doorbell_bytes, 1, 0, &s->doorbell, error);
        }
    }
    return status;
}

/* Rank 0 decides these for all ranks. */
struct terms {
    uint64_t nonce; /* a number that only the members know: it proves that a segment belongs to this group */
    struct tti_tuning tuning;
};

static tutti_status agree(const tutti_open_info *info, struct terms *terms, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    if (info->rank == 0) {
        if (getrandom(&terms->nonce, sizeof(terms->nonce), 0) != sizeof(terms->nonce)) {
            return tti_error_system(error, errno, "no random number for the group");
        }
        tti_ops_tuning(info, false, &terms->tuning);
        return rv->set(rv->self, "terms", terms, sizeof(*terms), error);
    }
    const tutti_status status = tti_record_get(info, 0, "terms", terms, sizeof(*terms), deadline_of(info), error);
    return status == TUTTI_OK && !tti_tuning_is_valid(info->world_size, &terms->tuning)
               ? tti_error_set(error, TUTTI_PROTOCOL, "rank 0 announced no usable terms for the group")
               : status;
}

static tutti_status commit(void *user, size_t offset, size_t bytes)
{
    const struct shm_state *s = user;
    return tti_mapping_commit(&s->segments[s->rank], offset, bytes);
}

static void populate(void *user, int rank, size_t offset, size_t bytes)
{
    const struct shm_state *s = user;
    tti_mapping_populate(&s->segments[rank], offset, bytes);
}

static bool use_memory(void *user, const void *memory, size_t bytes)
{
    return tti_p2p_uses(user, memory, bytes);
}

static bool quiesced(void *user, uint64_t withdrawal)
{
    tti_p2p_quiesce(user);
    return tti_engine_heap_quiescent(user, withdrawal);
}

static tutti_status failure(void *user, tutti_error *error)
{
    return tti_engine_failure(user, error);
}

/* Mapping the others' rings at once saves page faults in the first calls. With more ranks than CPUs those faults cost
 * little beside the waits for a CPU, and the rings of 64 ranks are 4 GiB, most of them never used. */
static bool maps_ahead(int ranks)
{
    return ranks <= sysconf(_SC_NPROCESSORS_ONLN);
}

static tutti_status start_engine(const tutti_open_info *info, const struct tti_layout *layout,
                                 const struct tti_tuning *tuning, struct shm_state *s, tutti_error *error)
{
    unsigned char **bases = calloc((size_t)s->size, sizeof(*bases));
    if (!bases) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d processes", s->size);
    }
    for (int r = 0; r < s->size; r++) {
        bases[r] = s->segments[r].base;
    }
    struct tti_engine_options options = {.rank = info->rank,
                                         .layout = *layout,
                                         .tuning = *tuning,
                                         .segments = bases,
                                         .doorbell = s->doorbell.base,
                                         .commit = commit,
                                         .populate = maps_ahead(s->size) ? populate : NULL,
                                         .commit_user = s,
                                         .heap = s->heap ? tti_heap_view_table(s->heap) : NULL};
    tti_ops_options(info, &options);
    tutti_status status = tti_engine_create(&options, &s->common.engine, error);
    free(bases);
    if (status == TUTTI_OK && s->heap) {
        tti_heap_view_attach(
            s->heap, &(struct tti_heap_group_ops){
                         .user = s->common.engine, .use = use_memory, .quiesced = quiesced, .failure = failure});
    }
    return status;
}

static void state_free(struct shm_state *s)
{
    if (s->kept) {
        struct tti_segment_header *own = (struct tti_segment_header *)s->segments[s->rank].base;
        /* release: as in tti_engine_leave, which may not have been called */
        atomic_store_explicit(&own->left, 1, memory_order_release);
        tti_liveness_unregister(own);
    }
    for (int r = 0; s->segments && r < s->size; r++) {
        tti_mapping_close(&s->segments[r]);
    }
    tti_mapping_close(&s->doorbell);
    tti_heap_view_close(s->heap);
    free(s->segments);
    free(s);
}

/* The heap of this rank, or the one that it shares with the group that this one is made from. */
static tutti_status open_heap(const tutti_open_info *info, struct shm_state *s, tutti_error *error)
{
    const struct shm_state *parent = info->parent_state;
    const char *wanted = info->setting(info->settings, "engine.heap");
    if (!wanted || strcmp(wanted, "1") != 0) {
        return TUTTI_OK;
    }
    return tti_heap_view_open(info, parent ? parent->heap : NULL, &s->heap, error);
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    if (info->world_size > TTI_MAX_RANKS) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "backend shm takes up to %d ranks, not %d", TTI_MAX_RANKS,
                             info->world_size);
    }
    struct shm_state *s = calloc(1, sizeof(*s));
    if (!s || !(s->segments = calloc((size_t)info->world_size, sizeof(*s->segments)))) {
        free(s);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d processes", info->world_size);
    }
    s->size = info->world_size;
    s->rank = info->rank;
    s->doorbell.fd = -1;
    for (int r = 0; r < s->size; r++) {
        s->segments[r].fd = -1;
    }
    struct tti_layout layout = {0};
    struct channel p = {0};
    struct terms terms = {0};
    tutti_status status = agree(info, &terms, error);
    if (status == TUTTI_OK) {
        layout = tti_layout_make(info->world_size, info->lanes, terms.tuning.stage, terms.tuning.far);
    }
    if (status == TUTTI_OK && (status = channel_open(info, &p, error)) == TUTTI_OK &&
        (status = offer(info, &p, &layout, terms.nonce, s, error)) == TUTTI_OK &&
        (status = map_segments(info, &p, &layout, terms.nonce, s, error)) == TUTTI_OK &&
        (status = open_heap(info, s, error)) == TUTTI_OK) {
        status = start_engine(info, &layout, &terms.tuning, s, error);
    }
    if (p.store) {
        tti_store_release(p.store);
    }
    if (s->doorbell.fd >=
        0) { /* handed over: only the mapping is needed, and a forked child should not keep the memory */
        close(s->doorbell.fd);
        s->doorbell.fd = -1;
    }
    if (status != TUTTI_OK) {
        state_free(s);
        return status;
    }
    *state = s;
    return TUTTI_OK;
}

static void close_group(void *state)
{
    struct shm_state *s = state;
    if (s->heap) {
        tti_heap_view_attach(s->heap, NULL);
    }
    tti_engine_destroy(s->common.engine);
    state_free(s);
}

static uint32_t capabilities(void *state)
{
    const struct shm_state *s = state;
    return TTI_ENGINE_CAPABILITIES | (s->heap ? (uint32_t)TUTTI_CAP_HEAP : 0u);
}

static tutti_status alloc_memory(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                                 tutti_error *error)
{
    return tti_heap_alloc(((struct shm_state *)state)->heap, bytes, exchange, memory, error);
}

static tutti_status release_memory(void *state, void *memory, tutti_error *error)
{
    return tti_heap_release(((struct shm_state *)state)->heap, memory, error);
}

static tutti_status register_memory(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                                    tutti_error *error)
{
    return tti_heap_register(((struct shm_state *)state)->heap, memory, bytes, exchange, error);
}

static tutti_status unregister_memory(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error)
{
    return tti_heap_unregister(((struct shm_state *)state)->heap, memory, exchange, error);
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
    .capabilities = TTI_ENGINE_CAPABILITIES | TUTTI_CAP_HEAP,
    .ops = &ops,
};
