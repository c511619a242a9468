/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in front of a plug-in file: dlopen with a check of the file's ABI, and the table of functions. Until the
 * plug-in is open the table has stubs; then it gets the plug-in's functions, so a call costs no more than one of a
 * built-in backend.
 */
#include "backends/plugin_front.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/process/fork.h"

static const tutti_backend *open_file(const char *path, char *why, size_t capacity)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!file) {
        const char *text = dlerror();
        snprintf(why, capacity, "%s", text ? text : path);
        return NULL;
    }
    tutti_backend_entry_function entry;
    *(void **)&entry = dlsym(file, "tutti_backend_entry");
    const tutti_backend *backend = entry ? entry() : NULL;
    if (!backend) {
        snprintf(why, capacity, "%s is no plug-in", path);
        return NULL;
    }
    if (backend->abi != TUTTI_BACKEND_ABI || backend->size != sizeof(tutti_backend) ||
        backend->ops->size != sizeof(tutti_backend_ops)) {
        snprintf(why, capacity, "%s was built for another version of Tutti (ABI %u, this one has %u)", path,
                 backend->abi, TUTTI_BACKEND_ABI);
        return NULL;
    }
    return backend;
}

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;

/* Replaces the stubs by the functions of the plug-in. `available` and `open` stay those of the front: other threads may
 * be about to call them. All other functions are called only after one of these two has returned. */
static void install_ops(tutti_backend_ops *front, const tutti_backend_ops *plugin)
{
    const size_t rest = offsetof(tutti_backend_ops, close);
    front->init = plugin->init;
    front->fini = plugin->fini;
    memcpy((char *)front + rest, (const char *)plugin + rest, sizeof(*front) - rest);
}

const tutti_backend *tti_plugin_get(struct tti_plugin_front *front, char *why, size_t capacity)
{
    char path[PATH_MAX];
    tti_fork_mutex_lock(&lock);
    if (!front->plugin && front->find(path, why, capacity) && (front->plugin = open_file(path, why, capacity))) {
        install_ops(front->ops, front->plugin->ops);
    }
    const tutti_backend *found = front->plugin;
    tti_fork_mutex_unlock(&lock);
    return found;
}

tutti_status tti_plugin_open_group(struct tti_plugin_front *front, const tutti_open_info *info, void **state,
                                   tutti_error *error)
{
    char why[1024] = "";
    const tutti_backend *found = tti_plugin_get(front, why, sizeof(why));
    return found ? found->ops->open(info, state, error)
                 : tti_error_set(error, TUTTI_NOT_AVAILABLE, "backend %s: %s", front->backend, why);
}

const char *tti_plugin_stub_supports(void *state, const tutti_op *op)
{
    (void)state;
    (void)op;
    return NULL;
}

tutti_status tti_plugin_stub_run(void *state, tutti_op *op, tutti_error *error)
{
    (void)state;
    (void)op;
    return tti_error_set(error, TUTTI_INTERNAL, "the plug-in of this backend has not been opened");
}

void tti_plugin_stub_close(void *state)
{
    (void)state;
}
