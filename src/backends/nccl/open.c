/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a group. First every rank publishes a record: its library, version and device, or why it has none. Every rank
 * compares the records of all ranks, so all come to the same answer before any of them calls the library, which would
 * wait for a missing rank for ever. Then rank 0 publishes an id for each lane's communicator.
 *
 * Every group gets ids of its own, also one made from another group: all ranks of that group would have to call
 * ncclCommSplit, but only members know the list of members.
 */
#include "backends/nccl/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/nccl/abort.h"
#include "backends/nccl/close.h"
#include "backends/nccl/communicator/communicator.h"
#include "backends/nccl/communicator/connect.h"
#include "backends/nccl/failure.h"
#include "backends/nccl/library/options.h"
#include "backends/nccl/memory.h"
#include "backends/record.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host/boot_id.h"
#include "base/text.h"

#define MAGIC          0x6c63636eu /* "nccl" */
#define NONBLOCKING    21400
#define SHARES_DEVICES 23003 /* two ranks on a device, with NCCL_MULTI_RANK_GPU_ENABLE=1 */

/* Variables that the library reads and that decide how ranks divide their work: all ranks need the same values. */
enum { SAME_COUNT = 5, SAME_TEXT = 48 };
static const char *const same_variables[SAME_COUNT] = {"NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS",
                                                       "NCCL_MAX_NCHANNELS"};

/* The record of a rank. Fixed layout: it is sent between processes. */
struct rank_record {
    uint32_t magic;
    int32_t status; /* not OK: this rank cannot take part, and `text` says why */
    int32_t version;
    int32_t shares; /* may share its device with another rank */
    int32_t lanes;
    int32_t native_min_max; /* decides where an operation runs, so all ranks need the same */
    int32_t index;
    unsigned char uuid[TTI_DEVICE_UUID];
    char host[TTI_BOOT_ID];
    char backend[16];
    char variables[SAME_COUNT][SAME_TEXT];
    char text[296];
};

/* The ids that rank 0 publishes. */
struct id_record {
    uint32_t magic;
    int32_t status;
    int32_t version;
    int32_t lanes;
    char text[296];
    tti_nccl_id ids[TUTTI_MAX_LANES];
};

/* ---- the record of this rank ------------------------------------------------------------------------------------- */

static bool is_enabled(const char *variable)
{
    const char *value = getenv(variable);
    return value && strcmp(value, "1") == 0;
}

/* The caller has entered the device. */
static tutti_status lane_make(const struct tti_device *device, struct tti_nccl_lane *lane, tutti_error *error)
{
    tutti_status status = device->stream_create(&lane->stream, error);
    if (status == TUTTI_OK && (status = device->event_create(&lane->event, error)) == TUTTI_OK) {
        status = device->alloc(sizeof(uint32_t), &lane->barrier_word, error);
    }
    return status;
}

static tutti_status probe_device(struct tti_nccl_group *g, const tutti_open_info *info, struct rank_record *own,
                                 tutti_error *error)
{
    const struct tti_device *device = g->device;
    struct tti_device_scope scope;
    char text[24];
    if (info->device.device_type != device->type) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "backend %s needs a device %s for each rank, but rank %d has %s", g->library->backend,
                             device->name, g->rank, tti_device_text(info->device, text));
    }
    if (g->index < 0 || g->index >= device->count()) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "there is no %s: the driver reports %d",
                             tti_device_text(info->device, text), device->count());
    }
    tutti_status status = device->uuid_of(g->index, own->uuid, error);
    if (status == TUTTI_OK && (status = device->name_of(g->index, g->name, sizeof(g->name), error)) == TUTTI_OK &&
        (status = device->enter(g->index, &scope, error)) == TUTTI_OK) {
        for (int32_t i = 0; i < g->lanes && status == TUTTI_OK; i++) {
            status = lane_make(device, &g->lane[i], error);
        }
        device->leave(&scope);
    }
    return status;
}

