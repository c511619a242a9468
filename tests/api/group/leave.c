/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that leave while their group makes another one. A rank that has done its part may leave at once, and the others
 * get the group. If a rank leaves before, all others fail and name it, and no rank gets the group. The ranks are
 * threads with a table of this test as store. The table hides a rank's last record from another rank until that one has
 * seen a third rank leave.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "api/check.h"
#include "time_limits.h"

#define RANKS 3
#define LOOKS 2 /* of a rank that waits, at one that has left */

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct entry {
    char key[128];
    char value[2048];
    size_t length;
};

/* The view of one rank: keys are named by their ends. */
struct view {
    const char *hidden; /* absent until `counted` was read LOOKS times after a departure; NULL: nothing */
    const char *counted;
    int looks;
    const char *broken; /* cannot be read; NULL: nothing */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over the rest */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct entry *entries;
static int used;
static struct view views[RANKS];
static int departures;
static int ends; /* ranks that have got what they wanted */

static bool ends_with(const char *key, const char *end)
{
    const size_t length = strlen(key);
    return end && length >= strlen(end) && strcmp(key + length - strlen(end), end) == 0;
}

static struct timespec from_now(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static const struct entry *find(const struct view *v, const char *key)
{
    for (int i = 0; i < used; i++) {
        if (strcmp(entries[i].key, key) == 0) {
            return ends_with(key, v->hidden) ? NULL : &entries[i];
        }
    }
    return NULL;
}

static tutti_status table_set(void *user, const char *key, const void *value, size_t length)
{
    static const struct view everything;
    (void)user;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&lock);
    struct entry *more = NULL;
    if (find(&everything, key)) {
        status = TUTTI_BUSY;
    } else if (strlen(key) >= sizeof(entries->key) || length > sizeof(entries->value) ||
               !(more = realloc(entries, (size_t)(used + 1) * sizeof(*entries)))) {
        status = TUTTI_NO_RESOURCE;
    } else {
        entries = more;
        strcpy(entries[used].key, key);
        memcpy(entries[used].value, value, length);
        entries[used++].length = length;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static tutti_status table_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                              int64_t timeout_ms)
{
    struct view *v = user;
    const struct timespec until = from_now(timeout_ms < 0 ? (int64_t)LIMIT_S * 1000 : timeout_ms);
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&lock);
    if (departures > 0 && timeout_ms == 0 && ends_with(key, v->counted) && ++v->looks == LOOKS) {
        v->hidden = NULL;
    }
    const struct entry *e = find(v, key);
    for (int code = 0; !e && code == 0 && timeout_ms != 0; e = find(v, key)) {
        code = pthread_cond_timedwait(&changed, &lock, &until);
    }
    if (ends_with(key, v->broken)) {
        status = TUTTI_SYSTEM;
    } else if (!e) {
        status = TUTTI_TIMEOUT;
    } else {
        *length = e->length;
        memcpy(value, e->value, e->length < capacity ? e->length : capacity);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

static void add(int *counter)
{
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await(const int *counter, int least)
{
    const struct timespec until = from_now((int64_t)LIMIT_S * 1000);
    pthread_mutex_lock(&lock);
    for (int code = 0; *counter < least && code == 0;) {
        code = pthread_cond_timedwait(&changed, &lock, &until);
    }
    EXPECT(*counter >= least);
    pthread_mutex_unlock(&lock);
}

static void leave(tutti_group *g)
{
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_group_destroy(g, &e));
    add(&departures);
}

static void use(tutti_group *made, int32_t size)
{
    EXPECT(tutti_group_size(made) == size);
    EXPECT_USABLE(made);
    EXPECT_OK(tutti_group_destroy(made, NULL));
}

/* Rank 1 has all it needs, and leaves both groups, while rank 0 waits for the last record of rank 2. */
static void finished(tutti_group *g, int32_t rank)
{
    static const int32_t all[RANKS] = {0, 1, 2};
    tutti_group *made = NULL;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_group_create(g, all, RANKS, NULL, &made, &e));
    if (rank == 0) {
        EXPECT(views[0].looks >= LOOKS);
        add(&ends);
    } else if (rank == 2) { /* rank 0 cannot see the last record of rank 2 before */
        await(&ends, 1);
    }
    EXPECT_OK(tutti_group_destroy(made, NULL));
    leave(g);
}

/* Rank 2 wants no group, and leaves as soon as all have voted. */
static void voted(tutti_group *g, int32_t rank)
{
    tutti_group *made = g;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_group_split(g, rank == 2 ? -1 : 0, rank, NULL, &made, &e));
    EXPECT(rank != 0 || views[0].looks >= LOOKS);
    if (rank == 2) {
        EXPECT(made == NULL);
    } else {
        use(made, 2);
    }
    leave(g);
}

/* Rank 1, which has another number in the new group, never calls. The suspect is its rank in the parent. */
static void absent(tutti_group *g, int32_t rank)
{
    static const int32_t list[RANKS] = {1, 0, 2};
    tutti_group *made = g;
    tutti_error e;
    if (rank != 1) {
        EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1 has", tutti_group_create(g, list, RANKS, NULL, &made, &e));
        EXPECT(e.suspect == 1 && made == g);
    }
    leave(g);
}

static void not_voted(tutti_group *g, int32_t rank)
{
    tutti_group *made = g;
    tutti_error e;
    if (rank != 1) {
        EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1 has", tutti_group_split(g, 0, 0, NULL, &made, &e));
        EXPECT(e.suspect == 1 && made == g);
    }
    leave(g);
}

/* Rank 2 calls when both others have left: rank 0 by itself, or because of rank 1's leaving. */
static void in_turn(tutti_group *g, int32_t rank)
{
    static const int32_t all[RANKS] = {0, 1, 2};
    tutti_group *made = g;
    tutti_error e;
    if (rank == 2) {
        await(&departures, 2);
    }
    if (rank != 1) {
        EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1 has", tutti_group_create(g, all, RANKS, NULL, &made, &e));
        EXPECT(e.suspect == 1 && made == g);
    }
    leave(g);
}

/* Rank 1 cannot continue, and leaves: the other ranks get the cause. */
static void failing(tutti_group *g, int32_t rank)
{
    static const int32_t all[RANKS] = {0, 1, 2};
    tutti_group *made = g;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_SYSTEM, rank == 1 ? "store callback" : "rank 1 cannot take part",
                 tutti_group_create(g, all, RANKS, NULL, &made, &e));
    EXPECT(made == g && (rank == 1 || e.suspect == 1));
    leave(g);
}

