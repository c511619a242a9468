/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing a group. Its communicators are created from a base communicator that contains all members: the
 * application's, the parent's, or MPI_COMM_WORLD. Each rank publishes its rank in the base through the rendezvous. So
 * Tutti's ranks need not be MPI's, and only members take part (MPI_Comm_create_group).
 *
 * Cost: one record of each rank, one MPI_Comm_create_group, and one MPI_Comm_dup for each lane.
 */
#include "backends/mpi/plugin/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/mpi/plugin/closed_groups.h"
#include "backends/mpi/plugin/creation_lock.h"
#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/library/devices.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/library/start.h"
#include "backends/mpi/plugin/messages/progress.h"
#include "backends/mpi/plugin/open_groups.h"
#include "backends/mpi/plugin/profile.h"
#include "backends/mpi/plugin/watchdog.h"
#include "backends/record.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

/* What a rank publishes about itself. The layout is fixed, since it is sent between processes. */
struct rank_info {
    int32_t base_rank;
    int32_t base_size;
    int32_t blocking; /* this rank is allowed, and able, to call the blocking functions */
    int32_t window;   /* elements; rank 0's value is used */
    int32_t world_rank;
    int32_t parent_failed; /* it knows that the group from which this one is made has failed */
    int32_t locked;        /* its library does not allow calls from several threads at once */
    int32_t serial;        /* counts the groups of this process; rank 0's value selects the tag */
    uint32_t device;       /* see tti_mpi_device_of */
    char version[96];
};

static int32_t wants_blocking(const tutti_open_info *info)
{
    /* Below MULTIPLE a blocking call would keep the lock, and another thread could not make the call that other ranks
     * need. */
    return tti_mpi_library.level == MPI_THREAD_MULTIPLE &&
           strcmp(info->setting(info->settings, "mpi.blocking"), "always") == 0;
}

static tutti_status is_ending(const tutti_open_info *info, tutti_error *error)
{
    return tti_error_set(error, TUTTI_NOT_AVAILABLE, "the process of rank %d is ending, and MPI with it", info->rank);
}

static tutti_status exchange_members(const tutti_open_info *info, MPI_Comm base, struct rank_info *all,
                                     tutti_error *error)
{
    static _Atomic int32_t serial; /* relaxed: the values only have to differ */
    struct rank_info *own = &all[info->rank];
    int code;
    if (!tti_mpi_begin_creation()) {
        return is_ending(info, error);
    }
    tti_mpi_enter();
    if ((code = MPI_Comm_rank(base, &own->base_rank)) == MPI_SUCCESS) {
        code = MPI_Comm_size(base, &own->base_size);
    }
    tti_mpi_leave();
    tti_mpi_end_creation();
    own->world_rank = tti_mpi_library.world_rank;
    own->parent_failed = info->parent_state && tti_mpi_has_failed(info->parent_state);
    if (code != MPI_SUCCESS) {
        return tti_mpi_error(error, code, "MPI_Comm_rank");
    }
    own->blocking = wants_blocking(info);
    own->locked = tti_mpi_library.locked;
    own->device = tti_mpi_device_of(info);
    own->window =
        (int32_t)(strtoll(info->setting(info->settings, "mpi.buffer_size"), NULL, 10) / (int64_t)sizeof(int64_t));
    own->serial = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
    snprintf(own->version, sizeof(own->version), "%s", tti_mpi_library.version);
    return tti_records_exchange(info, "rank_info", all, sizeof(*all), tti_deadline_ns(tti_now_ns(), info->timeout_ms),
                                error);
}

/* The base communicator, the same on all members: if one called MPI_Comm_create_group on another, no deadline would end
 * the call. A failed parent's communicator may be revoked, and only some members may know that the parent has
 * failed. */
static MPI_Comm common_base(const tutti_open_info *info, MPI_Comm own, struct rank_info *all)
{
    bool failed = false;
    for (int r = 0; r < info->world_size; r++) {
        failed = failed || all[r].parent_failed;
    }
    if (!failed || info->native_communicator) {
        return own;
    }
    for (int r = 0; r < info->world_size; r++) {
        all[r].base_rank = all[r].world_rank;
    }
    return MPI_COMM_WORLD;
}

