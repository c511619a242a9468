/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the plug-in files of peers are: in a folder that the user names, in the build tree, or where they were
 * installed. */
#include "bench/beside/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/beside/beside.h"

#define SUFFIX ".so"

/* Folder number `index` of the search path; false behind the last one. */
static bool folder(int index, char *path, size_t capacity)
{
    static const char *const relative[] = {"lib/tutti/bench", "../" TTI_LIBRARY_FOLDER "/tutti/bench"};
    const char *named = getenv("TUTTI_BENCH_PEERS");
    if (named) {
        snprintf(path, capacity, "%s", named);
        return index == 0;
    }
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (index >= (int)(sizeof(relative) / sizeof(relative[0])) || length <= 0) {
        return false;
    }
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    snprintf(path, capacity, "%.*s%s", slash ? (int)(slash - self + 1) : 0, self, relative[index]);
    return true;
}

/* The path of the plug-in file of this name; false if there is none. */
static bool find(const char *name, char *path, size_t capacity)
{
    char in[PATH_MAX];
    for (int i = 0; folder(i, in, sizeof(in)); i++) {
        const int length = snprintf(path, capacity, "%s/%s" SUFFIX, in, name);
        if (length > 0 && (size_t)length < capacity && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void print_names(void)
{
    char in[PATH_MAX];
    for (int i = 0; folder(i, in, sizeof(in)); i++) {
        DIR *files = opendir(in);
        for (const struct dirent *file = files ? readdir(files) : NULL; file; file = readdir(files)) {
            const size_t length = strlen(file->d_name);
            const size_t tail = sizeof(SUFFIX) - 1;
            if (length > tail && strcmp(file->d_name + length - tail, SUFFIX) == 0) {
                fprintf(stderr, ", %.*s", (int)(length - tail), file->d_name);
            }
        }
        if (files) {
            closedir(files);
        }
    }
}

bool tti_beside_exists(const char *beside)
{
    char name[64];
    char path[PATH_MAX];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(beside, ":"), beside);
    if (strcmp(name, TTI_BESIDE_OWN) == 0 || (!strchr(name, '/') && find(name, path, sizeof(path)))) {
        return true;
    }
    fprintf(stderr, "tutti bench: --beside %s: no such peer here; there are " TTI_BESIDE_OWN, name);
    print_names();
    fprintf(stderr, " (a peer is built when its library is installed)\n");
    return false;
}

const struct tti_bench_peer *tti_beside_load(const char *name, char *why, size_t capacity)
{
    char path[PATH_MAX];
    if (!find(name, path, sizeof(path))) {
        snprintf(why, capacity, "there is no file %s" SUFFIX, name);
        return NULL;
    }
    /* global: an MPI library loads parts of its own that expect to find it */
    void *file = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const struct tti_bench_peer *peer = file ? dlsym(file, TTI_BENCH_PEER_SYMBOL) : NULL;
    if (!peer) {
        const char *text = dlerror();
        snprintf(why, capacity, "%s", text ? text : path);
        return NULL;
    }
    if (peer->abi != TTI_BENCH_PEER_ABI || peer->size != sizeof(*peer)) {
        snprintf(why, capacity, "%s was built for another version of tutti bench", path);
        return NULL;
    }
    return peer;
}
