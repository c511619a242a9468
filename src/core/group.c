/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group comes to be. Every member puts a record of what it is and wants into the store, reads everybody's, and
 * decides from the same records by the same rules, so all decide alike. Then each opens the backend and says how that
 * went; the group exists only if it went well everywhere.
 */
#include "core/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/memory.h"
#include "core/registry.h"

#define HELLO_MAGIC       0x74757475u
#define FAREWELL_MS       5000 /* for ranks that died between their hello and the end, or are on their way */
#define SIZE_MAX_EXPECTED 4096 /* larger claims are not waited for */

struct tti_handle_table tti_groups = {.kind = TTI_KIND_GROUP, .name = "groups"};

/* One rank's record. Fixed layout: it travels between processes. */
struct hello {
    uint32_t magic;
    uint32_t version;
    int32_t size;
    int32_t lanes;
    int64_t pid;
    uint64_t host;
    char backend[40];
    char window[24];
    char zero_copy[8];
    char heap[8];
    char available[400]; /* names of the backends that can be used here, each followed by a blank */
};

/* How opening went on one rank. */
struct outcome {
    int32_t status;
    char backend[16];
    char message[300];
};

/* The host's identity: boot id and the namespaces that decide whether memory and sockets can be shared. */
static uint64_t host_identity(void)
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *c = text; *c; c++) {
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    const char *spaces[] = {"/proc/self/ns/net", "/proc/self/ns/pid"};
    for (size_t i = 0; i < 2; i++) {
        struct stat st;
        uint64_t v = stat(spaces[i], &st) == 0 ? (uint64_t)st.st_ino : 0;
        h = (h ^ v) * UINT64_C(0x100000001b3);
    }
    return h;
}

static void fill_hello(const struct tti_group_plan *plan, const char *backend, struct hello *h)
{
    memset(h, 0, sizeof(*h));
    h->magic = HELLO_MAGIC;
    h->version = TUTTI_BACKEND_ABI;
    h->size = plan->size;
    h->lanes = (int32_t)tti_setting_number(&plan->settings, TTI_SET_LANES);
    h->pid = getpid();
    h->host = host_identity();
    snprintf(h->backend, sizeof(h->backend), "%s", backend);
    snprintf(h->window, sizeof(h->window), "%.20s", tti_setting(&plan->settings, TTI_SET_ENGINE_WINDOW));
    snprintf(h->zero_copy, sizeof(h->zero_copy), "%.7s", tti_setting(&plan->settings, TTI_SET_ENGINE_ZERO_COPY));
    snprintf(h->heap, sizeof(h->heap), "%.7s", tti_setting(&plan->settings, TTI_SET_ENGINE_HEAP));
    for (size_t i = 0; tutti_backend_at(i); i++) {
        char why[200];
        size_t used = strlen(h->available);
        if (tutti_backend_available(tutti_backend_at(i), why, sizeof(why))) {
            snprintf(h->available + used, sizeof(h->available) - used, "%s ", tutti_backend_at(i)->name);
        }
    }
}

/* After a time-out: everybody who has not put `stem`/rank yet, in one sentence. */
static tutti_status name_missing(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                                 int64_t waited_ms, tutti_error *error)
{
    char names[200] = "";
    int first = -1;
    for (int r = 0; r < plan->size; r++) {
        char key[40];
        char value[sizeof(struct hello)];
        size_t length;
        snprintf(key, sizeof(key), "%s/%d", stem, r);
        if (rv->get(rv->self, key, value, sizeof(value), &length, 0, NULL) == TUTTI_TIMEOUT) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof(names) - used, "%s%d", first < 0 ? "" : ", ", r);
            first = first < 0 ? r : first;
        }
    }
    tti_error_set(error, TUTTI_TIMEOUT, "%s of %d ranks waited %lld ms; missing: rank %s",
                  tutti_operation_name(plan->operation), plan->size, (long long)waited_ms, names);
    if (error) {
        error->suspect = first;
    }
    return TUTTI_TIMEOUT;
}