static tutti_status probe_rank(struct tti_nccl_group *g, const char *backend, const tutti_open_info *info,
                               struct rank_record *own, tutti_error *error)
{
    char why[256] = "";
    g->library = tti_nccl_library(backend, why, sizeof(why));
    if (!g->library) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s: %s", backend, why);
    }
    g->device = g->library->device;
    g->nonblocking = g->library->version >= NONBLOCKING && g->library->CommInitRankConfig;
    own->version = g->library->version;
    if (info->native_communicator) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "backend %s makes its own communicators: leave native_communicator NULL", backend);
    }
    if (!(g->heap = tti_nccl_heap_open(g, info))) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", g->size);
    }
    tutti_status status = probe_device(g, info, own, error);
    status = status == TUTTI_OK ? tti_nccl_apply_options(g->library, info, error) : status;
    g->native_min_max = tti_nccl_native_min_max(g->library, info);
    own->native_min_max = g->native_min_max;
    for (int i = 0; i < SAME_COUNT; i++) {
        const char *value = getenv(same_variables[i]);
        snprintf(own->variables[i], SAME_TEXT, "%s", value ? value : "");
    }
    return status;
}

/* ---- the records of all ranks ------------------------------------------------------------------------------------ */

static tutti_status exchange_records(const tutti_open_info *info, struct rank_record *all, int64_t deadline_ns,
                                     tutti_error *error)
{
    tutti_status status = tti_records_exchange(info, "nccl/rank", all, sizeof(*all), deadline_ns, error);
    for (int32_t r = 0; r < info->world_size && status == TUTTI_OK; r++) {
        all[r].text[sizeof(all[r].text) - 1] = '\0';
        all[r].host[sizeof(all[r].host) - 1] = '\0';
        all[r].backend[sizeof(all[r].backend) - 1] = '\0';
        if (all[r].magic != MAGIC) {
            status =
                tti_error_set(error, TUTTI_PROTOCOL,
                              "rank %d published no device for NCCL: run the same version of Tutti on all ranks", r);
        }
    }
    return status;
}

static tutti_status compare_versions(const tutti_open_info *info, const struct rank_record *all, tutti_error *error)
{
    for (int32_t r = 1; r < info->world_size; r++) {
        char first[16];
        char other[16];
        tti_nccl_version_text(all[0].version, first);
        tti_nccl_version_text(all[r].version, other);
        if (all[r].version != all[0].version || strcmp(all[r].backend, all[0].backend) != 0) {
            tti_error_set(error, TUTTI_VERSION,
                          "rank 0 has %s %s, but rank %d has %s %s: all ranks need the same version", all[0].backend,
                          first, r, all[r].backend, other);
            error->suspect = r;
            return TUTTI_VERSION;
        }
        if (all[r].lanes != all[0].lanes) {
            return tti_error_set(error, TUTTI_MISMATCH, "rank 0 opens %d lanes, but rank %d opens %d", all[0].lanes, r,
                                 all[r].lanes);
        }
        if (all[r].native_min_max != all[0].native_min_max) {
            tti_error_set(error, TUTTI_MISMATCH,
                          "rank %d has %s.native_min_max=%s, but rank 0 %s: all ranks need the same", r, all[0].backend,
                          all[r].native_min_max ? "yes" : "no", all[0].native_min_max ? "yes" : "no");
            error->suspect = r;
            return TUTTI_MISMATCH;
        }
    }
    return TUTTI_OK;
}

/* Ranks that divide an operation differently wait for each other for ever. */
static tutti_status compare_variables(const tutti_open_info *info, struct rank_record *all, tutti_error *error)
{
    for (int32_t r = 1; r < info->world_size; r++) {
        for (int i = 0; i < SAME_COUNT; i++) {
            all[r].variables[i][SAME_TEXT - 1] = '\0';
            if (strcmp(all[r].variables[i], all[0].variables[i]) != 0) {
                tti_error_set(error, TUTTI_MISMATCH,
                              "rank %d has %s=\"%s\", but rank 0 \"%s\": all ranks need the same", r, same_variables[i],
                              all[r].variables[i], all[0].variables[i]);
                error->suspect = r;
                return TUTTI_MISMATCH;
            }
        }
    }
    return TUTTI_OK;
}

