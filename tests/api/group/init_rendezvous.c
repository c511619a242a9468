/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=40 timeout=150 */
/*
 * Three ranks join through every kind of rendezvous and exchange data through backend shm, whose memory is sent as
 * descriptors. If a store cannot pass descriptors (tcp, file, the caller's own), the backend uses another channel. Each
 * store serves two worlds at once, sub-groups, and again after tutti_finalize.
 */
#include "init_processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "remove_folder.h"
#include "repetitions.h"
#include "store_table.h"

#define RANKS  3
#define ROUNDS 3
#define LIMIT  20000

/* A rank reads the records of an earlier job, one of them changed: the decision of rank 0, or a rank's own record. It
 * must check them like any bytes from outside. */
struct replay {
    struct table *table;
    const char *key;
    size_t at; /* these bytes are replaced */
    size_t count;
    const void *bytes;
    size_t longer; /* and so many are added */
    tutti_status status;
    const char *word;
};

static tutti_status replay_set(void *user, const char *key, const void *value, size_t length)
{
    (void)user;
    (void)key;
    (void)value;
    (void)length;
    return TUTTI_OK;
}

static tutti_status replay_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                               int64_t timeout_ms)
{
    const struct replay *r = user;
    if (strncmp(key, "instance/", 9) == 0) {
        return TUTTI_TIMEOUT; /* else the rank skips the world, whose processes have ended */
    }
    const tutti_status status = table_get(r->table, key, value, capacity, length, timeout_ms);
    if (status == TUTTI_OK && strcmp(key, r->key) == 0) {
        *length += r->longer;
        for (size_t i = 0; i < r->count && r->at + i < capacity; i++) {
            ((char *)value)[r->at + i] = ((const char *)r->bytes)[i];
        }
    }
    return status;
}

static void replayed(int32_t index, void *user)
{
    struct replay *r = user;
    const tutti_store_callbacks callbacks = {
        .size = sizeof(callbacks), .user = r, .set = replay_set, .get = replay_get};
    tutti_error e;
    tutti_group *g = NULL;
    (void)index;
    EXPECT_ERROR(&e, r->status, r->word,
                 tutti_init(TUTTI_CONFIG(.rank = 1, .world_size = RANKS, .store_callbacks = &callbacks,
                                         .backend = "shm", .timeout_ms = LIMIT),
                            &g, &e));
}

static void words_are_checked(struct table *t)
{
    char url[160];
    const char *temporary = getenv("TMPDIR");
    snprintf(url, sizeof(url), "file:%.100s/tutti-not-made-%d", temporary ? temporary : "/tmp", (int)getpid());
    static const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    static const unsigned char zeros[8] = {0};
    static const unsigned char tib[8] = {0, 0, 0, 0, 0, 1};
    enum { STAGE = 8, WINDOW = 32, PACKETS = 40 }; /* behind the number of the group */
    struct replay cases[] = {
        {.key = "w0/hello/0", .longer = 8, .status = TUTTI_VERSION, .word = "rank 0 uses another version"},
        {.key = "w0/terms", .at = STAGE, .count = 8, .bytes = tib, .status = TUTTI_PROTOCOL, .word = "terms"},
        {.key = "w0/terms", .at = WINDOW, .count = 8, .bytes = zeros, .status = TUTTI_PROTOCOL, .word = "terms"},
        {.key = "w0/terms", .at = PACKETS, .count = 8, .bytes = ones, .status = TUTTI_PROTOCOL, .word = "terms"},
        {.key = "w0/channel", .count = 64, .bytes = url, .longer = 48, .status = TUTTI_PROTOCOL, .word = ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cases[i].table = t;
        test_processes(cases[i].key, 1, replayed, &cases[i]);
    }
    EXPECT(access(url + strlen("file:"), F_OK) != 0); /* no rank has opened it */
}

struct place {
    const char *url;
    const tutti_store_callbacks *callbacks;
    const char *backend;
    const char *expect; /* the backend that it must be */
    const char *const *settings;
    bool by_tutti; /* the launcher is tutti run, without a store; else torchrun */
};

static tutti_group *join(int32_t rank, const struct place *p)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_status status =
        tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = RANKS, .store = p->url, .store_callbacks = p->callbacks,
                                .backend = p->backend, .timeout_ms = LIMIT, .settings = p->settings),
                   &g, &e);
    test_status(__FILE__, __LINE__, p->url ? p->url : "callbacks", status, TUTTI_OK, &e, "");
    if (status != TUTTI_OK) {
        return NULL;
    }
    EXPECT(tutti_group_rank(g) == rank && tutti_group_size(g) == RANKS);
    EXPECT(strcmp(tutti_group_backend(g), p->expect) == 0);
    return g;
}

/* Data for several shared windows, under sanitizers for two, with a value that only this world has. */
static void exchange(tutti_group *g, int32_t seed)
{
    static _Thread_local int32_t data[200000];
    const int64_t count = repetitions(200000);
    const int32_t rank = tutti_group_rank(g);
    tutti_error e;
    for (int64_t i = 0; i < count; i++) {
        data[i] = (int32_t)i + seed + rank;
    }
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_I32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += data[i] != RANKS * ((int32_t)i + seed) + RANKS * (RANKS - 1) / 2;
    }
    EXPECT(wrong == 0);
}

