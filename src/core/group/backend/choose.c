/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choosing engines from the records of all ranks. Every rank has read the same records, so every rank decides the same.
 * Some backends are probed only when the result can decide something, since their probe opens files and costs more than
 * the whole start on one host. A rank that needs the result of such a probe stops, and all others stop at the same
 * place. Then they probe, exchange the results, and choose again.
 */
#include "core/group/backend/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "core/group/backend/registry.h"
#include "core/group/records/resolve.h"
#include "core/membership/same_host.h"

#define REASON 400 /* bytes of why a rank is not on a host */

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

/* Some of the ranks of a group. `ranks` NULL: the first `count`. */
struct members {
    const struct tti_hello *all;
    const int32_t *ranks;
    int32_t count;
};

static int32_t rank_at(const struct members *m, int32_t i)
{
    return m->ranks ? m->ranks[i] : i;
}

/* Whether all of them can use it; else *without is the first that cannot. If that depends on a rank that has not probed
 * the backend, *unprobed becomes true, and the result is not valid. */
static bool can_use(const struct members *m, const tutti_backend *b, int32_t *without, bool *unprobed)
{
    bool open = false;
    for (int32_t i = 0; i < m->count; i++) {
        const struct tti_hello *h = &m->all[rank_at(m, i)];
        const bool asked = !has_name(h->unprobed, b->name);
        open = open || !asked;
        if (asked && !has_name(h->available, b->name)) {
            *without = rank_at(m, i);
            return false;
        }
    }
    *unprobed = *unprobed || open;
    return !open;
}

/* Where the ranks are, and how many. */
struct places {
    int32_t count;
    bool one_process;
    bool one_host;
    bool own_devices; /* no two ranks share a device */
};

static struct places places_of(const struct tti_hello *all, int size)
{
    struct places p = {.count = size, .one_process = true, .one_host = true, .own_devices = true};
    for (int r = 0; r < size; r++) {
        p.one_host = p.one_host && all[r].host == all[0].host;
        p.one_process = p.one_process && p.one_host && all[r].process.instance == all[0].process.instance;
        for (int q = 0; q < r && p.own_devices; q++) {
            p.own_devices = memcmp(all[r].uuid, all[q].uuid, sizeof(all[r].uuid)) != 0;
        }
    }
    return p;
}

/* The engine that the ranks have named, or why it cannot be used. Every rank has probed it, since it is named. */
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
    const struct members members = {.all = all, .count = plan->size};
    bool unprobed = false;
    int32_t r = -1;
    if (tti_resolve_needs_device(*backend) && !(has & tti_resolve_capability(device))) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s works on %s memory only, but the group's device is %s: leave the device to "
                             "auto, or set %s.host_staging=yes to have host tensors copied there and back",
                             name, has & TUTTI_CAP_CUDA ? "CUDA" : "ROCm", tti_device_of(device)->name, name);
    }
    if (!can_use(&members, *backend, &r, &unprobed) && r >= 0) {
        tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s is not available on rank %d%s%s", name, r,
                      all[r].message[0] ? ": " : "", all[r].message);
        if (error) {
            snprintf(error->backend, sizeof(error->backend), "%s", name);
        }
        return TUTTI_NOT_AVAILABLE;
    }
    if ((has & TUTTI_CAP_ONE_HOST) && !places->one_host) {
        char why[REASON];
        int32_t other = 0;
        while (all[other].host == all[0].host) {
            other++;
        }
        tti_same_host_reason(all, 0, other, why, sizeof(why));
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s needs all ranks on one host, but they are on several: %s", name, why);
    }
    if ((has & TUTTI_CAP_ONE_PROCESS) && !places->one_process) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "backend %s joins threads of one process, but the ranks are processes; use shm", name);
    }
    return TUTTI_OK;
}

/* ---- engines for some of the ranks ------------------------------------------------------------------------------ */

static struct places places_among(const struct members *m, bool real)
{
    struct places p = {.count = m->count, .one_process = true, .one_host = true};
    const struct tti_hello *first = &m->all[rank_at(m, 0)];
    for (int32_t i = 0; i < m->count; i++) {
        const struct tti_hello *h = &m->all[rank_at(m, i)];
        p.one_host = p.one_host && (real ? h->machine == first->machine : h->host == first->host);
        p.one_process = p.one_process && h->machine == first->machine && h->process.instance == first->process.instance;
    }
    return p;
}

static bool fits_places(const tutti_backend *b, const struct places *places)
{
    return (!(b->capabilities & TUTTI_CAP_ONE_PROCESS) || places->one_process) &&
           (!(b->capabilities & TUTTI_CAP_ONE_HOST) || places->one_host) &&
           tti_registry_check_ranks(b, places->count, NULL) == TUTTI_OK;
}