static bool same_device(const struct rank_record *a, const struct rank_record *b)
{
    return strcmp(a->host, b->host) == 0 && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* All ranks compare in the same order, so all get the same error. */
static tutti_status compare_devices(const tutti_open_info *info, const struct rank_record *all, tutti_error *error)
{
    for (int32_t r = 1; r < info->world_size; r++) {
        for (int32_t s = 0; s < r; s++) {
            if (same_device(&all[r], &all[s]) && !(all[r].shares && all[s].shares)) {
                return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                                     "ranks %d and %d have the same device (their numbers %d and %d): %s needs one for "
                                     "each rank; choose it by the rank's number on its host",
                                     s, r, all[s].index, all[r].index, all[r].backend);
            }
        }
    }
    return TUTTI_OK;
}

static tutti_status compare_records(const tutti_open_info *info, struct rank_record *all, tutti_error *error)
{
    for (int32_t r = 0; r < info->world_size; r++) {
        if (all[r].status != TUTTI_OK) {
            const tutti_status status = tti_status_of_peer(all[r].status);
            tti_error_set(error, status, "rank %d: %s", r, all[r].text);
            error->suspect = r;
            return status;
        }
    }
    tutti_status status = compare_versions(info, all, error);
    if (status == TUTTI_OK) {
        status = compare_variables(info, all, error);
    }
    return status == TUTTI_OK ? compare_devices(info, all, error) : status;
}

/* ---- the ids ----------------------------------------------------------------------------------------------------- */

static void make_ids(const struct tti_nccl_group *g, struct id_record *id_record)
{
    tutti_error error;
    for (int32_t i = 0; i < g->lanes && id_record->status == TUTTI_OK; i++) {
        const int code = g->library->GetUniqueId(&id_record->ids[i]);
        if (code != TTI_NCCL_SUCCESS) {
            id_record->status = tti_nccl_error(g->library, NULL, code, "GetUniqueId", &error);
            snprintf(id_record->text, sizeof(id_record->text), "%.295s", error.message);
        }
    }
}

static tutti_status exchange_ids(const struct tti_nccl_group *g, const tutti_open_info *info,
                                 struct id_record *id_record, int64_t deadline_ns, tutti_error *error)
{
    static const char key[] = "nccl/ids";
    const tutti_rendezvous *rv = info->rendezvous;
    memset(id_record, 0, sizeof(*id_record));
    tutti_status status = TUTTI_OK;
    if (g->rank == 0) {
        id_record->magic = MAGIC;
        id_record->version = g->library->version;
        id_record->lanes = g->lanes;
        make_ids(g, id_record);
        status = rv->set(rv->self, key, id_record, sizeof(*id_record), error);
    } else {
        status = tti_record_get(info, 0, key, id_record, sizeof(*id_record), deadline_ns, error);
    }
    id_record->text[sizeof(id_record->text) - 1] = '\0';
    if (status == TUTTI_OK && (id_record->magic != MAGIC || id_record->version != g->library->version)) {
        status = tti_error_set(error, TUTTI_PROTOCOL,
                               "rank 0 published no ids of communicators: run the same version of Tutti on all ranks");
    }
    if (status == TUTTI_OK && id_record->status != TUTTI_OK) {
        status = tti_error_set(error, id_record->status, "rank 0: %s", id_record->text);
    }
    return status;
}

/* ---- the group --------------------------------------------------------------------------------------------------- */

static struct tti_nccl_group *group_make(const tutti_open_info *info)
{
    struct tti_nccl_group *g = calloc(1, sizeof(*g));
    if (!g) {
        return NULL;
    }
    g->index = info->device.device_id;
    g->rank = info->rank;
    g->size = info->world_size;
    g->lanes = info->lanes;
    g->wait_registry = info->wait_registry;
    pthread_mutex_init(&g->lock, NULL);
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_nccl_lane_init(&g->lane[i]);
    }
    return g;
}