/* Looks at one rank's record as soon as it is there: ranks that do not fit should not wait for those that cannot come. */
typedef tutti_status (*look_function)(const struct tti_group_plan *plan, void *record, int rank, tutti_error *error);

/* Reads record `stem`/rank of every rank into an array. */
static tutti_status collect(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                            void *records, size_t bytes, look_function look, tutti_error *error)
{
    int64_t timeout_ms = tti_setting_number(&plan->settings, TTI_SET_TIMEOUT_MS);
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    for (int r = 0; r < plan->size; r++) {
        char key[40];
        size_t length = 0;
        snprintf(key, sizeof(key), "%s/%d", stem, r);
        tutti_status status = rv->get(rv->self, key, (char *)records + (size_t)r * bytes, bytes, &length,
                                      tti_remaining_ms(deadline), error);
        if (status == TUTTI_TIMEOUT) {
            return name_missing(plan, rv, stem, timeout_ms, error);
        }
        if (status != TUTTI_OK) {
            return status;
        }
        if (length != bytes) {
            return tti_error_set(error, TUTTI_VERSION,
                                 "rank %d uses another version of Tutti: run the same on all ranks", r);
        }
        if ((status = look(plan, (char *)records + (size_t)r * bytes, r, error)) != TUTTI_OK) {
            if (error) {
                error->suspect = r;
            }
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status look_at_hello(const struct tti_group_plan *plan, void *record, int r, tutti_error *error)
{
    struct hello *h = record;
    char wish[40];
    int32_t lanes = (int32_t)tti_setting_number(&plan->settings, TTI_SET_LANES);
    const char *window = tti_setting(&plan->settings, TTI_SET_ENGINE_WINDOW);
    h->backend[sizeof(h->backend) - 1] = '\0';
    h->window[sizeof(h->window) - 1] = '\0';
    h->zero_copy[sizeof(h->zero_copy) - 1] = '\0';
    h->heap[sizeof(h->heap) - 1] = '\0';
    h->available[sizeof(h->available) - 1] = '\0';
    tutti_status status = tti_registry_choice(tti_setting(&plan->settings, TTI_SET_BACKEND), wish, sizeof(wish), error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (h->magic != HELLO_MAGIC || h->version != TUTTI_BACKEND_ABI) {
        return tti_error_set(error, TUTTI_VERSION, "rank %d uses another version of Tutti: run the same on all ranks",
                             r);
    }
    if (h->size != plan->size || h->lanes != lanes) {
        return tti_error_set(error, TUTTI_MISMATCH,
                             "rank %d expects %d ranks and %d lanes, but rank %d expects %d ranks and %d lanes", r,
                             h->size, h->lanes, plan->rank, plan->size, lanes);
    }
    if (strcasecmp(h->backend, wish) != 0) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d asks for backend %s, but rank %d for %s", r, h->backend,
                             plan->rank, wish);
    }
    if (strcmp(h->window, window) != 0) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d has engine.window %s, but rank %d %s", r, h->window,
                             plan->rank, window);
    }
    if (strcmp(h->zero_copy, tti_setting(&plan->settings, TTI_SET_ENGINE_ZERO_COPY)) != 0) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d has engine.zero_copy %s, but rank %d has not", r,
                             h->zero_copy, plan->rank);
    }
    if (strcmp(h->heap, tti_setting(&plan->settings, TTI_SET_ENGINE_HEAP)) != 0) {
        return tti_error_set(error, TUTTI_MISMATCH, "rank %d has engine.heap %s, but rank %d has not", r, h->heap,
                             plan->rank);
    }
    return TUTTI_OK;
}