static const tutti_backend *best_part(const struct members *m, bool *unprobed)
{
    const struct places places = places_among(m, false);
    for (size_t i = 0; tutti_backend_at(i) && !*unprobed; i++) {
        const tutti_backend *b = tutti_backend_at(i);
        int32_t without = -1;
        if (b->priority >= 0 && !(b->capabilities & (TUTTI_CAP_COMPOSED | TUTTI_CAP_NO_HOST)) &&
            fits_places(b, &places) && can_use(m, b, &without, unprobed)) {
            return b;
        }
    }
    return NULL;
}

static tutti_status named_part(const struct members *m, const char *wish, const tutti_backend **backend, bool *unprobed,
                               tutti_error *error)
{
    const struct places places = places_among(m, true);
    int32_t without = -1;
    tutti_status status = tti_registry_find(wish, backend, error);
    if (status != TUTTI_OK || (status = tti_registry_check_ranks(*backend, m->count, error)) != TUTTI_OK) {
        return status;
    }
    if ((*backend)->capabilities & (TUTTI_CAP_COMPOSED | TUTTI_CAP_NO_HOST)) {
        return tti_error_set(
            error, TUTTI_UNSUPPORTED,
            "backend %s cannot be a part of another one: it %s; `tutti info` lists the others", (*backend)->name,
            (*backend)->capabilities & TUTTI_CAP_NO_HOST ? "takes no host memory" : "is made of others");
    }
    if (!can_use(m, *backend, &without, unprobed) && without >= 0) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s cannot be used on rank %d (`tutti info` says why)",
                             (*backend)->name, without);
    }
    if (!fits_places(*backend, &places)) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s needs ranks %s, but ranks %d to %d are not",
                             (*backend)->name, places.one_host ? "that are threads of one process" : "on one host",
                             rank_at(m, 0), rank_at(m, m->count - 1));
    }
    return TUTTI_OK;
}

/* The result is valid only if *unprobed is still false. */
static tutti_status choose_part(const struct members *m, const char *wish, const tutti_backend **backend,
                                bool *unprobed, tutti_error *error)
{
    if (strcasecmp(wish, "auto") != 0) {
        return named_part(m, wish, backend, unprobed, error);
    }
    *backend = best_part(m, unprobed);
    if (*backend) {
        return TUTTI_OK;
    }
    const bool one_host = places_among(m, false).one_host;
    return tti_error_set(
        error, TUTTI_NOT_AVAILABLE, "no backend can join ranks %s (%d to %d): %s",
        one_host ? "of one host" : "of several hosts", rank_at(m, 0), rank_at(m, m->count - 1),
        one_host ? "`tutti info` says what each one needs"
                 : "mpi needs to be started by mpirun or another launcher; `tutti info` says what others need");
}

tutti_status tti_choose_part(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                             const tutti_backend **backend, tutti_error *error)
{
    const struct members members = {.all = all, .ranks = ranks, .count = count};
    bool unprobed = false;
    const tutti_status status = choose_part(&members, wish, backend, &unprobed, error);
    return !unprobed ? status
                     : tti_error_set(error, TUTTI_INTERNAL, "no rank has probed whether backend %s can be used", wish);
}

/* Whether a composed engine finds its parts: one for the ranks of each host, and one for all ranks (on one host, if all
 * are on one). It also needs a host with several ranks, or a named part, since otherwise the one part for all would do.
 * `ranks` has room for all of them. */
static bool has_parts(const struct tti_hello *all, int size, bool one_host, int32_t *ranks, bool *unprobed)
{
    const tutti_backend *part;
    const char *outer = one_host ? all[0].inner : all[0].outer;
    struct members members = {.all = all, .count = size};
    bool found = choose_part(&members, outer, &part, unprobed, NULL) == TUTTI_OK;
    bool wanted = strcasecmp(outer, "auto") != 0;
    members.ranks = ranks;
    for (int r = 0; r < size && found; r++) {
        members.count = 0;
        for (int q = 0; q < size; q++) {
            if (all[q].host == all[r].host) {
                ranks[members.count++] = q;
            }
        }
        if (ranks[0] == r) { /* once for each host */
            found = choose_part(&members, all[0].inner, &part, unprobed, NULL) == TUTTI_OK;
            wanted = wanted || members.count > 1;
        }
    }
    return found && wanted;
}

/* ---- the group's ------------------------------------------------------------------------------------------------ */

/* Threads of one process need no memory files, so a backend for threads replaces one for processes, whatever their
 * priorities (docs/decisions/0003). */