static tutti_status compare_members(const tutti_open_info *info, const struct rank_info *all, tutti_error *error)
{
    const struct rank_info *own = &all[info->rank];
    for (int r = 0; r < info->world_size; r++) {
        if (strncmp(all[r].version, own->version, sizeof(own->version)) != 0) {
            return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                                 "rank %d has %.90s, but rank %d has %.90s; start all "
                                 "ranks with the same MPI library",
                                 r, all[r].version, info->rank, own->version);
        }
        for (int s = 0; s < r; s++) {
            if (all[s].base_rank == all[r].base_rank) {
                return tti_error_set(
                    error, TUTTI_NOT_AVAILABLE,
                    "ranks %d and %d are both rank %d of MPI's world of %d: the job must be started by "
                    "the launcher of this MPI (%.60s)",
                    s, r, all[r].base_rank, all[r].base_size, own->version);
            }
        }
    }
    return TUTTI_OK;
}

/* Threads that create groups of the same ranks at the same time need different tags. Open MPI sends the messages of
 * MPI_Comm_create_group itself with this tag, as if the caller had sent them (ompi_comm_allreduce_group_nb). A receive
 * of Tutti's on the same communicator would match them, so the upper half of the tags is reserved for creation. */
static int creation_tag(const struct rank_info *first)
{
    const uint32_t half = (uint32_t)tti_mpi_library.tag_max / 2;
    const uint32_t number = (uint32_t)first->base_rank * 251u + (uint32_t)first->serial;
    return tti_mpi_library.tag_max - (int)(number % half);
}

static tutti_status make_communicators(const tutti_open_info *info, MPI_Comm base, const struct rank_info *all,
                                       int *ranks, struct tti_mpi_group *g, tutti_error *error)
{
    MPI_Group all_ranks;
    MPI_Group members;
    for (int r = 0; r < g->size; r++) {
        ranks[r] = all[r].base_rank;
    }
    const int tag = creation_tag(&all[0]);
    const char *what = "MPI_Comm_group";
    tti_mpi_enter();
    int code = MPI_Comm_group(base, &all_ranks);
    if (code == MPI_SUCCESS) {
        what = "MPI_Comm_create_group";
        MPI_Group_incl(all_ranks, g->size, ranks, &members);
        code = MPI_Comm_create_group(base, members, tag, &g->control);
        if (code != MPI_SUCCESS) {
            g->control = MPI_COMM_NULL;
        }
        MPI_Group_free(&members);
        MPI_Group_free(&all_ranks);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_errhandler(g->control, MPI_ERRORS_RETURN);
    }
    for (int i = 0; i < info->lanes && code == MPI_SUCCESS; i++) {
        what = "MPI_Comm_dup";
        code = MPI_Comm_dup(g->control, &g->lane[i].comm); /* with the error handler */
        if (code != MPI_SUCCESS) {
            g->lane[i].comm = MPI_COMM_NULL;
        }
    }
    tti_mpi_leave();
    if (code != MPI_SUCCESS && g->control != MPI_COMM_NULL) {
        tti_mpi_keep_closed(g); /* other ranks may have succeeded, and send until they learn of the failure */
    }
    return code == MPI_SUCCESS ? TUTTI_OK : tti_mpi_error(error, code, what);
}

/* One group at a time in each process, if the library of a member needs that. */
static tutti_status make_locked(const tutti_open_info *info, MPI_Comm base, const struct rank_info *all, int *ranks,
                                struct tti_mpi_group *g, tutti_error *error)
{
    bool locked = false;
    for (int r = 0; r < g->size; r++) {
        locked = locked || all[r].locked;
        ranks[r] = all[r].world_rank;
    }
    if (!locked || g->size == 1) {
        return make_communicators(info, base, all, ranks, g, error);
    }
    tutti_status status = tti_mpi_creation_lock(info, ranks, error);
    if (status == TUTTI_OK) {
        status = make_communicators(info, base, all, ranks, g, error);
        tti_mpi_creation_unlock();
    }
    return status;
}

