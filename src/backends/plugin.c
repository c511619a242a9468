/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plug-in files of Tutti: the search for a file, dlopen with a check of its ABI, and the table of a backend in front of
 * a plug-in. Until the plug-in is open the table has stubs; then it gets the plug-in's functions, so a call costs no
 * more than one of a built-in backend.
 */
#include "backends/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process/fork.h"

#ifndef TTI_LIBRARY_FOLDER
#define TTI_LIBRARY_FOLDER "lib"
#endif

/* The folder of the file with this code: libtutti.so, or the program that the static library is linked into. */
static bool own_folder(char *path, size_t capacity)
{
    static const char here;
    Dl_info info;
    char file[PATH_MAX];
    if (dladdr(&here, &info) == 0 || !info.dli_fname || !realpath(info.dli_fname, file)) {
        ssize_t length = readlink("/proc/self/exe", file, sizeof(file) - 1);
        file[length > 0 ? length : 0] = '\0';
    }
    char *slash = strrchr(file, '/');
    int length = slash ? snprintf(path, capacity, "%.*s", (int)(slash - file), file) : 0;
    return length > 0 && (size_t)length < capacity;
}

static bool is_in_folder(const char *folder, size_t length, const char *name, char *path, size_t capacity,
                         char *searched, size_t searched_capacity)
{
    int n = snprintf(path, capacity, "%.*s/%s", (int)length, folder, name);
    if (length > 0 && n > 0 && (size_t)n < capacity && access(path, R_OK) == 0) {
        return true;
    }
    size_t used = strlen(searched);
    snprintf(searched + used, searched_capacity - used, "%s%.*s", used ? ", " : "", (int)length, folder);
    return false;
}

bool tti_plugin_find(const char *name, char *path, size_t capacity, char *searched, size_t searched_capacity)
{
    static const char *const relative[] = {"tutti/plugins", "lib/tutti/plugins",
                                           "../" TTI_LIBRARY_FOLDER "/tutti/plugins"};
    searched[0] = '\0';
    const char *folders = getenv("TUTTI_PLUGIN_PATH");
    for (const char *folder = folders; folder && *folder;) {
        size_t length = strcspn(folder, ":");
        if (is_in_folder(folder, length, name, path, capacity, searched, searched_capacity)) {
            return true;
        }
        folder += length + (folder[length] == ':');
    }
    char own[PATH_MAX];
    if ((folders && *folders) || !own_folder(own, sizeof(own))) {
        return false;
    }
    for (size_t i = 0; i < sizeof(relative) / sizeof(relative[0]); i++) {
        char folder[PATH_MAX];
        int length = snprintf(folder, sizeof(folder), "%s/%s", own, relative[i]);
        if (length > 0 && (size_t)length < sizeof(folder) &&
            is_in_folder(folder, (size_t)length, name, path, capacity, searched, searched_capacity)) {
            return true;
        }
    }
    return false;
}

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
