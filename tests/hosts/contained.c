/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank in a container.
 *
 *   contained work           runs some of each kind of call with the other ranks, and rank 0 describes its group
 *   contained splits         makes sub-groups, which leave no open descriptor behind
 *   contained fill           takes 80 MiB of the heap
 *   contained killed VICTIM  rank VICTIM says "ready" and waits to be killed; the other ranks print how their calls
 *                            end, and go on without it
 *   contained depart VICTIM  the same with a rank that returns from main with its group open
 *   contained early VICTIM   the same while the group is made: rank VICTIM has reached the rendezvous, and has handed
 *                            over no memory
 *   contained grow           ranks 0 and 1 make a group of two, which rank 2 joins by a token
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "core/launchers/world.h"
#include "descriptors.h"
#include "store/store.h"
#include "time_limits.h"

enum { COUNT = 1 << 18 };

static float data[COUNT];

static int fail(const char *what, const tutti_error *e)
{
    printf("failed: %s: %s (%s)\n", what, e->message, tutti_status_name(e->status));
    return 1;
}

/* The sum of rank + 1 over the group, in `n` elements at `memory`. */
static int sum(tutti_group *g, float *memory, int64_t n, const char *what)
{
    tutti_error e = {0};
    const int size = tutti_group_size(g);
    const float own = (float)(tutti_group_rank(g) + 1);
    DLTensor t = tutti_tensor_1d(memory, &n, TUTTI_F32);
    for (int64_t i = 0; i < n; i++) {
        memory[i] = own;
    }
    if (tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail(what, &e);
    }
    for (int64_t i = 0; i < n; i++) {
        if (memory[i] != (float)(size * (size + 1) / 2)) {
            printf("failed: %s: element %lld is %g\n", what, (long long)i, (double)memory[i]);
            return 1;
        }
    }
    return 0;
}

static int message(tutti_group *g)
{
    tutti_error e = {0};
    const int32_t rank = tutti_group_rank(g);
    const int32_t size = tutti_group_size(g);
    const int64_t n = COUNT;
    static float in[COUNT];
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(in, &n, TUTTI_F32);
    data[COUNT - 1] = (float)rank;
    if (tutti_sendrecv(g, &t, (rank + 1) % size, 7, &u, (rank + size - 1) % size, 7, TUTTI_CALL(.error = &e), NULL) !=
        TUTTI_OK) {
        return fail("message", &e);
    }
    if (in[COUNT - 1] != (float)((rank + size - 1) % size)) {
        printf("failed: message: it is of rank %g\n", (double)in[COUNT - 1]);
        return 1;
    }
    return 0;
}

static int heap(tutti_group *g)
{
    tutti_error e = {0};
    void *memory = NULL;
    if (tutti_alloc(g, sizeof(data), &memory, &e) != TUTTI_OK) {
        return fail("alloc", &e);
    }
    int code = sum(g, memory, COUNT, "sum in the heap");
    return tutti_free(g, memory, &e) == TUTTI_OK ? code : fail("free", &e);
}

static int fill(tutti_group *g)
{
    tutti_error e = {0};
    void *memory = NULL;
    if (tutti_alloc(g, (size_t)80 << 20, &memory, &e) != TUTTI_OK) {
        return fail("alloc", &e);
    }
    const int code = sum(g, memory, COUNT, "sum in the heap");
    return tutti_free(g, memory, &e) == TUTTI_OK ? code : fail("free", &e);
}

static int part(tutti_group *g)
{
    tutti_error e = {0};
    tutti_group *half = NULL;
    if (tutti_group_split(g, tutti_group_rank(g) % 2, 0, NULL, &half, &e) != TUTTI_OK) {
        return fail("split", &e);
    }
    int code = sum(half, data, 1000, "sum in a part");
    code = code == 0 && tutti_group_size(half) > 1 ? heap(half) : code;
    return tutti_group_destroy(half, &e) == TUTTI_OK ? code : fail("destroy of a part", &e);
}

static int splits(tutti_group *g)
{
    int code = part(g);
    const int before = open_descriptors();
    for (int i = 0; i < 20 && code == 0; i++) {
        code = part(g);
    }
    tutti_error e = {0};
    const int more = open_descriptors() - before;
    if (code == 0 && tutti_barrier(g, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail("the barrier", &e);
    }
    if (more > 5) {
        printf("failed: %d more descriptors are open\n", more);
        return 1;
    }
    return code;
}

static int work(tutti_group *g)
{
    char text[4096];
    int code = sum(g, data, 2, "sum");
    code = code == 0 ? sum(g, data, COUNT, "large sum") : code;
    code = code == 0 ? message(g) : code;
    code = code == 0 ? heap(g) : code;
    code = code == 0 ? part(g) : code;
    if (code == 0 &&
        tutti_barrier(g, NULL) != TUTTI_OK) { /* rank 0 serves the store, which sub-groups need while they are made */
        return 1;
    }
    if (code == 0) {
        printf("rank %d of %d works on %s\n", tutti_group_rank(g), tutti_group_size(g), tutti_group_backend(g));
    }
    if (code == 0 && tutti_group_rank(g) == 0 && tutti_group_describe(g, text, sizeof(text), NULL, NULL) == TUTTI_OK) {
        printf("%s", text);
    }
    return code;
}

static int survive(tutti_group *g)
{
    tutti_error e = {0};
    tutti_group *rest = NULL;
    const int64_t n = 2;
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_F32);
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        status = tutti_all_reduce(g, &t, &t, TUTTI_MAX, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
    }
    printf("rank %d got %s of rank %d: %s\n", tutti_group_rank(g), tutti_status_name(status), (int)e.suspect,
           e.message);
    if (tutti_group_shrink(g, LONG_MS, &rest, &e) != TUTTI_OK) {
        return fail("shrink", &e);
    }
    int code = sum(rest, data, COUNT, "sum of the others");
    code = code == 0 ? heap(rest) : code;
    if (code == 0) {
        printf("rank %d goes on as %d of %d on %s\n", tutti_group_rank(g), tutti_group_rank(rest),
               tutti_group_size(rest), tutti_group_backend(rest));
    }
    tutti_group_destroy(rest, NULL);
    return code;
}