static void lane_free(struct tti_mpi_lane *lane)
{
    free(lane->records);
    free(lane->data);
    free(lane->scales);
    free(lane->pair_records);
    free(lane->requests);
    free(lane->parts.to);
    free(lane->parts.in);
    free(lane->parts.from);
    free(lane->parts.out);
    free(lane->lists);
    free(lane->types);
    free(lane->scratch);
}

static bool lane_make(struct tti_mpi_lane *lane, int size)
{
    const size_t n = (size_t)size;
    atomic_init(&lane->awaited, -1);
    lane->comm = MPI_COMM_NULL;
    lane->ended_well = true;
    lane->records = aligned_alloc(64, n * TTI_MPI_RECORD_STEP);
    lane->data = calloc(n, sizeof(*lane->data));
    lane->scales = calloc(n, sizeof(*lane->scales));
    lane->pair_records = calloc(n, sizeof(*lane->pair_records));
    lane->requests = calloc(2 * n, sizeof(*lane->requests));
    lane->parts.to = calloc(n, sizeof(*lane->parts.to));
    lane->parts.in = calloc(n, sizeof(*lane->parts.in));
    lane->parts.from = calloc(n, sizeof(*lane->parts.from));
    lane->parts.out = calloc(n, sizeof(*lane->parts.out));
    lane->lists = calloc(4 * n, sizeof(*lane->lists));
    lane->types = calloc(2 * n, sizeof(*lane->types));
    if (!lane->records || !lane->data || !lane->scales || !lane->pair_records || !lane->requests || !lane->parts.to ||
        !lane->parts.in || !lane->parts.from || !lane->parts.out || !lane->lists || !lane->types) {
        return false;
    }
    memset(lane->records, 0, n * TTI_MPI_RECORD_STEP);
    for (int r = 0; r < size; r++) {
        lane->data[r] = tti_mpi_call_record_of(lane, r) + 1;
        lane->requests[r] = lane->requests[size + r] = MPI_REQUEST_NULL;
    }
    return true;
}

static void group_free(struct tti_mpi_group *g)
{
    for (int i = 0; i < g->lanes; i++) {
        lane_free(&g->lane[i]);
    }
    tti_mpi_messages_free(&g->messages);
    tti_mpi_profile_free(g->profile);
    pthread_mutex_destroy(&g->lock);
    free(g->notifications);
    free(g->last);
    free(g);
}

static struct tti_mpi_group *group_make(const tutti_open_info *info)
{
    struct tti_mpi_group *g = aligned_alloc(_Alignof(struct tti_mpi_group), sizeof(*g));
    if (!g) {
        return NULL;
    }
    memset(g, 0, sizeof(*g));
    g->rank = info->rank;
    g->size = info->world_size;
    g->world_rank = info->global_ranks[info->rank];
    g->lanes = info->lanes;
    g->timeout_ms = info->call_timeout_ms;
    g->control = MPI_COMM_NULL;
    pthread_mutex_init(&g->lock, NULL);
    bool made = tti_mpi_messages_init(&g->messages, g->size);
    made = (g->notifications = calloc((size_t)g->size, sizeof(*g->notifications))) != NULL && made;
    made = (g->last = calloc((size_t)g->size, sizeof(*g->last))) != NULL && made;
    if (strcmp(info->setting(info->settings, "mpi.profiling"), "1") == 0) {
        made = (g->profile = g->messages.profile = tti_mpi_profile_make()) != NULL && made;
    }
    for (int i = 0; i < g->lanes; i++) {
        made = lane_make(&g->lane[i], g->size) && made;
    }
    for (int r = 0; made && r < g->size; r++) {
        g->notifications[r] = MPI_REQUEST_NULL;
        for (int i = 0; i < TUTTI_MAX_LANES; i++) {
            g->last[r].calls[i] = INT64_MAX;
        }
    }
    if (!made) {
        group_free(g);
        return NULL;
    }
    return g;
}