static tutti_status group_connect(struct tti_nccl_group *g, const tutti_open_info *info,
                                  const struct id_record *id_record, int64_t deadline_ns, tutti_error *error)
{
    struct tti_device_scope scope;
    tutti_status status = g->device->enter(g->index, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_nccl_connect(g, info, id_record->ids, deadline_ns, error);
    g->device->leave(&scope);
    return status;
}

/* Discards a group that could not be opened: communicators made so far are aborted. */
static void group_drop(struct tti_nccl_group *g, const tutti_error *cause)
{
    if (!g->device) {
        for (int32_t i = 0; i < g->lanes; i++) {
            tti_nccl_lane_destroy(&g->lane[i]);
        }
        pthread_mutex_destroy(&g->lock);
        free(g);
        return;
    }
    tti_nccl_fail(g, cause);
    tti_nccl_close(g);
}

tutti_status tti_nccl_open(const char *backend, const tutti_open_info *info, void **state, tutti_error *error)
{
    const int64_t deadline_ns = tti_deadline_ns(tti_now_ns(), info->timeout_ms);
    struct tti_nccl_group *g = group_make(info);
    struct rank_record *all = calloc((size_t)info->world_size, sizeof(*all));
    struct id_record *id_record = malloc(sizeof(*id_record));
    tutti_error cause;
    tti_error_clear(&cause);
    if (!g || !all || !id_record) {
        free(id_record);
        free(all);
        free(g);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", info->world_size);
    }
    struct rank_record *own = &all[info->rank];
    own->magic = MAGIC;
    own->lanes = info->lanes;
    own->index = info->device.device_id;
    snprintf(own->backend, sizeof(own->backend), "%s", backend);
    own->status = tti_boot_id(own->host, &cause);
    own->status = own->status == TUTTI_OK ? probe_rank(g, backend, info, own, &cause) : own->status;
    own->shares = own->version >= SHARES_DEVICES && is_enabled("NCCL_MULTI_RANK_GPU_ENABLE");
    snprintf(own->text, sizeof(own->text), "%.295s", cause.message);
    tutti_status status = exchange_records(info, all, deadline_ns, &cause);
    if (status == TUTTI_OK && (status = compare_records(info, all, &cause)) == TUTTI_OK &&
        (status = exchange_ids(g, info, id_record, deadline_ns, &cause)) == TUTTI_OK) {
        tti_nccl_setting_warnings(g->library, info, g->setting_warnings, sizeof(g->setting_warnings));
        status = group_connect(g, info, id_record, deadline_ns, &cause);
    }
    free(id_record);
    free(all);
    if (status != TUTTI_OK) {
        if (error) {
            *error = cause;
        }
        group_drop(g, &cause);
        return status;
    }
    *state = g;
    return TUTTI_OK;
}

size_t tti_nccl_describe(void *state, char *text, size_t capacity)
{
    struct tti_nccl_group *g = state;
    const struct tti_nccl_library *library = g->library;
    char version[16];
    char device[24];
    char lost[64] = "";
    int32_t count = 0;
    tti_nccl_version_text(library->version, version);
    tti_device_text((DLDevice){g->device->type, g->index}, device);
    for (int32_t i = 0; i < g->lanes; i++) {
        pthread_mutex_lock(&g->lane[i].lock);
        count += g->lane[i].lost || g->lane[i].ending;
        pthread_mutex_unlock(&g->lane[i].lock);
    }
    if (count > 0) {
        snprintf(lost, sizeof(lost), ", %d of them left in ncclCommAbort", count);
    }
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t, "  %s: %s %s (%s), %s %s, %d communicator%s%s%s\n", library->backend, library->display_name, version,
               library->path, device, g->name, g->lanes, g->lanes == 1 ? "" : "s",
               g->nonblocking ? "" : ", whose calls no deadline ends", lost);
    if (g->setting_warnings[0]) {
        tti_append(&t, "  not possible: %s\n", g->setting_warnings);
    }
    return t.length;
}
