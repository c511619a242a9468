/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank resolves its own settings: first the devices of tensors and engine, then its record, with the backends that
 * can be used here. It checks the record of every other rank against its own; the first difference fails all of them
 * alike.
 */
#include "core/group/records/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "core/group/backend/registry.h"
#include "core/group/plan.h"
#include "core/group/records/hello.h"
#include "core/membership/same_host.h"

#define HELLO_MAGIC 0x74757475u

/* The host's name, for people. */
static void host_name(char *name, size_t capacity)
{
    const char *id = getenv("TUTTI_HOST_ID");
    struct utsname system = {0};
    uname(&system);
    snprintf(name, capacity, "%.*s", (int)capacity - 1, id && *id ? id : system.nodename);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

uint32_t tti_resolve_capability(DLDeviceType type)
{
    return type == kDLCUDA ? TUTTI_CAP_CUDA : type == kDLROCM ? TUTTI_CAP_ROCM : 0;
}

bool tti_resolve_needs_device(const tutti_backend *backend)
{
    return backend && (backend->capabilities & TUTTI_CAP_NO_HOST) != 0;
}

/* Device "auto": the CPU, unless the named engine takes no host memory, or the setting names engines for devices
 * only. */
static const char *device_by_wish(const char *wish)
{
    if (!strchr(wish, ':')) {
        const tutti_backend *backend = tutti_backend_find(wish);
        return !tti_resolve_needs_device(backend) ? "cpu" : backend->capabilities & TUTTI_CAP_CUDA ? "cuda" : "rocm";
    }
    return strstr(wish, "cpu:") ? "cpu" : strstr(wish, "cuda:") ? "cuda" : strstr(wish, "rocm:") ? "rocm" : "cpu";
}

/* The backend that the setting names for such a device, or NULL. */
static const tutti_backend *named_backend(const struct tti_settings *settings, const struct tti_device *d)
{
    char name[40];
    const char *wish = tti_setting(settings, TTI_SET_BACKEND);
    return tti_registry_choice(wish, d->name, name, sizeof(name), NULL) == TUTTI_OK ? tutti_backend_find(name) : NULL;
}

/* One of the devices of a kind: by the setting of the index, or else by the rank on this host. */
static tutti_status pick(const struct tti_group_plan *plan, const struct tti_device *d, DLDevice *device,
                         tutti_error *error)
{
    char why[200] = "";
    if (!d->available(why, sizeof(why))) {
        const tutti_backend *backend = named_backend(plan->settings, d);
        if (!tti_resolve_needs_device(backend)) {
            return tti_error_set(error, TUTTI_NOT_AVAILABLE, "device %s cannot be used here: %s", d->name, why);
        }
        tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s is not available: device %s cannot be used here: %s",
                      backend->name, d->name, why);
        if (error) {
            snprintf(error->backend, sizeof(error->backend), "%s", backend->name);
        }
        return TUTTI_NOT_AVAILABLE;
    }
    const int64_t index = tti_setting_number(plan->settings, TTI_SET_DEVICE_INDEX);
    const int32_t count = d->count();
    if (index >= count) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "device %s:%lld does not exist: there are %s:0 to %s:%d",
                             d->name, (long long)index, d->name, d->name, (int)count - 1);
    }
    *device = (DLDevice){d->type, index >= 0 ? (int32_t)index : plan->local_rank % count};
    return TUTTI_OK;
}

/* The kind of device that host tensors are copied to because the named engine is set to host_staging; else the host. */
static const struct tti_device *staging_device(const struct tti_settings *settings)
{
    const tutti_backend *backend = tutti_backend_find(tti_setting(settings, TTI_SET_BACKEND));
    if (!tti_resolve_needs_device(backend)) {
        return &tti_device_host;
    }
    char key[40];
    snprintf(key, sizeof(key), "%s.host_staging", backend->name);
    const char *wanted = tti_setting_by_key(settings, key);
    return wanted && strcmp(wanted, "1") == 0 ? tti_device_named(device_by_wish(backend->name)) : &tti_device_host;
}