/* Rank 1 does not grow with the others. */
static char token[TUTTI_TOKEN_BYTES];

static void grown(tutti_group *g, int32_t rank)
{
    tutti_group *made = g;
    tutti_error e;
    if (rank != 1) {
        EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1 has", tutti_group_grow(g, token, 1, LONG_MS, &made, &e));
        EXPECT(e.suspect == 1 && made == g);
    }
    leave(g);
}

static void *newcomer(void *unused)
{
    tutti_group *made = NULL;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1 has",
                 tutti_group_join(token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &made, &e));
    EXPECT(e.suspect == 1 && made == NULL);
    return unused;
}

/* ---- the cases --------------------------------------------------------------------------------------------------- */

static void (*play)(tutti_group *g, int32_t rank);

static void *live(void *view)
{
    const int32_t rank = (int32_t)((struct view *)view - views);
    const tutti_store_callbacks callbacks = {
        .size = sizeof(callbacks), .user = view, .set = table_set, .get = table_get};
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "",
                 tutti_init(TUTTI_CONFIG(.backend = "local", .rank = rank, .world_size = RANKS,
                                         .store_callbacks = &callbacks, .timeout_ms = LONG_MS),
                            &g, &e));
    if (g) {
        play(g, rank);
    }
    return NULL;
}

static void run(void (*function)(tutti_group *g, int32_t rank))
{
    pthread_t threads[RANKS];
    play = function;
    departures = ends = 0;
    for (int32_t i = 0; i < RANKS; i++) {
        if (pthread_create(&threads[i], NULL, live, &views[i]) != 0) {
            abort();
        }
    }
    for (int32_t i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
    }
    memset(views, 0, sizeof(views));
    free(entries);
    entries = NULL;
    used = 0;
}

static void run_growth(void)
{
    pthread_t thread;
    tutti_group *alone = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1), &alone, &e));
    EXPECT_OK(tutti_group_token(alone, token, sizeof(token), &e));
    EXPECT_OK(tutti_group_destroy(alone, &e));
    /* keeps the store open until the last rank has joined */
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1, .store = token), &alone, &e));
    if (pthread_create(&thread, NULL, newcomer, NULL) != 0) {
        abort();
    }
    run(grown);
    pthread_join(thread, NULL);
    EXPECT_OK(tutti_group_destroy(alone, &e));
}

int main(void)
{
    views[0] =
        (struct view){.hidden = ".0/ready/2", .counted = ".0/ready/1"}; /* of a group from a list, not of the world */
    run(finished);
    views[0] = (struct view){.hidden = "/split/0/1", .counted = "/split/0/2"};
    run(voted);
    run(absent);
    run(not_voted);
    run(in_turn);
    views[1].broken = ".0/hello/0";
    run(failing);
    run_growth();
    return test_result();
}
