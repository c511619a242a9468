/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3,4 timeout=300 trees=release,debug,address,undefined */
/*
 * A rank's process ends while the world is made. If the rank has left its record, the other ranks report its end, by
 * rank and process, long before their deadline, also if further ranks have not arrived. If the rank had finished its
 * part, the first call reports it. A stopped rank is named at the deadline. A rank that gives up and ends is not the
 * cause: that is the rank that it has waited for. The ranks use a table of this test as their store; it ends the victim
 * right behind the record that the case names.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define ENTRIES       128
#define SHORT_MS      8000
#define GIVE_UP_MS    200 /* the others check processes after 100 ms */
#define REPEATED_MOST 2

struct entry {
    char key[128];
    char value[2048];
    size_t length;
};

/* In memory that all ranks share. */
struct table {
    pthread_mutex_t lock;
    _Atomic bool closed; /* rank 0 has closed its descriptor channel */
    int used;
    struct entry entries[ENTRIES];
};

struct course {
    const char *last; /* record of the victim */
    int32_t victim;
    bool all_join; /* else the last rank does not join */
    bool late;     /* the last rank connects to the descriptor channel, but offers its memory after it has closed */
    bool calls;    /* the other ranks get the group, and the first call reports the victim */
    bool gives_up; /* the victim waits for the last rank, which does not join, for GIVE_UP_MS, and ends */
    int signal;    /* that ends it; 0: it exits with status 3 */
    tutti_status status; /* that the others get */
    const char *words;   /* of their error sentence, behind the rank */
};

static struct round_state *state;
static struct table *table;
static const struct course *course;
static int64_t short_ms; /* of a course that ends at the ranks' deadline */

/* ---- the table --------------------------------------------------------------------------------------------------- */

static struct table *table_make(void)
{
    pthread_mutexattr_t shared;
    struct table *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED || pthread_mutexattr_init(&shared) != 0 ||
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_mutex_init(&t->lock, &shared) != 0) {
        abort();
    }
    pthread_mutexattr_destroy(&shared);
    return t;
}

static struct entry *find(const char *key)
{
    for (int i = 0; i < table->used; i++) {
        if (strcmp(table->entries[i].key, key) == 0) {
            return &table->entries[i];
        }
    }
    return NULL;
}

static bool ends_with(const char *key, const char *end)
{
    const size_t length = strlen(key);
    return end && length >= strlen(end) && strcmp(key + length - strlen(end), end) == 0;
}

static void happen(void)
{
    if (course->signal == 0) {
        _exit(3);
    }
    raise(course->signal);
}

static tutti_status set(void *user, const char *key, const void *value, size_t length)
{
    const int32_t *rank = user;
    tutti_status status = TUTTI_OK;
    if (ends_with(key, "ready/0")) {
        atomic_store(&table->closed, true);
    }
    pthread_mutex_lock(&table->lock);
    if (find(key)) {
        status = TUTTI_BUSY;
    } else if (table->used == ENTRIES || strlen(key) >= sizeof(table->entries->key) ||
               length > sizeof(table->entries->value)) {
        status = TUTTI_NO_RESOURCE;
    } else {
        struct entry *e = &table->entries[table->used++];
        strcpy(e->key, key);
        memcpy(e->value, value, length);
        e->length = length;
    }
    pthread_mutex_unlock(&table->lock);
    if (*rank == course->victim && ends_with(key, course->last)) {
        happen();
    }
    return status;
}

static void await_close(void *unused)
{
    (void)unused;
    while (!atomic_load(&table->closed)) {
        pause_us(500);
    }
}

/* A rank that gives up puts its cause, and ends. Between these two another rank has looked for a cause in vain. */
static void await_end_of_victim(void)
{
    char path[40];
    char state_of = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)state->pids[course->victim]);
    while (state_of != 'Z') {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (%*[^)]) %c", &state_of) != 1) {
            abort();
        }
        fclose(file);
        pause_us(500);
    }
}

static tutti_status get(void *user, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms)
{
    const int64_t until = now_ns() + (timeout_ms < 0 ? LONG_MS : timeout_ms) * 1000000;
    static bool knows_victim; /* this process is one rank */
    const int32_t rank = *(const int32_t *)user;
    const bool is_late = course->late && rank == state->round.size - 1;
    for (bool late = false;; late = now_ns() >= until) {
        pthread_mutex_lock(&table->lock);
        const struct entry *e = find(key);
        if (e) {
            *length = e->length;
            memcpy(value, e->value, e->length < capacity ? e->length : capacity);
        }
        pthread_mutex_unlock(&table->lock);
        if (e && is_late && ends_with(key, "channel")) {
            place_arm(PLACE_FILE, 1, await_close, NULL); /* its segment, behind the connection */
        }
        if (!e && course->gives_up && knows_victim && ends_with(key, "failed")) {
            await_end_of_victim();
            return TUTTI_TIMEOUT;
        }
        knows_victim = knows_victim || (e && rank != course->victim && ends_with(key, "hello/1"));
        if (e || late) {
            return e ? TUTTI_OK : TUTTI_TIMEOUT;
        }
        pause_us(500);
    }
}

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

static void expect(struct seen *own, const char *where, tutti_status status, const tutti_error *e)
{
    const int32_t cause = course->gives_up ? state->round.size - 1 : course->victim;
    char name[120];
    if (course->status == TUTTI_PEER_DEAD) {
        snprintf(name, sizeof(name), "rank %d (process %d) %s", cause, (int)state->pids[cause], course->words);
    } else {
        snprintf(name, sizeof(name), "rank %d %s", cause, course->words);
    }
    if (status != course->status || e->suspect != cause || !strstr(e->message, name)) {
        fault(own, "%s gives %s \"%s\", suspect %d, and not \"%s\"; ", where, tutti_status_name(status),
              status == TUTTI_OK ? "" : e->message, status == TUTTI_OK ? -1 : e->suspect, name);
    }
}

