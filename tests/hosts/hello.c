/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a job on several hosts.
 *
 *   hello world    finds the other ranks in the store, checks that each rank is there once and has the same size, and
 *                  prints "hello RANK SIZE LOCAL_RANK LOCAL_SIZE HOST"
 *   hello stay     the same, and then waits for a key that no rank sets
 *   hello init     joins the job as a group and says what came of it
 */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "core/launchers/world.h"
#include "store/server/server.h"
#include "store/store.h"
#include "time_limits.h"

struct rank_info {
    int rank;
    int size;
    char host[64];
};

static int fail(int rank, const char *what, const char *why)
{
    fprintf(stderr, "hello: rank %d: %s: %s\n", rank, what, why);
    return 1;
}

/* Each rank writes its info and reads those of all. */
static int exchange_infos(struct tti_store *store, const struct rank_info *own)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "rank_info/%d", own->rank);
    if (tti_store_set(store, key, own, sizeof(*own), &error) != TUTTI_OK) {
        return fail(own->rank, "set", error.message);
    }
    for (int r = 0; r < own->size; r++) {
        struct rank_info other;
        size_t length = 0;
        snprintf(key, sizeof(key), "rank_info/%d", r);
        if (tti_store_get(store, key, &other, sizeof(other), &length, LONG_MS, &error) != TUTTI_OK) {
            return fail(own->rank, "get", error.message);
        }
        if (length != sizeof(other) || other.rank != r || other.size != own->size) {
            return fail(own->rank, "get", "another rank is of another world");
        }
    }
    return 0;
}

/* A rank may serve the store: no rank leaves before all ranks have read it. After that the store may be gone. */
static int final_barrier(struct tti_store *store, const struct rank_info *own)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "done/%d", own->rank);
    if (tti_store_set(store, key, NULL, 0, &error) != TUTTI_OK) {
        return fail(own->rank, "set", error.message);
    }
    for (int r = 0; r < own->size; r++) {
        snprintf(key, sizeof(key), "done/%d", r);
        const tutti_status status = tti_store_get(store, key, NULL, 0, NULL, LONG_MS, &error);
        if (status != TUTTI_OK && status != TUTTI_PEER_LEFT) {
            return fail(own->rank, "get", error.message);
        }
    }
    return 0;
}

static int find_world(bool stays)
{
    struct tti_world world;
    tutti_error error;
    struct tti_store *store = NULL;
    if (tti_world_from_environment(false, &world, &error) != TUTTI_OK ||
        tti_store_open(world.store_url, world.serve, LONG_MS, &store, &error) != TUTTI_OK) {
        return fail(-1, "join", error.message);
    }
    struct rank_info own = {.rank = world.rank, .size = world.size};
    gethostname(own.host, sizeof(own.host) - 1);
    int code = exchange_infos(store, &own);
    if (code == 0) {
        printf("hello %d %d %d %d %s\n", world.rank, world.size, world.local_rank, world.local_size, own.host);
        fflush(stdout);
    }
    if (code == 0 && stays) {
        char nothing;
        size_t length = 0;
        tti_store_get(store, "never", &nothing, 1, &length, -1, &error);
        code = fail(own.rank, "stay", error.message);
    }
    code = code == 0 ? final_barrier(store, &own) : code;
    tti_store_release(store);
    tti_server_shutdown_all();
    return code;
}

static int init(void)
{
    tutti_group *group = NULL;
    tutti_error error;
    if (tutti_init(NULL, &group, &error) != TUTTI_OK) {
        printf("failed: %s\n", error.message);
        return 1;
    }
    printf("joined %d %d\n", tutti_group_rank(group), tutti_group_size(group));
    tutti_group_destroy(group, NULL);
    tutti_finalize(NULL);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "init") == 0) {
        return init();
    }
    return find_world(strcmp(mode, "stay") == 0);
}
