/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/resolve.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "core/registry.h"

#define HELLO_MAGIC 0x74757475u

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (const char *c = text; *c; c++) {
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* This machine's identity: boot id and the namespaces that decide whether memory and sockets can be shared. */
static uint64_t machine_identity(void)
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    uint64_t h = hash_text(UINT64_C(0xcbf29ce484222325), text);
    const char *spaces[] = {"/proc/self/ns/net", "/proc/self/ns/pid"};
    for (size_t i = 0; i < 2; i++) {
        struct stat st;
        uint64_t v = stat(spaces[i], &st) == 0 ? (uint64_t)st.st_ino : 0;
        h = (h ^ v) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* The host that this rank is on. TUTTI_HOST_ID, any text, makes one machine several hosts, for tests. */
static uint64_t host_identity(uint64_t machine)
{
    const char *id = getenv("TUTTI_HOST_ID");
    return id && *id ? hash_text(machine, id) : machine;
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

uint32_t tti_resolve_capability(DLDeviceType type)
{
    return type == kDLCUDA ? TUTTI_CAP_CUDA : type == kDLROCM ? TUTTI_CAP_ROCM : 0;
}

static bool needs_device(const tutti_backend *backend)
{
    return backend && (backend->capabilities & TUTTI_CAP_NO_HOST) != 0;
}

/* "auto": on the CPU, unless the wish is an engine that takes nothing there, or names only engines for another device. */
static const char *device_by_wish(const char *wish)
{
    if (!strchr(wish, ':')) {
        const tutti_backend *backend = tutti_backend_find(wish);
        return !needs_device(backend) ? "cpu" : backend->capabilities & TUTTI_CAP_CUDA ? "cuda" : "rocm";
    }
    return strstr(wish, "cpu:") ? "cpu" : strstr(wish, "cuda:") ? "cuda" : strstr(wish, "rocm:") ? "rocm" : "cpu";
}

/* One of the devices of a kind: the one that is named, or else by the rank on this host. */
static tutti_status pick(const struct tti_group_plan *plan, const struct tti_device *d, DLDevice *device,
                         tutti_error *error)
{
    char why[200] = "";
    if (!d->available(why, sizeof(why))) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "device %s cannot be used here: %s", d->name, why);
    }
    const int64_t index = tti_setting_number(&plan->settings, TTI_SET_DEVICE_INDEX);
    const int32_t count = d->count();
    if (index >= count) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "device %s:%lld does not exist: there are %s:0 to %s:%d",
                             d->name, (long long)index, d->name, d->name, (int)count - 1);
    }
    *device = (DLDevice){d->type, index >= 0 ? (int32_t)index : plan->local_rank % count};
    return TUTTI_OK;
}

/* The kind of device that host tensors are to be copied to, because the engine that was named wants that. */
static const struct tti_device *lent_device(const struct tti_settings *settings)
{
    const tutti_backend *backend = tutti_backend_find(tti_setting(settings, TTI_SET_BACKEND));
    if (!needs_device(backend)) {
        return &tti_device_host;
    }
    char key[40];
    snprintf(key, sizeof(key), "%s.host_staging", backend->name);
    const char *wanted = tti_setting_by_key(settings, key);
    return wanted && strcmp(wanted, "1") == 0 ? tti_device_named(device_by_wish(backend->name)) : &tti_device_host;
}

tutti_status tti_resolve_devices(struct tti_group_plan *plan, tutti_error *error)
{
    const struct tti_settings *settings = &plan->settings;
    const char *wish = tti_setting(settings, TTI_SET_DEVICE);
    const char *name = strcasecmp(wish, "auto") == 0 ? device_by_wish(tti_setting(settings, TTI_SET_BACKEND)) : wish;
    const struct tti_device *d = tti_device_named(name);
    plan->device = plan->engine_device = (DLDevice){kDLCPU, 0};
    if (d->type == kDLCPU) {
        d = lent_device(settings);
        return d->type == kDLCPU ? TUTTI_OK : pick(plan, d, &plan->engine_device, error);
    }
    tutti_status status = pick(plan, d, &plan->device, error);
    plan->engine_device = plan->device;
    return status;
}

/* ---- records ------------------------------------------------------------------------------------------------------- */

