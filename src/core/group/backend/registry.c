/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends are an array in the order of their priorities, under a lock that is held for moments. A second lock is
 * held while a backend starts or stops, since that may take long and call back into this file.
 */
#include "core/group/backend/registry.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "backends/fault/fault.h"
#include "backends/gloo/gloo.h"
#include "backends/hier/hier.h"
#include "backends/local/local.h"
#include "backends/mpi/mpi.h"
#include "backends/nccl/nccl.h"
#include "backends/null/null.h"
#include "backends/shm/shm.h"
#include "base/error.h"
#include "base/process/fork.h"
#include "engine/memory/layout.h"

#define BACKENDS 32

/* In order of priority, highest first; equal ones in order of registration. */
static const tutti_backend *backends[BACKENDS] = {&tti_backend_nccl,  &tti_backend_rccl, &tti_backend_shm,
                                                  &tti_backend_local, &tti_backend_hier, &tti_backend_mpi,
                                                  &tti_backend_gloo,  &tti_backend_null, &tti_backend_fault};
static bool started[BACKENDS];
static size_t count = 9;
static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT; /* over the table, for moments */

/* Held while a backend starts or stops. Taken before `lock`. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* The thread that held the lock is not there in the child of a fork. Its backend is started again at its next use. */
static void reset_start_lock(void)
{
    pthread_mutex_init(&start_lock, NULL);
}

static void protect(void)
{
    pthread_atfork(NULL, NULL, reset_start_lock);
}

static void enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, protect);
    tti_fork_mutex_lock(&lock);
}

static const tutti_backend *find_locked(const char *name)
{
    name = strcasecmp(name, "mock") == 0 ? "local" : name;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(backends[i]->name, name) == 0) {
            return backends[i];
        }
    }
    return NULL;
}

const tutti_backend *tutti_backend_find(const char *name)
{
    if (!name) {
        return NULL;
    }
    enter();
    const tutti_backend *found = find_locked(name);
    tti_fork_mutex_unlock(&lock);
    return found;
}

const tutti_backend *tutti_backend_at(size_t index)
{
    enter();
    const tutti_backend *found = index < count ? backends[index] : NULL;
    tti_fork_mutex_unlock(&lock);
    return found;
}

/* NOT_AVAILABLE, or a resource error if this process cannot open a file now: then a library or device may only seem
 * absent. */
static tutti_status descriptor_error(char *text, size_t capacity)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tutti_error error = {.status = TUTTI_OK};
    if (fd >= 0) {
        close(fd);
    } else {
        tti_error_system(&error, errno, "no file can be opened");
    }
    if (tti_is_resource_error(error.status)) {
        snprintf(text, capacity, "%s", error.message);
        return error.status;
    }
    return TUTTI_NOT_AVAILABLE;
}

tutti_status tti_registry_probe(const tutti_backend *backend, char *why, size_t capacity)
{
    why[0] = '\0';
    const int32_t answer = backend->ops->available(why, capacity);
    if (answer < 0 && tti_is_resource_error(-answer)) {
        return -answer;
    }
    return answer == 0 ? descriptor_error(why, capacity) : TUTTI_OK;
}

int32_t tutti_backend_available(const tutti_backend *backend, char *why, size_t capacity)
{
    char text[200] = "no backend was given";
    const bool yes = backend && tti_registry_probe(backend, text, sizeof(text)) == TUTTI_OK;
    if (why && capacity > 0) {
        snprintf(why, capacity, "%s", text);
    }
    return yes;
}

static bool name_valid(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    for (size_t i = 0; i < length; i++) {
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '_') {
            return false;
        }
    }
    return length > 0 && length < 16 && strcmp(name, "auto") != 0 && strcmp(name, "mock") != 0;
}

tutti_status tutti_backend_register(const tutti_backend *backend, tutti_error *error)
{
    if (!backend) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "backend_register: the backend is NULL");
    }
    /* the ABI first: nothing else of another one can be read */
    bool same = backend->abi == TUTTI_BACKEND_ABI && backend->size == sizeof(tutti_backend);
    if (same && !backend->ops) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "backend_register: the functions of the backend are NULL");
    }
    if (!same || backend->ops->size != sizeof(tutti_backend_ops)) {
        return tti_error_set(error, TUTTI_VERSION,
                             "backend_register: the backend was built for ABI %u, this library has %u: rebuild it",
                             backend->abi, TUTTI_BACKEND_ABI);
    }
    const tutti_backend_ops *o = backend->ops;
    if (!name_valid(backend->name) || !o->available || !o->open || !o->close || !o->supports || !o->run) {
        return tti_error_set(
            error, TUTTI_INVALID_ARGUMENT,
            "backend_register: a backend needs a name of 1 to 15 lower-case letters, digits and _, and "
            "the functions available, open, close, supports and run");
    }
    enter();
    tutti_status status = tti_error_clear(error);
    if (find_locked(backend->name)) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "backend_register: there is a backend \"%s\" already",
                               backend->name);
    } else if (count == BACKENDS) {
        status = tti_error_set(error, TUTTI_NO_RESOURCE, "backend_register: %d backends are known, there is no room",
                               BACKENDS);
    } else {
        size_t at = count;
        while (at > 0 && backends[at - 1]->priority < backend->priority) {
            backends[at] = backends[at - 1];
            started[at] = started[at - 1];
            at--;
        }
        backends[at] = backend;
        started[at] = false;
        count++;
    }
    tti_fork_mutex_unlock(&lock);
    return status;
}

