/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3,4 timeout=300 trees=release,debug,address,undefined */
/*
 * A rank's process ends while the world is being made. Who has left its record is known by then: the others hear of the end, by
 * number and process, long before their deadline, whether all have come or not. Who had done all its part is missed in the first
 * call only. The ranks meet at a table of this test, in which a process ends right behind the record that is asked for.
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

#define VICTIM  1
#define ENTRIES 128

struct entry {
    char key[128];
    char value[2048];
    size_t length;
};

/* In memory that all ranks share. */
struct table {
    pthread_mutex_t lock;
    int used;
    struct entry entries[ENTRIES];
};

struct course {
    const char *last;  /* record of the victim */
    bool all_come;     /* else the last rank does not */
    bool calls;        /* the others get the group, and the victim is missed in the first call */
    int ends_with;     /* the signal; 0: it exits with status 3 */
    const char *words; /* of the sentence that the others hear, behind rank and process */
};

static struct stage *stage;
static struct table *table;
static const struct course *course;

/* ---- the table ------------------------------------------------------------------------------------------------------- */

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

_Noreturn static void end(void)
{
    if (course->ends_with != 0) {
        raise(course->ends_with);
    }
    _exit(3);
}

static tutti_status set(void *user, const char *key, const void *value, size_t length)
{
    const int32_t *rank = user;
    tutti_status status = TUTTI_OK;
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
    if (*rank == VICTIM && ends_with(key, course->last)) {
        end();
    }
    return status;
}

static tutti_status get(void *user, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms)
{
    const int64_t until = now_ns() + (timeout_ms < 0 ? CALL_MS : timeout_ms) * 1000000;
    (void)user;
    for (bool late = false;; late = now_ns() >= until) {
        pthread_mutex_lock(&table->lock);
        const struct entry *e = find(key);
        if (e) {
            *length = e->length;
            memcpy(value, e->value, e->length < capacity ? e->length : capacity);
        }
        pthread_mutex_unlock(&table->lock);
        if (e || late) {
            return e ? TUTTI_OK : TUTTI_TIMEOUT;
        }
        pause_us(500);
    }
}

/* ---- the ranks ------------------------------------------------------------------------------------------------------- */

static void expect(struct seen *own, const char *where, tutti_status status, const tutti_error *e)
{
    char name[64];
    snprintf(name, sizeof(name), "rank %d (process %d) %s", VICTIM, (int)stage->pids[VICTIM], course->words);
    if (status != TUTTI_PEER_DEAD || e->suspect != VICTIM || !strstr(e->message, name)) {
        fault(own, "%s gives %s \"%s\", suspect %d, and not \"%s\"; ", where, tutti_status_name(status),
              status == TUTTI_OK ? "" : e->message, status == TUTTI_OK ? -1 : e->suspect, name);
    }
}

static void be_member(int32_t rank)
{
    struct seen *own = &stage->seen[rank];
    const tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .user = &rank, .set = set, .get = get};
    tutti_group *group = NULL;
    tutti_error e;
    const tutti_status status = tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = stage->round.size,
                                                        .store_callbacks = &callbacks, .timeout_ms = CALL_MS),
                                           &group, &e);
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

static int run(const struct course *c)
{
    const int32_t size = stage->round.size;
    int failures = 0;
    course = c;
    table->used = 0;
    memset(stage->seen, 0, sizeof(stage->seen));
    for (int32_t rank = 0; rank < (c->all_come ? size : size - 1); rank++) {
        /* the victim comes first, so that all know its process */
        const int32_t who = rank == 0 ? VICTIM : rank == VICTIM ? 0 : rank;
        const pid_t pid = fork();
        if (pid == 0) {
            stage->pids[who] = getpid();
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(PATIENCE_S);
            be_member(who);
        }
        stage->pids[who] = pid;
    }
    /* the victim's end is looked at last, so that its signal can be read as long as the others wait */
    for (int32_t rank = size - 1; rank >= 0; rank--) {
        const int32_t who = rank == 0 ? VICTIM : rank == VICTIM ? 0 : rank;
        const bool comes = c->all_come || who < size - 1;
        int code = 0;
        if (comes && waitpid(stage->pids[who], &code, 0) == stage->pids[who] && who != VICTIM &&
            (!atomic_load(&stage->seen[who].finished) || stage->seen[who].faults[0])) {
            fprintf(stderr, "victim's last record %s, rank %d of %d: ended with 0x%x: %s\n", c->last, who, size,
                    (unsigned)code, stage->seen[who].faults);
            failures++;
        }
    }
    return failures;
}

int main(int argc, char **argv)
{
    static const struct course courses[] = {
        {"hello/1", .all_come = true, .ends_with = SIGKILL, .words = "was killed by signal 9"},
        {"hello/1", .ends_with = SIGKILL, .words = "was killed by signal 9"},
        {"hello/1", .words = "has ended at once, with exit status 3"},
        {"ready/1", .all_come = true, .calls = true, .ends_with = SIGKILL, .words = "was killed by signal 9"},
    };
    int failures = 0;
    stage = stage_make();
    stage->round.size = argc > 1 ? atoi(argv[1]) : 3;
    table = table_make();
    for (size_t i = 0; i < sizeof(courses) / sizeof(courses[0]); i++) {
        failures += run(&courses[i]);
    }
    return failures != 0;
}