static bool goes_before(uint32_t capabilities, const tutti_backend *best)
{
    return (capabilities & TUTTI_CAP_ONE_PROCESS) &&
           !(best->capabilities & (TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_NO_HOST));
}

/* The best engine that fits; NULL if none does, or *unprobed. */
static const tutti_backend *choose_best(const struct tti_hello *all, int size, const struct places *places,
                                        DLDeviceType device, int32_t *ranks, bool *unprobed)
{
    const struct members members = {.all = all, .count = size};
    const tutti_backend *best = NULL;
    for (size_t i = 0; tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        const uint32_t has = b->capabilities;
        const bool composed = (has & TUTTI_CAP_COMPOSED) != 0;
        int32_t without = -1;
        bool fits = b->priority >= 0 && fits_places(b, places) && (!best || goes_before(has, best));
        if (tti_resolve_needs_device(b)) {
            fits = fits && (has & tti_resolve_capability(device)) && places->own_devices;
        }
        if (!fits || (composed && places->one_host)) {
            continue;
        }
        if (can_use(&members, b, &without, unprobed) && (!composed || has_parts(all, size, false, ranks, unprobed)) &&
            !*unprobed) {
            best = b;
        }
        if (*unprobed) {
            return NULL;
        }
    }
    return best;
}

/* The engine for one of the two settings: for the device, or for host memory. */
static tutti_status choose(const struct tti_group_plan *plan, const struct tti_hello *all, const char *wish,
                           DLDeviceType device, const tutti_backend **backend, bool *unprobed, tutti_error *error)
{
    const struct places places = places_of(all, plan->size);
    int32_t *ranks = calloc((size_t)plan->size, sizeof(*ranks));
    tutti_status status = TUTTI_OK;
    if (!ranks) { /* choosing another engine than the other ranks would be wrong */
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to choose a backend for %d ranks", plan->size);
    }
    if (strcasecmp(wish, "auto") == 0) {
        *backend = choose_best(all, plan->size, &places, device, ranks, unprobed);
    } else {
        status = choose_named(plan, all, wish, &places, device, backend, error);
        if (status == TUTTI_OK && ((*backend)->capabilities & TUTTI_CAP_COMPOSED)) {
            has_parts(all, plan->size, places.one_host, ranks, unprobed); /* its open reports a missing part */
        }
    }
    free(ranks);
    return status;
}

tutti_status tti_choose(const struct tti_group_plan *plan, const struct tti_hello *all, struct tti_choice *choice,
                        tutti_error *error)
{
    const struct tti_hello *own = &all[plan->rank];
    *choice = (struct tti_choice){0};
    tutti_status status =
        choose(plan, all, own->backend, plan->engine_device.device_type, &choice->backend, &choice->unprobed, error);
    if (status == TUTTI_OK && !choice->backend && !choice->unprobed) {
        const bool one_host = places_of(all, plan->size).one_host;
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE,
                               "no backend fits these %d ranks (%s); `tutti info` says what each one needs", plan->size,
                               one_host ? "one host" : "several hosts");
    }
    if (status != TUTTI_OK || choice->unprobed) {
        return status;
    }
    choice->host = choice->backend;
    if (tti_resolve_needs_device(choice->backend)) {
        return choose(plan, all, own->host_backend, kDLCPU, &choice->host, &choice->unprobed, error);
    }
    return TUTTI_OK;
}

bool tti_choose_shm_unused(const struct tti_hello *all, int32_t size, const tutti_backend *chosen, char *text,
                           size_t capacity)
{
    const bool by_itself = strcasecmp(all[0].backend, "auto") == 0 || (chosen->capabilities & TUTTI_CAP_COMPOSED);
    int32_t a = 0;
    int32_t b = 0;
    if (!by_itself || (chosen->capabilities & (TUTTI_CAP_ONE_HOST | TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_NO_HOST))) {
        return false;
    }
    if (tti_same_host_find_parted(all, size, &a, &b)) {
        tti_same_host_reason(all, a, b, text, capacity);
        return true;
    }
    const struct places places = places_of(all, size);
    const tutti_backend *shm = tutti_backend_find("shm");
    const struct members members = {.all = all, .count = size};
    bool unprobed = false;
    tutti_error error;
    if (places.one_host && shm && tti_registry_check_ranks(shm, size, &error) != TUTTI_OK) {
        snprintf(text, capacity, "%s", error.message);
        return true;
    }
    if (!places.one_host || !shm || can_use(&members, shm, &b, &unprobed) || unprobed) {
        return false;
    }
    snprintf(text, capacity, "rank %d cannot use it (`tutti info` there says why)", b);
    return true;
}
