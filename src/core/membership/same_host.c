/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks can share memory if they can pass descriptors to one another. A unix socket passes descriptors between any two
 * processes that see its name. So neither pids nor names of containers matter:
 *
 * - If the job's rendezvous passes descriptors itself (unix:, memory:), all ranks share memory: each has connected to
 *   it.
 * - Else they need one kernel (its boot id), one user, and either one network namespace, to which abstract sockets
 *   belong (SO_NETNS_COOKIE, or the namespace's inode), or one directory (device and inode) for a socket in the file
 *   system.
 * - For ranks of one PID namespace and one user namespace, that is enough. Others are in containers: /proc may be
 *   hidden, users may be mapped, a security module may refuse connections. They run a trial. The leader, the first rank
 *   of the host, serves a store under a random name. The others connect to it, each side checks the other's user
 *   (SO_PEERCRED), and a descriptor comes back. All ranks exchange the results.
 * - Ranks of several PID namespaces also exchange pidfds, which report the end of a process.
 *
 * Cost: nothing beyond the records, except in containers: one connection for each rank and one more round.
 */
#include "core/membership/same_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host/boot_id.h"
#include "base/process/pidfds.h"
#include "core/group/group_state.h"
#include "core/group/plan.h"
#include "core/group/records/collect.h"
#include "core/group/records/hello.h"
#include "store/fork_safety.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif

#define TRIAL_MS    2000 /* to reach a socket that is there already */
#define SELF_KEY    112  /* bytes of a key with a group's name */
#define MOST_PIDFDS 256  /* larger groups keep no pidfds */

/* ---- where this rank is ------------------------------------------------------------------------------------------ */

/* The inode of a namespace, 0 if it cannot be read. `path` is one of the thread: /proc/self/ns is unreadable once the
 * main thread has ended. */
static uint64_t namespace(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* The cookie needs no /proc, and is never given to another namespace. */
static tutti_status find_network(uint64_t *network, tutti_error *error)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof(cookie);
    const int fd = tti_private_socket(AF_UNIX);
    if (fd < 0) {
        const tutti_status status =
            tti_error_system(error, errno, "the network namespace of this process cannot be read");
        return tti_is_resource_error(status) ? status : tti_error_clear(error);
    }
    const bool known = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0 && cookie != 0;
    tti_private_close(fd);
    *network = known ? tti_hash_number(TTI_HASH_EMPTY, cookie) : namespace("/proc/thread-self/ns/net");
    return TUTTI_OK;
}

static void find_directory(const char *path, uint64_t directory[2])
{
    struct stat st;
    if (path[0] == '/' && strlen(path) <= TTI_STORE_DIRECTORY && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
        faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0) {
        directory[0] = (uint64_t)st.st_dev;
        directory[1] = (uint64_t)st.st_ino;
    }
}

tutti_status tti_site_find(const char *directory, struct tti_site *site, tutti_error *error)
{
    char boot[TTI_BOOT_ID];
    const char *host_id = getenv("TUTTI_HOST_ID");
    memset(site, 0, sizeof(*site));
    site->user = (uint32_t)geteuid();
    site->host_id = host_id && *host_id ? tti_hash_text(TTI_HASH_EMPTY, host_id) : 0;
    tutti_status status = tti_boot_id(boot, error);
    if (status == TUTTI_OK) {
        status = find_network(&site->network, error);
    }
    site->boot = status == TUTTI_OK && boot[0] ? tti_hash_text(TTI_HASH_EMPTY, boot) : 0;
    site->users = namespace("/proc/thread-self/ns/user");
    find_directory(directory, site->directory);
    return status;
}

/* ---- hosts, from the records ------------------------------------------------------------------------------------- */

/* An unknown value does not separate two ranks: the trial decides. */
static bool may_be_same(uint64_t a, uint64_t b)
{
    return a == 0 || b == 0 || a == b;
}

static bool is_same(uint64_t a, uint64_t b)
{
    return a != 0 && a == b;
}

static bool users_fit(const struct tti_site *a, const struct tti_site *b)
{
    return !is_same(a->users, b->users) || a->user == b->user;
}

static bool machines_fit(const struct tti_site *a, const struct tti_site *b)
{
    return may_be_same(a->boot, b->boot) && users_fit(a, b);
}

static bool share_directory(const struct tti_site *a, const struct tti_site *b)
{
    return is_same(a->directory[1], b->directory[1]) && a->directory[0] == b->directory[0];
}

/* leaders[r] is the leader of rank r's host: its lowest rank. First step: ranks of one network namespace. */
static void find_by_network(const struct tti_hello *all, int32_t size, int32_t *leaders)
{
    for (int32_t r = 0; r < size; r++) {
        leaders[r] = r;
        for (int32_t q = 0; q < r && leaders[r] == r; q++) {
            const struct tti_site *a = &all[q].site;
            const struct tti_site *b = &all[r].site;
            if (leaders[q] == q && machines_fit(a, b) && may_be_same(a->network, b->network)) {
                leaders[r] = q;
            }
        }
    }
}

static bool all_share_directory(const struct tti_hello *all, int32_t size, const int32_t *leaders, int32_t leader,
                                const struct tti_site *with)
{
    bool all_do = true;
    for (int32_t r = leader; r < size && all_do; r++) {
        all_do = leaders[r] != leader || share_directory(&all[r].site, with);
    }
    return all_do;
}

/* Second step: network namespaces become one host if all their ranks share one directory. */
static void join_by_directory(struct tti_hello *all, int32_t size, int32_t *leaders)
{
    for (int32_t b = 1; b < size; b++) {
        for (int32_t a = 0; a < b && leaders[b] == b; a++) {
            const struct tti_site *site = &all[a].site;
            if (leaders[a] != a || !machines_fit(site, &all[b].site) ||
                !all_share_directory(all, size, leaders, a, site) ||
                !all_share_directory(all, size, leaders, b, site)) {
                continue;
            }
            for (int32_t r = b; r < size; r++) {
                leaders[r] = leaders[r] == b ? a : leaders[r];
            }
            all[a].site.by_directory = 1;
        }
    }
    for (int32_t r = 0; r < size; r++) {
        all[r].site.by_directory = all[leaders[r]].site.by_directory;
    }
}

static bool share_pid_namespace(const struct tti_hello *a, const struct tti_hello *b)
{
    return is_same(a->process.space, b->process.space);
}

/* Whether the record of `r` proves that it can reach the leader of its host. */
static bool is_proven(const struct tti_hello *leader, const struct tti_hello *r)
{
    return leader->process.instance == r->process.instance ||
           (!r->site.by_directory && is_same(leader->site.boot, r->site.boot) &&
            is_same(leader->site.network, r->site.network) && is_same(leader->site.users, r->site.users) &&
            share_pid_namespace(leader, r));
}

/* Whether a rank of this leader is not proven by its record. */
static bool needs_trial(const struct tti_hello *all, int32_t size, const int32_t *leaders, int32_t leader)
{
    bool trial = false;
    for (int32_t r = leader; r < size && !trial; r++) {
        trial = leaders[r] == leader && !is_proven(&all[leader], &all[r]);
    }
    return trial;
}

/* ---- the trial --------------------------------------------------------------------------------------------------- */

/* Where the leader serves. Fixed layout, as the next one: they are sent between processes. */
struct trial_address {
    uint64_t number[2];
    int32_t status;
    char why[TTI_SITE_REASON];
};

/* The result of a rank. After a resource error the group does not go on without shared memory: it fails on all
 * ranks. */
struct result {
    int32_t status;
    char why[TTI_SITE_REASON];
};

static const char *directory_of(const struct tti_group_plan *plan, const struct tti_hello *own)
{
    return own->site.by_directory ? tti_setting(plan->settings, TTI_SET_SHM_DIRECTORY) : NULL;
}

static void keep_reason(char why[TTI_SITE_REASON], const tutti_error *error)
{
    snprintf(why, TTI_SITE_REASON, "%.*s", TTI_SITE_REASON - 1, error->message);
}

static tutti_status serve_trial(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                                const struct tti_hello *own, struct tti_store **store, tutti_error *error)
{
    struct trial_address address = {.status = TUTTI_OK};
    char url[TTI_STORE_LOCAL_URL];
    char key[40];
    tutti_error why;
    if (getrandom(address.number, sizeof(address.number), 0) != sizeof(address.number)) {
        return tti_error_system(error, errno, "no random name for a socket");
    }
    tti_store_local_url(directory_of(plan, own), "near", address.number, url);
    address.status = tti_store_open(url, true, tti_remaining_ms(plan->watch.deadline_ns), store, &why);
    if (address.status == TUTTI_OK) { /* the descriptor that comes back: any one will do */
        const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        const int fd = null >= 0 ? null : tti_private_socket(AF_UNIX);
        address.status = fd < 0 ? tti_error_system(&why, errno, "no descriptor to hand over")
                                : tti_store_put_fd(*store, "any", fd, plan->size, &why);
        if (fd >= 0) {
            tti_private_close(fd);
        }
    }
    if (address.status != TUTTI_OK) {
        keep_reason(address.why, &why);
    }
    snprintf(key, sizeof(key), "near/%d", plan->rank);
    const tutti_status published = rendezvous->table.set(rendezvous->table.self, key, &address, sizeof(address), error);
    if (published == TUTTI_OK && tti_is_resource_error(address.status)) {
        *error = why;
        return address.status;
    }
    return published;
}

/* Connects to the leader's socket; a failure is a result. */
static void connect_trial(const struct tti_group_plan *plan, const struct tti_hello *own,
                          const struct trial_address *address, struct tti_store **store, struct result *result)
{
    char url[TTI_STORE_LOCAL_URL];
    tutti_error why;
    int fd = -1;
    tti_store_local_url(directory_of(plan, own), "near", address->number, url);
    result->status = tti_store_open_served(url, TRIAL_MS, store, &why);
    if (result->status == TUTTI_OK) {
        result->status = tti_store_get_fd(*store, "any", &fd, TRIAL_MS, &why);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (result->status != TUTTI_OK) {
        keep_reason(result->why, &why);
    }
}

static tutti_status join_trial(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                               const struct tti_hello *own, int32_t leader, struct tti_store **store,
                               struct result *result, tutti_error *error)
{
    struct trial_address address;
    char key[40];
    size_t length = 0;
    snprintf(key, sizeof(key), "near/%d", leader);
    const tutti_status status = rendezvous->table.get(rendezvous->table.self, key, &address, sizeof(address), &length,
                                                      tti_remaining_ms(plan->watch.deadline_ns), error);
    if (status == TUTTI_TIMEOUT && error->suspect < 0) {
        tti_error_set(error, status, "rank %d did not publish the trial socket of its host within %lld ms", leader,
                      (long long)plan->watch.timeout_ms);
        error->suspect = leader;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (length != sizeof(address)) {
        return tti_error_set(error, TUTTI_VERSION, "rank %d uses another version of Tutti: run the same on all ranks",
                             leader);
    }
    if (address.status == TUTTI_OK) {
        connect_trial(plan, own, &address, store, result);
    } else { /* why the leader cannot serve */
        address.why[sizeof(address.why) - 1] = '\0';
        result->status = tti_status_of_peer(address.status);
        memcpy(result->why, address.why, sizeof(result->why));
    }
    return TUTTI_OK;
}

static tutti_status check_result(const struct tti_group_plan *plan, const void *own, void *record, int r,
                                 tutti_error *error)
{
    struct result *result = record;
    (void)plan;
    (void)own;
    result->why[sizeof(result->why) - 1] = '\0';
    return result->status == TUTTI_OK || !tti_is_resource_error(tti_status_of_peer(result->status))
               ? tti_error_clear(error)
               : tti_error_set(error, tti_status_of_peer(result->status), "rank %d cannot take part: %s", r,
                               result->why);
}

/* ---- pidfds ------------------------------------------------------------------------------------------------------ */

static void self_key(char key[SELF_KEY], const char *group, int32_t rank)
{
    snprintf(key, SELF_KEY, "%s/self/%d", group, rank);
}

/* A failure here is ignored: without a pidfd of a rank, the liveness monitor of shm still reports its death at once
 * (engine/failure/liveness_monitor.c). */
static void put_own_pidfd(struct tti_store *store, const char *group, int32_t rank, int32_t readers)
{
    char key[SELF_KEY];
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    self_key(key, group, rank);
    if (fd < 0 || tti_store_put_fd(store, key, fd, readers, NULL) != TUTTI_OK) {
        tti_store_set(store, key, "", 1, NULL); /* a value ends the wait for a descriptor, too */
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Of the ranks of the own host in other PID namespaces. */
static void get_peer_pidfds(const struct tti_group_plan *plan, struct tti_store *store, const char *group,
                            const struct tti_hello *all, const int32_t *leaders, struct tti_kept_pidfds *kept)
{
    const int32_t own = plan->rank;
    if (plan->size > MOST_PIDFDS || !(kept->instances = calloc((size_t)plan->size, sizeof(*kept->instances)))) {
        return;
    }
    for (int32_t r = 0; r < plan->size; r++) {
        const uint64_t instance = all[r].process.instance;
        char key[SELF_KEY];
        int fd = -1;
        if (r == own || leaders[r] != leaders[own] || share_pid_namespace(&all[r], &all[own])) {
            continue;
        }
        self_key(key, group, r);
        if (tti_pidfd_register(instance, -1) ||
            (tti_store_get_fd(store, key, &fd, TRIAL_MS, NULL) == TUTTI_OK && tti_pidfd_register(instance, fd))) {
            kept->instances[kept->count++] = instance;
        }
    }
}

void tti_same_host_withdraw(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                            struct tti_kept_pidfds *kept)
{
    char key[SELF_KEY];
    if (kept->offered) { /* not every rank has taken it: the store would keep the descriptor */
        self_key(key, rendezvous->name, plan->rank);
        tti_store_remove(rendezvous->store, key, NULL);
        kept->offered = false;
    }
}

void tti_same_host_release(struct tti_kept_pidfds *kept)
{
    for (int32_t i = 0; i < kept->count; i++) {
        tti_pidfd_release(kept->instances[i]);
    }
    free(kept->instances);
    *kept = (struct tti_kept_pidfds){0};
}

/* ---- finding hosts ----------------------------------------------------------------------------------------------- */

static tutti_status run_trials(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                               struct tti_hello *all, int32_t *leaders, struct result *results,
                               struct tti_kept_pidfds *kept, tutti_error *error)
{
    const int32_t own = plan->rank;
    struct result *mine = &results[own];
    struct tti_store *store = NULL; /* of the own host */
    char key[40];
    tutti_status status = TUTTI_OK;
    if (leaders[own] == own && needs_trial(all, plan->size, leaders, own)) {
        status = serve_trial(plan, rendezvous, &all[own], &store, error);
    } else if (leaders[own] != own && needs_trial(all, plan->size, leaders, leaders[own])) {
        status = join_trial(plan, rendezvous, &all[own], leaders[own], &store, mine, error);
    }
    if (status == TUTTI_OK && store) {
        put_own_pidfd(store, "", own, plan->size);
    }
    if (status == TUTTI_OK) {
        snprintf(key, sizeof(key), "site/%d", own);
        status = rendezvous->table.set(rendezvous->table.self, key, mine, sizeof(*mine), error);
    }
    if (status == TUTTI_OK) {
        status = tti_collect_records(plan, rendezvous, "site", results, sizeof(*results), check_result, error);
    }
    for (int32_t r = 0; r < plan->size && status == TUTTI_OK; r++) {
        if (results[r].status != TUTTI_OK) {
            leaders[r] = r;
            memcpy(all[r].site.unreachable_reason, results[r].why, sizeof(all[r].site.unreachable_reason));
        }
    }
    if (status == TUTTI_OK && store) {
        get_peer_pidfds(plan, store, "", all, leaders, kept);
    }
    if (store) {
        tti_store_release(store);
    }
    return status;
}

/* Whether the ranks are in several PID namespaces. */
static bool span_pid_namespaces(const struct tti_hello *all, int32_t size)
{
    bool one = true;
    for (int32_t r = 1; r < size && one; r++) {
        one = share_pid_namespace(&all[0], &all[r]) || all[0].process.instance == all[r].process.instance;
    }
    return !one;
}

/* Whether a backend that the ranks ask for depends on the hosts. All ranks ask for the same backends. */
static bool backend_needs_hosts(const struct tti_hello *own)
{
    const char *names[] = {own->backend, own->host_backend};
    bool some = false;
    for (int i = 0; i < 2; i++) {
        const tutti_backend *named = names[i][0] ? tutti_backend_find(names[i]) : NULL;
        some = some || strcasecmp(names[i], "auto") == 0 ||
               (named && (named->capabilities & (TUTTI_CAP_ONE_HOST | TUTTI_CAP_ONE_PROCESS | TUTTI_CAP_COMPOSED)));
    }
    return some;
}

static tutti_status find_leaders(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                                 struct tti_hello *all, int32_t *leaders, struct tti_kept_pidfds *kept,
                                 tutti_error *error)
{
    /* All ranks have connected to one socket, so they are on one host. Exception: ranks that share a socket in the file
     * system may not see each other's abstract sockets. */
    if (rendezvous->table.can_pass_descriptors && strncmp(tti_store_url(rendezvous->store), "socket:", 7) != 0) {
        if (plan->size <= MOST_PIDFDS && span_pid_namespaces(all, plan->size)) {
            kept->offered = true;
            put_own_pidfd(rendezvous->store, rendezvous->name, plan->rank, plan->size);
            get_peer_pidfds(plan, rendezvous->store, rendezvous->name, all, leaders, kept);
        }
        return TUTTI_OK;
    }
    find_by_network(all, plan->size, leaders);
    join_by_directory(all, plan->size, leaders);
    bool trial = false;
    for (int32_t r = 0; r < plan->size; r++) {
        trial = trial || (leaders[r] == r && needs_trial(all, plan->size, leaders, r));
    }
    if (!trial || !backend_needs_hosts(&all[plan->rank])) {
        return TUTTI_OK;
    }
    struct result *results = calloc((size_t)plan->size, sizeof(*results));
    if (!results) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d ranks", plan->size);
    }
    const tutti_status status = run_trials(plan, rendezvous, all, leaders, results, kept, error);
    free(results);
    return status;
}

tutti_status tti_same_host_find(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                                struct tti_hello *all, struct tti_kept_pidfds *kept, tutti_error *error)
{
    int32_t *leaders = calloc((size_t)plan->size, sizeof(*leaders)); /* all zero: rank 0 is the leader of all */
    if (!leaders) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d ranks", plan->size);
    }
    const tutti_status status = find_leaders(plan, rendezvous, all, leaders, kept, error);
    for (int32_t r = 0; r < plan->size && status == TUTTI_OK; r++) {
        all[r].machine = tti_hash_number(TTI_HASH_EMPTY, (uint64_t)leaders[r]);
        all[r].host = tti_hash_number(all[r].machine, all[r].site.host_id);
    }
    free(leaders);
    return status;
}

bool tti_same_host_share_kernel(const struct tti_hello *a, const struct tti_hello *b)
{
    return is_same(a->site.boot, b->site.boot) || is_same(a->machine, b->machine);
}

bool tti_same_host_has_ended(const struct tti_hello *record)
{
    char boot[TTI_BOOT_ID];
    return tti_boot_id(boot, NULL) == TUTTI_OK && is_same(record->site.boot, tti_hash_text(TTI_HASH_EMPTY, boot)) &&
           tti_proc_has_ended(tti_proc_query(&record->process).state);
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

void tti_same_host_reason(const struct tti_hello *all, int32_t a, int32_t b, char *text, size_t capacity)
{
    const struct tti_site *s = &all[a].site;
    const struct tti_site *t = &all[b].site;
    const char *why = t->unreachable_reason[0] ? t->unreachable_reason : s->unreachable_reason;
    if (all[a].machine == all[b].machine) {
        snprintf(text, capacity, "rank %d has another TUTTI_HOST_ID than rank %d", b, a);
    } else if (!may_be_same(s->boot, t->boot)) {
        snprintf(text, capacity, "rank %d is on another machine (%s) than rank %d (%s)", b, all[b].node, a,
                 all[a].node);
    } else if (!users_fit(s, t)) {
        snprintf(text, capacity, "rank %d is on the machine of rank %d, but runs as user %u, and rank %d as user %u", b,
                 a, t->user, a, s->user);
    } else if (why[0]) {
        snprintf(text, capacity, "rank %d %s the machine of rank %d, but they cannot hand memory to one another: %s", b,
                 is_same(s->boot, t->boot) ? "is on" : "may be on", a, why);
    } else {
        snprintf(text, capacity,
                 "rank %d is on the machine of rank %d, but in another network namespace: give both one "
                 "(--network=host, or one pod), or one directory (--ipc=host, or a volume that TUTTI_SHM_DIRECTORY "
                 "names)",
                 b, a);
    }
}

bool tti_same_host_find_parted(const struct tti_hello *all, int32_t size, int32_t *a, int32_t *b)
{
    for (*b = 1; *b < size; ++*b) {
        for (*a = 0; *a < *b; ++*a) {
            const struct tti_site *s = &all[*a].site;
            const struct tti_site *t = &all[*b].site;
            if (is_same(s->boot, t->boot) && s->host_id == t->host_id && all[*a].machine != all[*b].machine) {
                return true;
            }
        }
    }
    return false;
}