static tutti_status look_at_outcome(const struct tti_group_plan *plan, void *record, int r, tutti_error *error)
{
    struct outcome *o = record;
    (void)plan;
    if (o->status == TUTTI_OK) {
        return TUTTI_OK;
    }
    o->message[sizeof(o->message) - 1] = '\0';
    return tti_error_set(error, o->status, "rank %d could not open backend %.15s: %s", r, o->backend, o->message);
}

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

/*
 * The backend of a group, from the records of all ranks. "auto": the highest priority among those that can be used on all
 * ranks and fit where the ranks are. One that is made for threads of one process comes first when that is what they are.
 */
static tutti_status resolve(const struct tti_group_plan *plan, const struct hello *all, const tutti_backend **backend,
                            tutti_error *error)
{
    bool one_process = true;
    bool one_host = true;
    for (int r = 1; r < plan->size; r++) {
        one_host = one_host && all[r].host == all[0].host;
        one_process = one_process && one_host && all[r].pid == all[0].pid;
    }
    const char *wish = all[plan->rank].backend;
    if (strcasecmp(wish, "auto") != 0) {
        tutti_status status = tti_registry_find(wish, backend, error);
        for (int r = 0; r < plan->size && status == TUTTI_OK; r++) {
            if (!has_name(all[r].available, (*backend)->name)) {
                char why[200] = "";
                tutti_backend_available(*backend, why, sizeof(why));
                status = tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s cannot be used on rank %d%s%s",
                                       (*backend)->name, r, r == plan->rank ? ": " : "", r == plan->rank ? why : "");
            }
        }
        if (status == TUTTI_OK && ((*backend)->capabilities & TUTTI_CAP_ONE_HOST) && !one_host) {
            status = tti_error_set(error, TUTTI_NOT_AVAILABLE,
                                   "backend %s needs all ranks on one host, but they are on several", (*backend)->name);
        }
        if (status == TUTTI_OK && ((*backend)->capabilities & TUTTI_CAP_ONE_PROCESS) && !one_process) {
            status = tti_error_set(error, TUTTI_NOT_AVAILABLE,
                                   "backend %s joins threads of one process, but the ranks are processes; use shm",
                                   (*backend)->name);
        }
        return status;
    }
    const tutti_backend *best = NULL;
    for (size_t i = 0; tutti_backend_at(i); i++) {
        const tutti_backend *b = tutti_backend_at(i);
        bool threads_only = (b->capabilities & TUTTI_CAP_ONE_PROCESS) != 0;
        bool fits =
            b->priority >= 0 && (!threads_only || one_process) && (!(b->capabilities & TUTTI_CAP_ONE_HOST) || one_host);
        for (int r = 0; r < plan->size && fits; r++) {
            fits = has_name(all[r].available, b->name);
        }
        if (fits && (!best || (threads_only && !(best->capabilities & TUTTI_CAP_ONE_PROCESS)))) {
            best = b;
        }
    }
    if (!best) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "no backend fits these %d ranks (%s); `tutti info` says what each one needs", plan->size,
                             one_host ? "one host" : "several hosts");
    }
    *backend = best;
    return TUTTI_OK;
}

static tutti_status open_backend(struct tti_group *g, const struct tti_group_plan *plan, tutti_error *error)
{
    tutti_status status = tti_registry_start(g->backend, error);
    tutti_open_info info = {.size = sizeof(info),
                            .rank = g->rank,
                            .world_size = g->size,
                            .lanes = g->lanes,
                            .timeout_ms = g->timeout_ms,
                            .device = g->device,
                            .rendezvous = &g->rendezvous.table,
                            .native_communicator = plan->native_communicator,
                            .global_ranks = g->global_ranks,
                            .setting = tti_setting_by_key,
                            .settings = &g->settings,
                            .parent_state =
                                plan->parent && plan->parent->backend == g->backend ? plan->parent->state : NULL};
    return status != TUTTI_OK ? status : g->backend->ops->open(&info, &g->state, error);
}