/* The names of what can be used here. What needs a device is asked only by groups on such a one: the question starts the
 * vendor's driver. */
static void list_available(DLDeviceType device, char *list, size_t capacity)
{
    for (size_t i = 0; tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        const size_t used = strlen(list);
        char why[200];
        if (needs_device(b) && !(b->capabilities & tti_resolve_capability(device))) {
            continue;
        }
        if (tutti_backend_available(b, why, sizeof(why))) {
            snprintf(list + used, capacity - used, "%s ", b->name);
        }
    }
}

tutti_status tti_hello_fill(const struct tti_group_plan *plan, tutti_status status, struct tti_hello *h,
                            tutti_error *error)
{
    const char *wish = tti_setting(&plan->settings, TTI_SET_BACKEND);
    const struct tti_device *device = tti_device_of(plan->device.device_type);
    const struct tti_device *engine_device = tti_device_of(plan->engine_device.device_type);
    memset(h, 0, sizeof(*h));
    h->magic = HELLO_MAGIC;
    h->version = TUTTI_BACKEND_ABI;
    h->size = plan->size;
    h->lanes = (int32_t)tti_setting_number(&plan->settings, TTI_SET_LANES);
    h->pid = getpid();
    h->machine = machine_identity();
    h->host = host_identity(h->machine);
    h->device_type = plan->device.device_type;
    h->device_index = plan->device.device_id;
    snprintf(h->window, sizeof(h->window), "%.20s", tti_setting(&plan->settings, TTI_SET_ENGINE_WINDOW));
    snprintf(h->chunk, sizeof(h->chunk), "%.20s", tti_setting(&plan->settings, TTI_SET_DEVICE_CHUNK));
    snprintf(h->zero_copy, sizeof(h->zero_copy), "%.7s", tti_setting(&plan->settings, TTI_SET_ENGINE_ZERO_COPY));
    snprintf(h->heap, sizeof(h->heap), "%.7s", tti_setting(&plan->settings, TTI_SET_ENGINE_HEAP));
    snprintf(h->inner, sizeof(h->inner), "%.15s", tti_setting(&plan->settings, TTI_SET_HIER_INNER));
    snprintf(h->outer, sizeof(h->outer), "%.15s", tti_setting(&plan->settings, TTI_SET_HIER_OUTER));
    snprintf(h->piece, sizeof(h->piece), "%.20s", tti_setting(&plan->settings, TTI_SET_HIER_CHUNK));
    list_available(engine_device->type, h->available, sizeof(h->available));
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
    h->piece[sizeof(h->piece) - 1] = '\0';
    h->available[sizeof(h->available) - 1] = '\0';
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

tutti_status tti_hello_look(const struct tti_group_plan *plan, const struct tti_hello *own, struct tti_hello *h, int r,
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
        return tti_error_set(error, h->status, "rank %d cannot take part: %s", r, h->message);
    }
    if (h->size != own->size || h->lanes != own->lanes) {
        return tti_error_set(error, TUTTI_MISMATCH,
                             "rank %d expects %d ranks and %d lanes, but rank %d expects %d ranks and %d lanes", r,
                             h->size, h->lanes, plan->rank, own->size, own->lanes);
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
        (status = same_text(plan, "hier.chunk", h->piece, own->piece, r, error)) != TUTTI_OK ||
        (status = same_text(plan, "engine.zero_copy", h->zero_copy, own->zero_copy, r, error)) != TUTTI_OK) {
        return status;
    }
    return same_text(plan, "engine.heap", h->heap, own->heap, r, error);
}

/* ---- choosing ------------------------------------------------------------------------------------------------------ */

static bool has_name(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *c = strstr(list, name); c; c = strstr(c + 1, name)) {
        if ((c == list || c[-1] == ' ') && c[length] == ' ') {
            return true;
        }
    }
    return false;
}

/* Where the ranks are. */
struct places {
    bool one_process;
    bool one_host;
    bool own_devices; /* no two ranks share a device */
};

static struct places places_of(const struct tti_hello *all, int size)
{
    struct places p = {.one_process = true, .one_host = true, .own_devices = true};
    for (int r = 0; r < size; r++) {
        p.one_host = p.one_host && all[r].host == all[0].host;
        p.one_process = p.one_process && p.one_host && all[r].pid == all[0].pid;
        for (int q = 0; q < r && p.own_devices; q++) {
            p.own_devices = memcmp(all[r].uuid, all[q].uuid, sizeof(all[r].uuid)) != 0;
        }
    }
    return p;
}