/* The token comes by a broadcast of the world: the newcomer is no member of the smaller group. */
static int grow(tutti_group *world)
{
    tutti_error e = {0};
    char token[TUTTI_TOKEN_BYTES] = "";
    const int64_t n = sizeof(token);
    const int32_t members[] = {0, 1};
    DLTensor t = tutti_tensor_1d(token, &n, TUTTI_U8);
    tutti_group *two = NULL;
    tutti_group *grown = NULL;
    const int rank = tutti_group_rank(world);
    if (rank < 2 && (tutti_group_create(world, members, 2, NULL, &two, &e) != TUTTI_OK ||
                     (rank == 0 && tutti_group_token(two, token, sizeof(token), &e) != TUTTI_OK))) {
        return fail("token", &e);
    }
    if (tutti_broadcast(world, &t, 0, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail("broadcast", &e);
    }
    const tutti_status status = rank < 2 ? tutti_group_grow(two, token, 1, LONG_MS, &grown, &e)
                                         : tutti_group_join(token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &grown, &e);
    if (status != TUTTI_OK) {
        return fail("grow", &e);
    }
    const int code = sum(grown, data, COUNT, "sum of the grown group");
    if (code == 0) {
        printf("rank %d has grown to %d on %s\n", rank, tutti_group_size(grown), tutti_group_backend(grown));
    }
    tutti_group_destroy(grown, NULL);
    if (two) {
        tutti_group_destroy(two, NULL);
    }
    return code;
}

_Noreturn static void await_the_end(void)
{
    printf("ready\n");
    for (;;) {
        pause();
    }
}

static tutti_status set(void *user, const char *key, const void *value, size_t length)
{
    return tti_store_set(user, key, value, length, NULL);
}

/* The last request of this rank is the one before it hands over memory. */
static tutti_status get_until_terms(void *user, const char *key, void *value, size_t capacity, size_t *length,
                                    int64_t timeout_ms)
{
    if (strstr(key, "/terms")) {
        await_the_end();
    }
    return tti_store_get(user, key, value, capacity, length, timeout_ms, NULL);
}

/* Joins through the job's own store, but with functions that stop. */
static tutti_status init_without_memory(tutti_group **group, tutti_error *e)
{
    struct tti_world world;
    struct tti_store *store = NULL;
    tutti_status status = tti_world_from_environment(false, &world, e);
    if (status == TUTTI_OK) {
        status = tti_store_open(world.store_url, world.serve, LONG_MS, &store, e);
    }
    const tutti_store_callbacks callbacks = {
        .size = sizeof(callbacks), .user = store, .set = set, .get = get_until_terms};
    return status != TUTTI_OK
               ? status
               : tutti_init(TUTTI_CONFIG(.rank = world.rank, .world_size = world.size, .store_callbacks = &callbacks),
                            group, e);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const int victim = argc > 2 ? atoi(argv[2]) : -1;
    const char *own = getenv("RANK");
    const bool is_victim = own && atoi(own) == victim;
    tutti_group *world = NULL;
    tutti_error e = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    const bool is_early = is_victim && strcmp(mode, "early") == 0;
    if ((is_early ? init_without_memory(&world, &e) : tutti_init(NULL, &world, &e)) != TUTTI_OK) {
        return fail("init", &e);
    }
    int code = 1;
    if (strcmp(mode, "work") == 0) {
        code = work(world);
    } else if (strcmp(mode, "splits") == 0) {
        code = splits(world);
    } else if (strcmp(mode, "fill") == 0) {
        code = fill(world);
    } else if (strcmp(mode, "grow") == 0) {
        code = grow(world);
    } else if ((code = sum(world, data, 2, "sum")) == 0) {
        if (is_victim && strcmp(mode, "depart") == 0) {
            return 0;
        }
        if (is_victim) {
            await_the_end();
        }
        code = survive(world);
    }
    if (tutti_group_destroy(world, &e) != TUTTI_OK || tutti_finalize(&e) != TUTTI_OK) {
        return fail("the end", &e);
    }
    return code;
}