/* A communicator that contains all members, as far as this rank knows: see common_base. */
static MPI_Comm base_of(const tutti_open_info *info)
{
    const struct tti_mpi_group *parent = info->parent_state;
    if (info->native_communicator) {
        return *(const MPI_Comm *)info->native_communicator;
    }
    return parent ? parent->control : MPI_COMM_WORLD;
}

/* Creates the communicators and adds the group to the list of open ones. `ranks` has room for one of each member. */
static tutti_status make(const tutti_open_info *info, MPI_Comm base, const struct rank_info *all, int *ranks,
                         struct tti_mpi_group *g, tutti_error *error)
{
    if (!tti_mpi_begin_creation()) {
        return is_ending(info, error);
    }
    tti_mpi_free_closed(); /* MPI has a few thousand communicators */
    const tutti_status status = make_locked(info, base, all, ranks, g, error);
    if (status == TUTTI_OK) {
        tti_mpi_add_open(g);
    }
    tti_mpi_end_creation();
    return status;
}

tutti_status tti_mpi_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    tutti_status status = tti_mpi_start(info, error);
    if (status != TUTTI_OK) {
        return status;
    }
    /* All memory before the exchange: afterwards the other members wait for this rank in MPI, without a deadline. */
    struct rank_info *all = calloc((size_t)info->world_size, sizeof(*all));
    int *ranks = calloc((size_t)info->world_size, sizeof(*ranks));
    struct tti_mpi_group *g = group_make(info);
    if (!all || !ranks || !g) {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", info->world_size);
    }
    MPI_Comm base = base_of(info);
    if (status == TUTTI_OK && (status = exchange_members(info, base, all, error)) == TUTTI_OK) {
        base = common_base(info, base, all);
        status = compare_members(info, all, error);
    }
    if (status == TUTTI_OK) {
        g->window = (size_t)all[0].window;
        g->blocking = true;
        g->device = all[0].device;
        for (int r = 0; r < g->size; r++) {
            g->blocking = g->blocking && all[r].blocking;
            g->device &= all[r].device;
        }
        status = make(info, base, all, ranks, g, error);
    }
    free(all);
    free(ranks);
    if (status != TUTTI_OK) {
        if (g) {
            group_free(g);
        }
        return status;
    }
    if (g->blocking && g->size > 1) {
        tti_mpi_start_watchdog();
    }
    *state = g;
    return TUTTI_OK;
}

void tti_mpi_close(void *state)
{
    struct tti_mpi_group *g = state;
    const bool open = tti_mpi_begin_creation();
    tti_mpi_remove_open(g);
    if (g->profile) {
        tti_mpi_profile_print(g);
    }
    if (open && !tti_mpi_has_failed(g)) {
        tti_mpi_keep_closed(g);
    }
    if (open) {
        tti_mpi_free_closed();
        tti_mpi_end_creation();
    }
    if (!g->kept) { /* see failure.c */
        group_free(g);
    }
}

size_t tti_mpi_describe(void *state, char *text, size_t capacity)
{
    static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};
    const struct tti_mpi_group *g = state;
    const int values[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int level = 0;
    while (level < 3 && values[level] != tti_mpi_library.level) {
        level++;
    }
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t,
               "  mpi: %s, plug-in " TTI_MPI_FLAVOUR ", %s; threads %s%s; device memory: CUDA %s, ROCm %s\n"
               "  collectives: %s\n",
               tti_mpi_library.version, tti_mpi_library.own ? "started here" : "started by the application",
               levels[level], tti_mpi_library.locked ? " (calls that do not block one at a time)" : "",
               tti_mpi_library.cuda_aware ? "yes" : "no", tti_mpi_library.rocm_aware ? "yes" : "no",
               g->blocking ? "blocking calls, which no deadline ends"
                           : "calls are compared, and end at their deadlines");
    if (g->profile) {
        tti_mpi_profile_append(g->profile, &t);
    }
    return t.length;
}

void *tti_mpi_native(void *state)
{
    return &((struct tti_mpi_group *)state)->control;
}
