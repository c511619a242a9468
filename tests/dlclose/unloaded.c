/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unloaded LIBRARY STORE RANK: one of two ranks that load the library at run time. Rank 1 unloads it with its group
 * open: the group lives on, because the library stays loaded, and can be found again. Then the program ends without
 * destroying its group, which counts as a leave.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "time_limits.h"

static void *library;

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

#define CALL(name) ((__typeof__(name) *)(uintptr_t)find(#name))

static void open_library(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

static void expect(tutti_status status, tutti_status wanted, const char *where, const tutti_error *e)
{
    if (status != wanted) {
        fprintf(stderr, "%s: status %d \"%s\"\n", where, status, e->message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    tutti_group *g = NULL;
    tutti_error e;
    if (argc != 4) {
        return 2;
    }
    const int32_t rank = atoi(argv[3]);
    open_library(argv[1]);
    const tutti_config config = {.size = sizeof(config),
                                 .backend = "shm",
                                 .rank = rank,
                                 .world_size = 2,
                                 .store = argv[2],
                                 .timeout_ms = LONG_MS};
    const tutti_call call = {.size = sizeof(call), .timeout_ms = LONG_MS, .error = &e};
    __typeof__(tutti_barrier) *barrier = CALL(tutti_barrier);
    expect(CALL(tutti_init)(&config, &g, &e), TUTTI_OK, "init", &e);
    expect(barrier(g, &call), TUTTI_OK, "barrier", &e);
    if (rank == 1) {
        if (dlclose(library) != 0) {
            return 1;
        }
        expect(barrier(g, &call), TUTTI_OK, "barrier after dlclose", &e);
        open_library(argv[1]);
        expect(CALL(tutti_barrier)(g, &call), TUTTI_OK, "barrier after dlopen", &e);
        dlclose(library);
        return 0; /* with the group open */
    }
    for (int i = 0; i < 2; i++) {
        expect(barrier(g, &call), TUTTI_OK, "barrier", &e);
    }
    expect(barrier(g, &call), TUTTI_PEER_LEFT, "barrier without the other", &e);
    expect(CALL(tutti_group_destroy)(g, &e), TUTTI_OK, "destroy", &e);
    return 0;
}