tutti_status tti_resolve_devices(struct tti_group_plan *plan, tutti_error *error)
{
    const struct tti_settings *settings = plan->settings;
    const char *wish = tti_setting(settings, TTI_SET_DEVICE);
    const char *name = strcasecmp(wish, "auto") == 0 ? device_by_wish(tti_setting(settings, TTI_SET_BACKEND)) : wish;
    const struct tti_device *d = tti_device_named(name);
    plan->device = plan->engine_device = (DLDevice){kDLCPU, 0};
    if (d->type == kDLCPU) {
        d = staging_device(settings);
        return d->type == kDLCPU ? TUTTI_OK : pick(plan, d, &plan->engine_device, error);
    }
    tutti_status status = pick(plan, d, &plan->device, error);
    plan->engine_device = plan->device;
    return status;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static void append_name(char *list, size_t capacity, const char *name)
{
    const size_t used = strlen(list);
    snprintf(list + used, capacity - used, "%s ", name);
}

static bool is_wanted(const struct tti_hello *h, const tutti_backend *b)
{
    return strcasecmp(h->backend, b->name) == 0 || strcasecmp(h->host_backend, b->name) == 0;
}

/* Whether a choice by this setting may depend on the backend. */
static bool may_choose(const char *wish, const tutti_backend *b)
{
    const tutti_backend *named = tutti_backend_find(wish);
    return strcasecmp(wish, "auto") == 0 ? b->priority >= 0
                                         : named && (named == b || (named->capabilities & TUTTI_CAP_COMPOSED));
}

/* Probes a backend, and appends it to the list if it can be used. A resource error fails the rank if the choice may
 * depend on the backend. Otherwise one rank's passing shortage of descriptors would choose another engine for the life
 * of the group. */
static tutti_status probe_backend(const struct tti_hello *h, const tutti_backend *b, char *list, size_t capacity,
                                  tutti_error *error)
{
    char why[200];
    const tutti_status status = tti_registry_probe(b, why, sizeof(why));
    if (status == TUTTI_OK) {
        append_name(list, capacity, b->name);
    } else if (tti_is_resource_error(status) && (may_choose(h->backend, b) || may_choose(h->host_backend, b))) {
        return tti_error_set(error, status, "whether backend %s can be used cannot be found out: %s", b->name, why);
    }
    return TUTTI_OK;
}

/* Which backends can be used here. A backend for a device is probed only by groups on such a device: its probe starts
 * the vendor's driver. A backend with TUTTI_CAP_ASK_LATE is probed if it is named, else only when the choice depends on
 * it. */
static tutti_status list_available(DLDeviceType device, struct tti_hello *h, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    for (size_t i = 0; tutti_backend_at(i) && status == TUTTI_OK; i++) {
        const tutti_backend *b = tutti_backend_at(i);
        if (tti_resolve_needs_device(b) && !(b->capabilities & tti_resolve_capability(device))) {
            continue;
        }
        if ((b->capabilities & TUTTI_CAP_ASK_LATE) && !is_wanted(h, b)) {
            append_name(h->unprobed, sizeof(h->unprobed), b->name);
        } else {
            const size_t before = strlen(h->available);
            status = probe_backend(h, b, h->available, sizeof(h->available), error);
            if (status == TUTTI_OK && strlen(h->available) == before && is_wanted(h, b)) {
                tutti_backend_available(b, h->message, sizeof(h->message)); /* so that all ranks can report why */
            }
        }
    }
    return status;
}

void tti_hello_probe_backends(const struct tti_hello *h, struct tti_backend_answer *answer)
{
    char copy[sizeof(h->unprobed)];
    tutti_error error;
    memset(answer, 0, sizeof(*answer));
    memcpy(answer->available, h->available, sizeof(answer->available));
    memcpy(copy, h->unprobed, sizeof(copy));
    char *rest = NULL;
    for (const char *name = strtok_r(copy, " ", &rest); name && answer->status == TUTTI_OK;
         name = strtok_r(NULL, " ", &rest)) {
        answer->status =
            probe_backend(h, tutti_backend_find(name), answer->available, sizeof(answer->available), &error);
    }
    if (answer->status != TUTTI_OK) {
        snprintf(answer->message, sizeof(answer->message), "%.*s", (int)sizeof(answer->message) - 1, error.message);
    }
}

tutti_status tti_backend_answer_check(struct tti_backend_answer *answer, int r, tutti_error *error)
{
    answer->message[sizeof(answer->message) - 1] = '\0';
    return answer->status == TUTTI_OK ? tti_error_clear(error)
                                      : tti_error_set(error, tti_status_of_peer(answer->status),
                                                      "rank %d cannot take part: %s", r, answer->message);
}

void tti_hello_merge(struct tti_hello *h, const struct tti_backend_answer *answer)
{
    memcpy(h->available, answer->available, sizeof(h->available));
    h->available[sizeof(h->available) - 1] = '\0';
    h->unprobed[0] = '\0';
}

tutti_status tti_hello_fill(const struct tti_group_plan *plan, tutti_status status, struct tti_hello *h,
                            tutti_error *error)
{
    const char *wish = tti_setting(plan->settings, TTI_SET_BACKEND);
    const struct tti_device *device = tti_device_of(plan->device.device_type);
    const struct tti_device *engine_device = tti_device_of(plan->engine_device.device_type);
    memset(h, 0, sizeof(*h));
    h->magic = HELLO_MAGIC;
    h->version = TUTTI_BACKEND_ABI;
    h->size = plan->size;
    h->lanes = (int32_t)tti_setting_number(plan->settings, TTI_SET_LANES);
    h->checks_calls = (int32_t)tti_setting_number(plan->settings, TTI_SET_CHECK_CALLS);
    h->serves = tti_store_served_here(plan->store);
    tti_proc_self(&h->process);
    if (status == TUTTI_OK) {
        status = tti_site_find(tti_setting(plan->settings, TTI_SET_SHM_DIRECTORY), &h->site, error);
    }
    h->device_type = plan->device.device_type;
    h->device_index = plan->device.device_id;
    snprintf(h->window, sizeof(h->window), "%.20s", tti_setting(plan->settings, TTI_SET_ENGINE_WINDOW));
    snprintf(h->chunk, sizeof(h->chunk), "%.20s", tti_setting(plan->settings, TTI_SET_DEVICE_CHUNK));
    snprintf(h->zero_copy, sizeof(h->zero_copy), "%.7s", tti_setting(plan->settings, TTI_SET_ENGINE_ZERO_COPY));
    snprintf(h->heap, sizeof(h->heap), "%.7s", tti_setting(plan->settings, TTI_SET_ENGINE_HEAP));
    snprintf(h->inner, sizeof(h->inner), "%.15s", tti_setting(plan->settings, TTI_SET_HIER_INNER));
    snprintf(h->outer, sizeof(h->outer), "%.15s", tti_setting(plan->settings, TTI_SET_HIER_OUTER));
    snprintf(h->hier_chunk, sizeof(h->hier_chunk), "%.20s", tti_setting(plan->settings, TTI_SET_HIER_CHUNK));
    host_name(h->node, sizeof(h->node));
    if (status == TUTTI_OK) {
        status = tti_registry_choice(wish, device->name, h->backend, sizeof(h->backend), error);
    }
    if (status == TUTTI_OK && engine_device->type != kDLCPU) {
        status = tti_registry_choice(strchr(wish, ':') ? wish : "auto", "cpu", h->host_backend, sizeof(h->host_backend),
                                     error);
    }
    if (status == TUTTI_OK && engine_device->type != kDLCPU) {
        status = engine_device->uuid_of(plan->engine_device.device_id, h->uuid, error);
    }
    if (status == TUTTI_OK) { /* else the list is not read */
        status = list_available(engine_device->type, h, error);
    }
    h->status = status;
    if (status != TUTTI_OK) {
        snprintf(h->message, sizeof(h->message), "%.*s", (int)sizeof(h->message) - 1, error->message);
    }
    return status;
}

static void terminate(struct tti_hello *h)
{
    h->backend[sizeof(h->backend) - 1] = '\0';
    h->host_backend[sizeof(h->host_backend) - 1] = '\0';
    h->window[sizeof(h->window) - 1] = '\0';
    h->chunk[sizeof(h->chunk) - 1] = '\0';
    h->zero_copy[sizeof(h->zero_copy) - 1] = '\0';
    h->heap[sizeof(h->heap) - 1] = '\0';
    h->inner[sizeof(h->inner) - 1] = '\0';
    h->outer[sizeof(h->outer) - 1] = '\0';
    h->hier_chunk[sizeof(h->hier_chunk) - 1] = '\0';
    h->available[sizeof(h->available) - 1] = '\0';
    h->unprobed[sizeof(h->unprobed) - 1] = '\0';
    h->node[sizeof(h->node) - 1] = '\0';
    h->site.unreachable_reason[0] = '\0'; /* this, and what depends on it, is computed here */
    h->site.by_directory = 0;
    h->machine = h->host = 0;
    h->message[sizeof(h->message) - 1] = '\0';
}

/* A text that has to be the same on all ranks. */
static tutti_status same_text(const struct tti_group_plan *plan, const char *what, const char *theirs, const char *own,
                              int r, tutti_error *error)
{
    if (strcasecmp(theirs, own) == 0) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_MISMATCH, "rank %d has %s %s, but rank %d %s", r, what, theirs, plan->rank, own);
}

