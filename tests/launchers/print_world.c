/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank for the tests of launchers: print_world JOB. Reads the world from the environment, meets the other ranks in
 * its store, makes sure that all of them were started with the same JOB, and prints "JOB family rank size url".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/launchers/world.h"
#include "store/store.h"

#define TIMEOUT_MS 60000

struct card {
    int rank;
    int pid;
    char job[32];
};

static int fail(const tutti_error *error, const char *what)
{
    fprintf(stderr, "print_world: %s: %s\n", what, error->message);
    return 1;
}

/* Everyone leaves a card and reads those of all. */
static int exchange_cards(struct tti_store *store, const struct tti_world *world, const struct card *own)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "card/%d", world->rank);
    if (tti_store_set(store, key, own, sizeof(*own), &error) != TUTTI_OK) {
        return fail(&error, "set");
    }
    for (int rank = 0; rank < world->size; rank++) {
        struct card card;
        size_t length = 0;
        snprintf(key, sizeof(key), "card/%d", rank);
        if (tti_store_get(store, key, &card, sizeof(card), &length, TIMEOUT_MS, &error) != TUTTI_OK) {
            return fail(&error, "get");
        }
        if (length != sizeof(card) || card.rank != rank || memcmp(card.job, own->job, sizeof(card.job)) != 0 ||
            (card.pid == own->pid) != (rank == own->rank)) {
            fprintf(stderr, "print_world: rank %d of job %s met rank %d, process %d, of job %.31s\n", own->rank,
                    own->job, card.rank, card.pid, card.job);
            return 1;
        }
    }
    return 0;
}

/* The store lives in one of the ranks: nobody leaves before everybody is through. After that it may be gone. */
static int say_goodbye(struct tti_store *store, const struct tti_world *world)
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
    struct card own = {.pid = (int)getpid()};
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
        failed = exchange_cards(store, &world, &own) || say_goodbye(store, &world);
        tti_store_release(store);
        tti_store_shutdown();
    }
    if (!failed) {
        printf("%s %s %d %d %s\n", own.job, world.family, world.rank, world.size, world.store_url);
    }
    return failed;
}