/* Tells the others how opening went and hears how it went for them: one failure fails all. */
static tutti_status confirm(struct tti_group *g, const struct tti_group_plan *plan, tutti_status mine,
                            tutti_error *error)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    struct outcome own = {.status = mine};
    snprintf(own.backend, sizeof(own.backend), "%s", g->backend->name);
    if (mine != TUTTI_OK && error) {
        snprintf(own.message, sizeof(own.message), "%.*s", (int)sizeof(own.message) - 1, error->message);
    }
    char key[40];
    snprintf(key, sizeof(key), "ready/%d", g->rank);
    tutti_error second;
    tutti_status status = rv->set(rv->self, key, &own, sizeof(own), &second);
    if (mine != TUTTI_OK) {
        return mine;
    }
    if (status != TUTTI_OK && error) {
        *error = second;
    }
    struct outcome *all = calloc((size_t)g->size, sizeof(*all));
    if (!all) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", g->size);
    }
    status = status == TUTTI_OK ? collect(plan, rv, "ready", all, sizeof(*all), look_at_outcome, error) : status;
    free(all);
    return status;
}

/*
 * Says that this rank needs the rendezvous no more for this group (`came`: it was one of the members, of `size`). The process that
 * serves it hears that from everybody before it goes on: it may be about to end, in good order or with an error, and would
 * take the others down in the middle of hearing why. After an error it gives ranks that have not come yet a moment too,
 * unless that is the error.
 */
static void farewell(struct tti_group *g, bool came, int32_t size, tutti_status outcome)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    char key[40];
    char record[sizeof(struct hello)];
    size_t length = 0;
    if (came) {
        snprintf(key, sizeof(key), "seen/%d", g->rank);
        rv->set(rv->self, key, "", 1, NULL);
    }
    if (!tti_store_served_here(g->rendezvous.store)) {
        return;
    }
    int64_t patience = g->timeout_ms >= 0 && g->timeout_ms < FAREWELL_MS ? g->timeout_ms : FAREWELL_MS;
    int64_t deadline = tti_deadline_ns(tti_now_ns(), patience);
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof(key), "hello/%d", r);
        bool expected =
            outcome != TUTTI_TIMEOUT || rv->get(rv->self, key, record, sizeof(record), &length, 0, NULL) == TUTTI_OK;
        if (expected && (r != g->rank || !came)) {
            snprintf(key, sizeof(key), "seen/%d", r);
            rv->get(rv->self, key, record, sizeof(record), &length, tti_remaining_ms(deadline), NULL);
        }
    }
}

static tutti_status meet(struct tti_group *g, const struct tti_group_plan *plan, tutti_error *error)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    char wish[40];
    tutti_status status = tti_registry_choice(tti_setting(&plan->settings, TTI_SET_BACKEND), wish, sizeof(wish), error);
    struct hello *all = status == TUTTI_OK ? calloc((size_t)plan->size, sizeof(*all)) : NULL;
    if (!all) {
        return status != TUTTI_OK ? status
                                  : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d ranks", plan->size);
    }
    fill_hello(plan, wish, &all[plan->rank]);
    if (strcasecmp(wish, "null") == 0) { /* nobody else needs to exist */
        free(all);
        status = tti_registry_find(wish, &g->backend, error);
        return status == TUTTI_OK ? open_backend(g, plan, error) : status;
    }
    char key[40];
    snprintf(key, sizeof(key), "hello/%d", plan->rank);
    status = rv->set(rv->self, key, &all[plan->rank], sizeof(all[plan->rank]), error);
    if (status == TUTTI_BUSY) {
        status = tti_error_set(error, TUTTI_RANK_TAKEN,
                               "another process has joined this job as rank %d; check RANK and the "
                               "like, and that no other job uses the same rendezvous",
                               plan->rank);
    }
    if (status != TUTTI_OK) {
        free(all);
        farewell(g, false, plan->size, status);
        return status;
    }
    if ((status = collect(plan, rv, "hello", all, sizeof(*all), look_at_hello, error)) == TUTTI_OK) {
        status = resolve(plan, all, &g->backend, error);
    }
    int32_t size = plan->size; /* the largest that anybody expects: when they differ, all of them are here to hear it */
    for (int r = 0; r < plan->size; r++) {
        size = all[r].size > size && all[r].size <= SIZE_MAX_EXPECTED ? all[r].size : size;
    }
    free(all);
    if (status == TUTTI_OK) { /* else every rank has seen the same records and fails alike */
        tutti_status opened = open_backend(g, plan, error);
        status = confirm(g, plan, opened, error);
        if (status != TUTTI_OK && opened == TUTTI_OK) {
            g->backend->ops->close(g->state);
        }
    }
    farewell(g, true, size, status);
    return status;
}