/* The engine that the ranks have named; with what is wrong with it. */
static tutti_status choose_named(const struct tti_group_plan *plan, const struct tti_hello *all, const char *wish,
                                 const struct places *places, DLDeviceType device, const tutti_backend **backend,
                                 tutti_error *error)
{
    tutti_status status = tti_registry_find(wish, backend, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const uint32_t has = (*backend)->capabilities;
    const char *name = (*backend)->name;
    if (needs_device(*backend) && !(has & tti_resolve_capability(device))) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s works on %s memory only, but the group's device is %s: leave the device to "
                             "auto, or set %s.host_staging=yes to have host tensors copied there and back",
                             name, has & TUTTI_CAP_CUDA ? "CUDA" : "ROCm", tti_device_of(device)->name, name);
    }
    for (int r = 0; r < plan->size; r++) {
        if (!has_name(all[r].available, name)) {
            char why[200] = "";
            tutti_backend_available(*backend, why, sizeof(why));
            return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s cannot be used on rank %d%s%s", name, r,
                                 r == plan->rank ? ": " : "", r == plan->rank ? why : "");
        }
    }
    if ((has & TUTTI_CAP_ONE_HOST) && !places->one_host) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s needs all ranks on one host, but they are on several", name);
    }
    if ((has & TUTTI_CAP_ONE_PROCESS) && !places->one_process) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s joins threads of one process, but the ranks are processes; use shm", name);
    }
    return TUTTI_OK;
}

/* ---- engines for some of the ranks --------------------------------------------------------------------------------- */

static struct places places_among(const struct tti_hello *all, const int32_t *ranks, int32_t count, bool real)
{
    struct places p = {.one_process = true, .one_host = true};
    const struct tti_hello *first = &all[ranks[0]];
    for (int32_t i = 0; i < count; i++) {
        const struct tti_hello *h = &all[ranks[i]];
        p.one_host = p.one_host && (real ? h->machine == first->machine : h->host == first->host);
        p.one_process = p.one_process && h->machine == first->machine && h->pid == first->pid;
    }
    return p;
}

/* The first of the ranks that cannot use it, or -1. */
static int32_t lacks(const struct tti_hello *all, const int32_t *ranks, int32_t count, const tutti_backend *backend)
{
    for (int32_t i = 0; i < count; i++) {
        if (!has_name(all[ranks[i]].available, backend->name)) {
            return ranks[i];
        }
    }
    return -1;
}

static bool fits_places(const tutti_backend *b, const struct places *places)
{
    return (!(b->capabilities & TUTTI_CAP_ONE_PROCESS) || places->one_process) &&
           (!(b->capabilities & TUTTI_CAP_ONE_HOST) || places->one_host);
}

static const tutti_backend *best_part(const struct tti_hello *all, const int32_t *ranks, int32_t count)
{
    const struct places places = places_among(all, ranks, count, false);
    for (size_t i = 0; tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        if (b->priority >= 0 && !(b->capabilities & (TUTTI_CAP_COMPOSED | TUTTI_CAP_NO_HOST)) &&
            fits_places(b, &places) && lacks(all, ranks, count, b) < 0) {
            return b;
        }
    }
    return NULL;
}

static tutti_status named_part(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                               const tutti_backend **backend, tutti_error *error)
{
    const struct places places = places_among(all, ranks, count, true);
    tutti_status status = tti_registry_find(wish, backend, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const int32_t without = lacks(all, ranks, count, *backend);
    if ((*backend)->capabilities & (TUTTI_CAP_COMPOSED | TUTTI_CAP_NO_HOST)) {
        return tti_error_set(
            error, TUTTI_UNSUPPORTED,
            "backend %s cannot be a part of another one: it %s; `tutti info` lists the others", (*backend)->name,
            (*backend)->capabilities & TUTTI_CAP_NO_HOST ? "takes no host memory" : "is made of others");
    }
    if (without >= 0) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s cannot be used on rank %d (`tutti info` says why)",
                             (*backend)->name, without);
    }
    if (!fits_places(*backend, &places)) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s needs ranks %s, but ranks %d to %d are not",
                             (*backend)->name, places.one_host ? "that are threads of one process" : "on one host",
                             ranks[0], ranks[count - 1]);
    }
    return TUTTI_OK;
}

