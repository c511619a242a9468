/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding and opening the library. The driver is asked for a device first: without one the library cannot be used, and
 * opening it costs two hundred megabytes of address space. It is never closed, since its own threads may run in it.
 */
#include "backends/nccl/library/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process/fork.h"

#define OLDEST 20700

struct candidate {
    struct tti_nccl_library library;
    const char *variable; /* of the environment: names the file */
    const char *soname;
    const char *wheel;      /* below a folder site-packages; NULL: no wheel has it */
    const char *folders[3]; /* of the toolkit; ends with NULL */
    bool searched;
    bool usable;
    char why[400]; /* if searched and not usable */
};

static struct candidate candidates[] = {
    {.library = {.backend = "nccl", .display_name = "NCCL", .device = &tti_device_cuda},
     .variable = "TUTTI_NCCL_LIBRARY",
     .soname = "libnccl.so.2",
     .wheel = "nvidia/nccl/lib/libnccl.so.2",
     .folders = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib"}},
    {.library = {.backend = "rccl", .display_name = "RCCL", .device = &tti_device_rocm},
     .variable = "TUTTI_RCCL_LIBRARY",
     .soname = "librccl.so.1",
     .folders = {"/opt/rocm/lib"}},
};

#define SYMBOL(name, since, result, arguments) {"nccl" #name, since, offsetof(struct tti_nccl_library, name)},
static const struct {
    const char *name;
    int since;
    size_t offset;
} symbols[] = {TTI_NCCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL

static struct tti_fork_mutex lock =
    TTI_FORK_MUTEX_INIT; /* protects the last members of each candidate, and its library */

/* Through 2.8 a version was 2708, from 2.9 on it is 20900. */
static int in_new_form(int version)
{
    return version < 10000 ? version / 1000 * 10000 + version % 1000 : version;
}

void tti_nccl_version_text(int version, char text[16])
{
    const unsigned v = (unsigned)in_new_form(version);
    snprintf(text, 16, "%u.%u.%u", v / 10000 % 1000, v / 100 % 100, v % 100);
}

/* Opens one file, by a name for dlopen. The loader's error goes into `why`. */
static void *open_file(struct candidate *candidate, const char *name)
{
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    candidate->library.loaded = file != NULL;
    if (file || (file = dlopen(name, RTLD_NOW | RTLD_LOCAL))) {
        return file;
    }
    const char *text = dlerror();
    const size_t length = strlen(name);
    if (text && strncmp(text, name, length) == 0 && strncmp(text + length, ": ", 2) == 0) {
        text += length + 2; /* the sentence has the name already */
    }
    snprintf(candidate->why, sizeof(candidate->why), "%s cannot be opened: %s; %s may name %s's file", name,
             text ? text : "the loader gives no reason", candidate->variable, candidate->library.display_name);
    return NULL;
}

/* Opens the file if it exists. */
static void *open_path(struct candidate *candidate, const char *path)
{
    return access(path, F_OK) == 0 ? open_file(candidate, path) : NULL;
}

static void *open_below(struct candidate *candidate, const char *prefix)
{
    char pattern[PATH_MAX + 96];
    glob_t found;
    void *file = NULL;
    snprintf(pattern, sizeof(pattern), "%s/lib/python3*/{site,dist}-packages/%s", prefix, candidate->wheel);
    if (glob(pattern, GLOB_BRACE, NULL, &found) == 0) {
        for (size_t i = 0; !file && i < found.gl_pathc; i++) {
            file = open_path(candidate, found.gl_pathv[i]);
        }
        globfree(&found);
    }
    return file;
}

/* The wheel of the running interpreter: of its virtual environment, else of its installation. */
static void *open_wheel(struct candidate *candidate)
{
    const char *environment = getenv("VIRTUAL_ENV");
    void *file = environment && *environment ? open_below(candidate, environment) : NULL;
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (file || length <= 0) {
        return file;
    }
    program[length] = '\0';
    for (int i = 0; i < 2; i++) { /* PREFIX/bin/python3 */
        char *slash = strrchr(program, '/');
        if (!slash) {
            return NULL;
        }
        *slash = '\0';
    }
    return open_below(candidate, program);
}

static void *open_library(struct candidate *candidate)
{
    const char *named = getenv(candidate->variable);
    if (named && *named) {
        return open_file(candidate, named);
    }
    void *file = open_file(candidate, candidate->soname);
    if (!file && candidate->wheel) {
        file = open_wheel(candidate);
    }
    for (const char *const *folder = candidate->folders; !file && *folder; folder++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", *folder, candidate->soname);
        file = open_path(candidate, path);
    }
    return file;
}

/* Whether the file is the library, and new enough; fills the table. */
static bool check_library(struct candidate *candidate, void *file)
{
    struct tti_nccl_library *library = &candidate->library;
    struct link_map *map = NULL;
    const bool known = dlinfo(file, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name;
    snprintf(library->path, sizeof(library->path), "%s", known ? map->l_name : candidate->soname);
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(file, symbols[i].name);
        memcpy((char *)library + symbols[i].offset, &address, sizeof(address));
        if (!address && !missing && symbols[i].since <= OLDEST) {
            missing = symbols[i].name;
        }
    }
    int version = 0;
    const int result = library->GetVersion ? library->GetVersion(&version) : TTI_NCCL_SUCCESS;
    library->version = in_new_form(version);
    char text[16];
    tti_nccl_version_text(version, text);
    if (!library->GetVersion) {
        snprintf(candidate->why, sizeof(candidate->why), "%s is not %s, or older than 2.7: it has no ncclGetVersion",
                 library->path, library->display_name);
    } else if (result != TTI_NCCL_SUCCESS) {
        snprintf(candidate->why, sizeof(candidate->why), "%s reports no version: ncclGetVersion returned %d",
                 library->path, result);
    } else if (library->version < OLDEST) {
        snprintf(candidate->why, sizeof(candidate->why), "%s is %s %s, which is too old: 2.7 or newer is needed",
                 library->path, library->display_name, text);
    } else if (missing) {
        snprintf(candidate->why, sizeof(candidate->why), "%s reports %s %s, but has no %s", library->path,
                 library->display_name, text, missing);
    } else {
        return true;
    }
    return false;
}

const struct tti_nccl_library *tti_nccl_library(const char *backend, char *why, size_t capacity)
{
    char text[400];
    struct candidate *candidate = strcmp(backend, candidates[0].library.backend) == 0 ? &candidates[0] : &candidates[1];
    const struct tti_device *device = candidate->library.device;
    if (!device->available(text, sizeof(text))) {
        snprintf(why, capacity, "%s has no device here: %s", candidate->library.display_name, text);
        return NULL;
    }
    if (device->count() < 1) {
        snprintf(why, capacity, "%s has no device here: the driver of %s reports none", candidate->library.display_name,
                 device->name);
        return NULL;
    }
    tti_fork_mutex_lock(&lock);
    if (!candidate->searched) {
        void *file = open_library(candidate);
        candidate->usable = file && check_library(candidate, file);
        candidate->searched = true;
    }
    const bool usable = candidate->usable;
    if (!usable) {
        snprintf(why, capacity, "%s", candidate->why);
    }
    tti_fork_mutex_unlock(&lock);
    return usable ? &candidate->library : NULL;
}