/* Until all other ranks that join have put their records. */
static void await_records(int32_t own)
{
    for (int32_t r = 0; r < state->round.size - 1; r++) {
        char end[24];
        snprintf(end, sizeof(end), "hello/%d", r);
        for (bool found = r == own; !found; pause_us(500)) {
            pthread_mutex_lock(&table->lock);
            for (int i = 0; i < table->used; i++) {
                found = found || ends_with(table->entries[i].key, end);
            }
            pthread_mutex_unlock(&table->lock);
        }
    }
}

static bool is_short(const struct course *c)
{
    return c->status == TUTTI_TIMEOUT && !c->gives_up;
}

static int64_t timeout_of(bool gives_up)
{
    const int64_t others_ms = is_short(course) ? short_ms : LONG_MS;
    return gives_up ? GIVE_UP_MS : others_ms;
}

static void be_member(int32_t rank)
{
    struct seen *own = &state->seen[rank];
    const bool gives_up = course->gives_up && rank == course->victim;
    const tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .user = &rank, .set = set, .get = get};
    tutti_group *group = NULL;
    tutti_error e;
    if (gives_up) {
        await_records(rank);
    }
    const tutti_status status =
        tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = state->round.size,
                                .store_callbacks = &callbacks, .timeout_ms = timeout_of(gives_up)),
                   &group, &e);
    if (gives_up) {
        _exit(0);
    }
    if (!course->calls) {
        expect(own, "init", status, &e);
    } else if (status != TUTTI_OK) {
        fault(own, "init gives %s \"%s\"; ", tutti_status_name(status), e.message);
    } else {
        expect(own, "barrier", tutti_barrier(group, TUTTI_CALL(.error = &e)), &e);
    }
    tutti_group_destroy(group, NULL);
    atomic_store(&own->finished, true);
    exit(0);
}

/* The victim starts first, so that all ranks have its process number. It is reaped last: until then other processes can
 * read how it ended. */
static int32_t in_order(int32_t i)
{
    return i == 0 ? course->victim : i <= course->victim ? i - 1 : i;
}

static int run(const struct course *c)
{
    const int32_t size = state->round.size;
    const int32_t joining = c->all_join ? size : size - 1;
    int failures = 0;
    course = c;
    table->used = 0;
    atomic_store(&table->closed, false);
    memset(state->seen, 0, sizeof(state->seen));
    for (int32_t i = 0; i < joining; i++) {
        const int32_t rank = in_order(i);
        const pid_t pid = fork();
        if (pid == 0) {
            state->pids[rank] = getpid();
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(LIMIT_S);
            be_member(rank);
        }
        state->pids[rank] = pid;
    }
    for (int32_t i = joining - 1; i >= 0; i--) {
        const int32_t rank = in_order(i);
        const struct seen *own = &state->seen[rank];
        int code = 0;
        if (rank == c->victim) {
            kill(state->pids[rank], SIGKILL); /* it may be stopped and not have ended */
        }
        waitpid(state->pids[rank], &code, 0);
        if (rank != c->victim && (!atomic_load(&own->finished) || own->faults[0])) {
            fprintf(stderr, "rank %d's last record is %s; rank %d of %d has ended with 0x%x: %s\n", c->victim,
                    c->last ? c->last : "put", rank, size, (unsigned)code, own->faults);
            failures++;
        }
    }
    return failures;
}

/* Beside a load, the scheduler may give a rank no CPU until the deadline. Then the others name that rank. */
static int run_repeatedly(const struct course *c)
{
    short_ms = SHORT_MS;
    int failures = run(c);
    for (int i = 0; failures != 0 && is_short(c) && i < REPEATED_MOST; i++) {
        fprintf(stderr, "repeated with twice the time\n");
        short_ms *= 2;
        failures = run(c);
    }
    return failures;
}

int main(int argc, char **argv)
{
    static const char *const killed = "was killed by signal 9";
    const struct course courses[] = {
        {"hello/1", 1, .all_join = true, .signal = SIGKILL, .status = TUTTI_PEER_DEAD, .words = killed},
        {"hello/1", 1, .all_join = true, .late = true, .signal = SIGKILL, .status = TUTTI_PEER_DEAD, .words = killed},
        {"hello/1", 1, .signal = SIGKILL, .status = TUTTI_PEER_DEAD, .words = killed},
        {"hello/1", 1, .status = TUTTI_PEER_DEAD, .words = "has ended at once, with exit status 3"},
        {"ready/1", 1, .all_join = true, .calls = true, .signal = SIGKILL, .status = TUTTI_PEER_DEAD, .words = killed},
        {NULL, 1, .gives_up = true, .status = TUTTI_TIMEOUT, .words = "(rank 1 has aborted)"},
        {"hello/0", 0, .all_join = true, .signal = SIGSTOP, .status = TUTTI_TIMEOUT,
         .words = "did not leave its record"},
        {"hello/1", 1, .all_join = true, .signal = SIGSTOP, .status = TUTTI_TIMEOUT,
         .words = "did not offer its memory"},
    };
    int failures = 0;
    state = round_state_make();
    state->round.size = argc > 1 ? atoi(argv[1]) : 3;
    table = table_make();
    for (size_t i = 0; i < sizeof(courses) / sizeof(courses[0]); i++) {
        failures += run_repeatedly(&courses[i]);
    }
    return failures != 0;
}