tutti_status tutti_backend_load(const char *path, tutti_error *error)
{
    if (!path || !*path) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "backend_load: no path was given");
    }
    /* NODELETE: its backend stays registered for the life of the process */
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!file) {
        return tti_error_set(error, TUTTI_NOT_FOUND, "backend_load: %s", dlerror());
    }
    tutti_backend_entry_function entry;
    *(void **)&entry = dlsym(file, "tutti_backend_entry");
    if (!entry) {
        tti_error_set(error, TUTTI_BACKEND, "backend_load: %s exports no tutti_backend_entry: it is no plug-in", path);
        dlclose(file);
        return TUTTI_BACKEND;
    }
    return tutti_backend_register(entry(), error);
}

tutti_status tti_registry_find(const char *name, const tutti_backend **backend, tutti_error *error)
{
    *backend = tutti_backend_find(name);
    if (*backend) {
        return TUTTI_OK;
    }
    char known[300] = "";
    for (size_t i = 0; tutti_backend_at(i); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", tutti_backend_at(i)->name);
    }
    return tti_error_set(error, TUTTI_NOT_FOUND, "there is no backend \"%.40s\"; known are: auto, %s", name, known);
}

tutti_status tti_registry_check_ranks(const tutti_backend *backend, int32_t ranks, tutti_error *error)
{
    const bool limited = backend == &tti_backend_shm || backend == &tti_backend_local;
    if (!limited || ranks <= TTI_MAX_RANKS) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_UNSUPPORTED, "backend %s takes up to %d ranks, not %d; mpi and gloo take more",
                         backend->name, TTI_MAX_RANKS, ranks);
}

tutti_status tti_registry_choice(const char *text, const char *device, char *name, size_t capacity, tutti_error *error)
{
    if (!strchr(text, ':')) {
        snprintf(name, capacity, "%s", text);
        return TUTTI_OK;
    }
    static const char *const types[] = {"cpu", "cuda", "rocm"};
    unsigned seen = 0;
    char copy[300];
    snprintf(name, capacity, "auto");
    snprintf(copy, sizeof(copy), "%s", text);
    char *rest = copy;
    for (char *item = strsep(&rest, ","); item; item = strsep(&rest, ",")) {
        const char *type = item;
        const char *choice = strsep(&item, ":") && item ? item : NULL;
        unsigned which = 0;
        while (which < 3 && strcmp(type, types[which]) != 0) {
            which++;
        }
        if (!choice || which == 3) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                 "the backend \"%.60s\" must be a name, or pairs like cpu:shm,cuda:nccl", text);
        }
        const tutti_backend *backend;
        tutti_status status = strcasecmp(choice, "auto") == 0 ? TUTTI_OK : tti_registry_find(choice, &backend, error);
        if (status != TUTTI_OK) {
            return status;
        }
        if (seen & 1u << which) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                 "the backend \"%.60s\" names two for one type of device", text);
        }
        seen |= 1u << which;
        if (strcmp(type, device) == 0) {
            snprintf(name, capacity, "%s", choice);
        }
    }
    return TUTTI_OK;
}

/* Whether a backend has been started; true for one that is not in the table. If `now` is not NULL, stores that. */
static bool was_started(const tutti_backend *backend, const bool *now)
{
    bool before = true;
    enter();
    for (size_t i = 0; i < count; i++) {
        if (backends[i] == backend) {
            before = started[i];
            started[i] = now ? *now : before;
        }
    }
    tti_fork_mutex_unlock(&lock);
    return before;
}

tutti_status tti_registry_start(const tutti_backend *backend, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&start_lock);
    if (!was_started(backend, NULL)) {
        status = backend->ops->init ? backend->ops->init(error) : TUTTI_OK;
        was_started(backend, &(bool){status == TUTTI_OK});
    }
    pthread_mutex_unlock(&start_lock);
    return status;
}

void tti_registry_stop(void)
{
    const tutti_backend *backend;
    pthread_mutex_lock(&start_lock);
    for (size_t i = 0; (backend = tutti_backend_at(i)) != NULL;
         i++) { /* one that is registered meanwhile has not begun */
        if (was_started(backend, &(bool){false}) && backend->ops->fini) {
            backend->ops->fini();
        }
    }
    pthread_mutex_unlock(&start_lock);
}