static tutti_status prepare(const struct tti_group_plan *plan, struct tti_group **group, tutti_error *error)
{
    if (strcmp(tti_setting(&plan->settings, TTI_SET_DEVICE), "cpu") != 0) {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "no backend of this build works on device \"%s\"; use cpu",
                             tti_setting(&plan->settings, TTI_SET_DEVICE));
    }
    struct tti_group *g = calloc(1, sizeof(*g));
    struct tti_pool *pool = plan->parent ? tti_pool_retain(plan->parent->pool) : tti_pool_create();
    if (!g || !pool || !(g->global_ranks = calloc((size_t)plan->size, sizeof(*g->global_ranks)))) {
        tti_pool_release(pool);
        free(g);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", plan->size);
    }
    g->rank = plan->rank;
    g->size = plan->size;
    g->settings = plan->settings;
    g->lanes = (int32_t)tti_setting_number(&plan->settings, TTI_SET_LANES);
    g->timeout_ms = tti_setting_number(&plan->settings, TTI_SET_TIMEOUT_MS);
    g->device = (DLDevice){kDLCPU, 0};
    for (int r = 0; r < plan->size; r++) {
        g->global_ranks[r] = plan->global_ranks ? plan->global_ranks[r] : r;
    }
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_lane_init(&g->lane_queues[i], g, i);
    }
    tti_messages_init(&g->messages, g);
    pthread_mutex_init(&g->callback_lock, NULL);
    tti_events_list_init(&g->events);
    pthread_mutex_init(&g->names_lock, NULL);
    tti_rendezvous_open(&g->rendezvous, plan->store, plan->name);
    g->pool = pool;
    *group = g;
    return TUTTI_OK;
}

uint32_t tti_group_capabilities(const struct tti_group *g)
{
    return g->backend->ops->capabilities ? g->backend->ops->capabilities(g->state) : g->backend->capabilities;
}

void tti_group_quiesce(struct tti_group *g)
{
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_lane_close(&g->lane_queues[i]);
    }
    tti_messages_close(&g->messages);
}

void tti_group_free(struct tti_group *g)
{
    while (g->lists) {
        struct tti_list_count *next = g->lists->next;
        free(g->lists);
        g->lists = next;
    }
    tti_pool_release(g->pool);
    tti_rendezvous_close(&g->rendezvous);
    tti_events_list_free(&g->events);
    pthread_mutex_destroy(&g->callback_lock);
    pthread_mutex_destroy(&g->names_lock);
    free(g->global_ranks);
    free(g);
}

tutti_status tti_group_open(const struct tti_group_plan *plan, tutti_group **group, tutti_error *error)
{
    struct tti_group *g = NULL;
    tutti_status status = prepare(plan, &g, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = meet(g, plan, error);
    if (status == TUTTI_OK && (status = tti_handles_insert(&tti_groups, g, (void **)&g->handle, error)) != TUTTI_OK) {
        g->backend->ops->close(g->state);
    }
    if (status != TUTTI_OK) {
        tti_group_free(g);
        return status;
    }
    *group = g->handle;
    return TUTTI_OK;
}