tutti_status tti_hello_check(const struct tti_group_plan *plan, const struct tti_hello *own, struct tti_hello *h, int r,
                             tutti_error *error)
{
    char theirs[24];
    char mine[24];
    tutti_status status;
    terminate(h);
    if (h->magic != HELLO_MAGIC || h->version != TUTTI_BACKEND_ABI) {
        return tti_error_set(error, TUTTI_VERSION, "rank %d uses another version of Tutti: run the same on all ranks",
                             r);
    }
    if (h->status != TUTTI_OK) {
        return tti_error_set(error, tti_status_of_peer(h->status), "rank %d cannot take part: %s", r, h->message);
    }
    if (h->size != own->size || h->lanes != own->lanes) {
        return tti_error_set(error, TUTTI_MISMATCH,
                             "rank %d expects %d ranks and %d lanes, but rank %d expects %d ranks and %d lanes", r,
                             h->size, h->lanes, plan->rank, own->size, own->lanes);
    }
    if (h->checks_calls != own->checks_calls) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d has check_calls %s, but rank %d %s", r,
                             h->checks_calls ? "on" : "off", plan->rank, own->checks_calls ? "on" : "off");
    }
    if (strcasecmp(h->backend, own->backend) != 0) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d asks for backend %s, but rank %d for %s", r, h->backend,
                             plan->rank, own->backend);
    }
    if (h->device_type != own->device_type) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d works on device %s, but rank %d on %s", r,
                             tti_device_text((DLDevice){h->device_type, h->device_index}, theirs), plan->rank,
                             tti_device_text(plan->device, mine));
    }
    if ((status = same_text(plan, "the host backend", h->host_backend, own->host_backend, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "engine.window", h->window, own->window, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "device.chunk", h->chunk, own->chunk, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "hier.inner", h->inner, own->inner, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "hier.outer", h->outer, own->outer, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "hier.chunk", h->hier_chunk, own->hier_chunk, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "engine.zero_copy", h->zero_copy, own->zero_copy, r, error)) != TUTTI_OK) {
        return status;
    }
    return same_text(plan, "engine.heap", h->heap, own->heap, r, error);
}
