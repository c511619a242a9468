/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank for the tests of launchers: print_world JOB. Reads the world from the environment, finds the other ranks in
 * its store, checks that all of them were started with the same JOB, and prints "JOB family rank size url".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/launchers/world.h"
#include "store/store.h"

#define TIMEOUT_MS 60000

struct rank_info {
    int rank;
    int pid;
    char job[32];
};

static int fail(const tutti_error *error, const char *what)
{
    fprintf(stderr, "print_world: %s: %s\n", what, error->message);
    return 1;
}

/* Each rank writes a record and reads those of all ranks. */
static int exchange_infos(struct tti_store *store, const struct tti_world *world, const struct rank_info *own)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "card/%d", world->rank);
    if (tti_store_set(store, key, own, sizeof(*own), &error) != TUTTI_OK) {
        return fail(&error, "set");
    }
    for (int rank = 0; rank < world->size; rank++) {
        struct rank_info rank_info;
        size_t length = 0;
        snprintf(key, sizeof(key), "card/%d", rank);
        if (tti_store_get(store, key, &rank_info, sizeof(rank_info), &length, TIMEOUT_MS, &error) != TUTTI_OK) {
            return fail(&error, "get");
        }
        if (length != sizeof(rank_info) || rank_info.rank != rank ||
            memcmp(rank_info.job, own->job, sizeof(rank_info.job)) != 0 ||
            (rank_info.pid == own->pid) != (rank == own->rank)) {
            fprintf(stderr, "print_world: rank %d of job %s found rank %d, process %d, of job %.31s\n", own->rank,
                    own->job, rank_info.rank, rank_info.pid, rank_info.job);
            return 1;
        }
    }
    return 0;
}

/* One of the ranks serves the store: no rank leaves before all have finished. After that the store may end. */
static int final_barrier(struct tti_store *store, const struct tti_world *world)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "done/%d", world->rank);
    if (tti_store_set(store, key, NULL, 0, &error) != TUTTI_OK) {
        return fail(&error, "set");
    }
    for (int rank = 0; rank < world->size; rank++) {
        snprintf(key, sizeof(key), "done/%d", rank);
        tutti_status status = tti_store_get(store, key, NULL, 0, NULL, TIMEOUT_MS, &error);
        if (status != TUTTI_OK && status != TUTTI_PEER_LEFT) {
            return fail(&error, "get");
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tti_world world;
    tutti_error error;
    struct rank_info own = {.pid = (int)getpid()};
    if (argc != 2 || strlen(argv[1]) >= sizeof(own.job)) {
        fprintf(stderr, "usage: print_world JOB\n");
        return 2;
    }
    if (tti_world_from_environment(&world, &error) != TUTTI_OK) {
        return fail(&error, "world");
    }
    own.rank = world.rank;
    strcpy(own.job, argv[1]);
    int failed = 0;
    if (world.size > 1) {
        struct tti_store *store = NULL;
        if (tti_store_open(world.store_url, world.serve, TIMEOUT_MS, &store, &error) != TUTTI_OK) {
            return fail(&error, "open");
        }
        failed = exchange_infos(store, &world, &own) || final_barrier(store, &world);
        tti_store_release(store);
        tti_store_shutdown();
    }
    if (!failed) {
        printf("%s %s %d %d %s\n", own.job, world.family, world.rank, world.size, world.store_url);
    }
    return failed;
}