static void rounds(int32_t rank, const struct place *p)
{
    tutti_error e;
    tutti_group *one = join(rank, p);
    tutti_group *two = one ? join(rank, p) : NULL;
    if (!two) {
        return;
    }
    exchange(one, 1000);
    exchange(two, 2000);
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_split(two, 0, -rank, NULL, &child, &e));
    EXPECT_OK(tutti_group_destroy(two, &e));
    exchange(one, 3000);
    exchange(child, 4000);
    EXPECT(tutti_group_rank(child) == RANKS - 1 - rank);
    EXPECT_OK(tutti_barrier(one, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_group_destroy(child, &e));
    EXPECT_OK(tutti_barrier(one, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_group_destroy(one, &e));
}

static void in_process(int32_t rank, void *user)
{
    for (int round = 0; round < ROUNDS && atomic_load(&test_failures) == 0; round++) {
        rounds(rank, user);
        EXPECT_OK(tutti_finalize(NULL));
    }
}

struct rank_thread {
    const struct place *place;
    int32_t rank;
};

static void *in_thread(void *user)
{
    const struct rank_thread *t = user;
    rounds(t->rank, t->place);
    return NULL;
}

/* memory: is for threads; shm takes them as well, if it is asked for. */
static void with_threads(const struct place *place)
{
    pthread_t threads[RANKS];
    struct rank_thread ranks[RANKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int32_t r = 0; r < RANKS; r++) {
            ranks[r] = (struct rank_thread){.place = place, .rank = r};
            EXPECT(pthread_create(&threads[r], NULL, in_thread, &ranks[r]) == 0);
        }
        for (int32_t r = 0; r < RANKS; r++) {
            pthread_join(threads[r], NULL);
        }
        EXPECT_OK(tutti_finalize(NULL));
    }
}

/* Held until the ranks are about to start; what remains of the race is the system's own reuse of ports. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
        port = ntohs(address.sin_port);
    }
    close(fd);
    EXPECT(port != 0);
    return port;
}

/* The setting `name` separates worlds at the same callbacks, also where one rank has made more of them than others. */
static void named(int32_t rank, void *argument)
{
    struct place place = *(const struct place *)argument;
    tutti_error e;
    tutti_group *groups[3] = {NULL};
    if (rank == 0) {
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .store_callbacks = place.callbacks, .timeout_ms = LIMIT),
                             &groups[0], &e));
    }
    place.settings = (const char *const[]){"name=first", NULL};
    groups[1] = join(rank, &place);
    place.settings = (const char *const[]){"name=second", NULL};
    groups[2] = groups[1] ? join(rank, &place) : NULL;
    for (int i = 1; i < 3 && groups[2]; i++) {
        exchange(groups[i], 1000 * i);
        EXPECT_OK(tutti_barrier(groups[i], TUTTI_CALL(.error = &e)));
    }
    for (int i = 0; i < 3; i++) {
        if (groups[i]) {
            EXPECT_OK(tutti_group_destroy(groups[i], &e));
        }
    }
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Rank and size come from a launcher, the store from the program. */
static void launched(int32_t rank, void *argument)
{
    const struct place *place = argument;
    tutti_group *g = NULL;
    tutti_error e;
    set_number(place->by_tutti ? "TUTTI_RANK" : "RANK", rank);
    set_number(place->by_tutti ? "TUTTI_WORLD_SIZE" : "WORLD_SIZE", RANKS);
    if (!place->by_tutti) {
        set_number("LOCAL_RANK", rank);
        set_number("LOCAL_WORLD_SIZE", RANKS);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", "1", 1);
    }
    EXPECT_ERROR(&e, TUTTI_OK, "",
                 tutti_init(TUTTI_CONFIG(.store = place->url, .store_callbacks = place->callbacks, .timeout_ms = LIMIT),
                            &g, &e));
    exchange(g, 1);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

static void launch(const char *url, const tutti_store_callbacks *callbacks, bool by_tutti)
{
    struct place place = {.url = url, .callbacks = callbacks, .by_tutti = by_tutti};
    test_processes(by_tutti ? "as by tutti run" : "as by torchrun", RANKS, launched, &place);
}

static void with_url(const char *url, const char *backend)
{
    struct place place = {.url = url, .backend = backend, .expect = "shm"};
    test_processes(url, RANKS, in_process, &place);
}

int main(void)
{
    char url[160];
    char path[128];
    test_stand_alone();
    const char *temporary = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%.100s/tutti-store-XXXXXX", temporary ? temporary : "/tmp");

    test_store_name(url, sizeof(url));
    with_url(url, "shm");
    test_store_name(url, sizeof(url));
    with_url(url, "auto");

    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", free_port());
    with_url(url, "shm");
    snprintf(url, sizeof(url), "tcp://localhost:%d/a-token", free_port());
    with_url(url, "cpu:SHM");

    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", free_port());
    launch(url, NULL, false);
    launch(url, NULL, true);
    test_store_name(url, sizeof(url));
    launch(url, NULL, true);

    if (!mkdtemp(path)) {
        perror("mkdtemp");
        return 1;
    }
    snprintf(url, sizeof(url), "file:%s", path);
    with_url(url, "shm");
    remove_folder(path);

    struct table *t = table_make();
    tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .user = t, .set = table_set, .get = table_get};
    struct place own = {.callbacks = &callbacks, .backend = "shm", .expect = "shm"};
    test_processes("callbacks", RANKS, in_process, &own);
    EXPECT(t->used > 0 && t->refused == 0);
    words_are_checked(t);
    munmap(t, sizeof(*t));

    t = table_make(); /* the worlds of other processes have left their keys in the first one */
    callbacks.user = t;
    test_processes("callbacks with a name", RANKS, named, &own);
    munmap(t, sizeof(*t));

    t = table_make();
    callbacks.user = t;
    launch(NULL, &callbacks, true);
    munmap(t, sizeof(*t));

    snprintf(url, sizeof(url), "memory:rendezvous-%d", (int)getpid());
    struct place memory = {.url = url, .backend = "shm", .expect = "shm"};
    with_threads(&memory);
    memory.backend = "auto";
    memory.expect = "local";
    with_threads(&memory);
    return test_result();
}