tutti_status tti_resolve_engine(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                                const tutti_backend **backend, tutti_error *error)
{
    if (strcasecmp(wish, "auto") != 0) {
        return named_part(all, ranks, count, wish, backend, error);
    }
    *backend = best_part(all, ranks, count);
    if (*backend) {
        return TUTTI_OK;
    }
    const bool one_host = places_among(all, ranks, count, false).one_host;
    return tti_error_set(error, TUTTI_NOT_AVAILABLE, "no backend can join ranks %s (%d to %d): %s",
                         one_host ? "of one host" : "of several hosts", ranks[0], ranks[count - 1],
                         one_host
                             ? "`tutti info` says what each one needs"
                             : "mpi needs to be started by mpirun or the like; `tutti info` says what others need");
}

/* Whether a composed engine finds its parts: one for the ranks of each host, and one for all; and whether there is a host with
 * several ranks, for else the one for all is all there is to it, unless it has been named. */
static bool has_parts(const struct tti_hello *all, int size)
{
    const tutti_backend *part;
    int32_t *ranks = calloc((size_t)size, sizeof(*ranks));
    for (int32_t r = 0; ranks && r < size; r++) {
        ranks[r] = r;
    }
    bool found = ranks && tti_resolve_engine(all, ranks, size, all[0].outer, &part, NULL) == TUTTI_OK;
    bool wanted = strcasecmp(all[0].outer, "auto") != 0;
    for (int r = 0; r < size && found; r++) {
        int32_t count = 0;
        for (int q = 0; q < size; q++) {
            if (all[q].host == all[r].host) {
                ranks[count++] = q;
            }
        }
        if (ranks[0] == r) { /* once for each host */
            found = tti_resolve_engine(all, ranks, count, all[0].inner, &part, NULL) == TUTTI_OK;
            wanted = wanted || count > 1;
        }
    }
    free(ranks);
    return found && wanted;
}

/* The best engine that fits; NULL if none does. */
static const tutti_backend *choose_best(const struct tti_hello *all, int size, const struct places *places,
                                        DLDeviceType device)
{
    const tutti_backend *best = NULL;
    for (size_t i = 0; tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        const uint32_t has = b->capabilities;
        const bool threads_only = (has & TUTTI_CAP_ONE_PROCESS) != 0;
        bool fits = b->priority >= 0 && fits_places(b, places);
        if (needs_device(b)) {
            fits = fits && (has & tti_resolve_capability(device)) && places->own_devices;
        }
        for (int r = 0; r < size && fits; r++) {
            fits = has_name(all[r].available, b->name);
        }
        if (fits && (has & TUTTI_CAP_COMPOSED)) {
            fits = !places->one_host && !best && has_parts(all, size);
        }
        if (fits && (!best || (threads_only && !(best->capabilities & (TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_NO_HOST))))) {
            best = b;
        }
    }
    return best;
}

tutti_status tti_resolve(const struct tti_group_plan *plan, const struct tti_hello *all, struct tti_choice *choice,
                         tutti_error *error)
{
    const struct places places = places_of(all, plan->size);
    const struct tti_hello *own = &all[plan->rank];
    const DLDeviceType device = plan->engine_device.device_type;
    tutti_status status = TUTTI_OK;
    if (strcasecmp(own->backend, "auto") != 0) {
        status = choose_named(plan, all, own->backend, &places, device, &choice->backend, error);
    } else if (!(choice->backend = choose_best(all, plan->size, &places, device))) {
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE,
                               "no backend fits these %d ranks (%s); `tutti info` says what each one needs", plan->size,
                               places.one_host ? "one host" : "several hosts");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    choice->host = choice->backend;
    if (needs_device(choice->backend)) {
        if (strcasecmp(own->host_backend, "auto") != 0) {
            return choose_named(plan, all, own->host_backend, &places, kDLCPU, &choice->host, error);
        }
        choice->host = choose_best(all, plan->size, &places, kDLCPU);
    }
    return TUTTI_OK;
}
