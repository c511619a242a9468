/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank waits in which collective. An engine like NCCL notices at a deadline that a rank is missing, but not which
 * one. So a rank that has waited for a while puts a note into the store, under the number of the call. A rank whose
 * call times out reads the notes of the others, and names the ranks without one. Ranks that have arrived at the last
 * moment are still writing their notes, so the reader waits a little for them.
 *
 * A note has the number of its call in its key, so an old note says nothing about a new call. A new note on a lane
 * removes the old one. A short call costs nothing, a long one costs one note in the store.
 *
 * The store may not answer: its server can be stopped like any process, and may be the missing rank. So a thread makes
 * the requests. It exists only while there are some, and a caller waits for it no longer than its own limit.
 */
#include "core/membership/wait_registry.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/collectives.h>
#include <tutti/tensor.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/operation.h"
#include "base/process/thread.h"

#define MAGIC           0x6e6f7465u         /* "note" */
#define STORE_ANSWER_NS INT64_C(3000000000) /* for a store that answers slowly: behind the limit of the caller */
#define CLOSE_NS        INT64_C(2000000000)

/* A rank's note. Fixed layout: it is sent between processes. */
struct note {
    uint32_t magic;
    int32_t status; /* OK: the rank waits in the call; else it has failed there, and text says why */
    int32_t kind;
    int32_t dtype;
    int32_t redop;
    int32_t root;
    int64_t count;
    char text[224];
};

struct lane {
    bool pending; /* the note is not in the store yet */
    int64_t sequence;
    struct note note;
    int64_t put; /* the call whose note is in the store; 0: none. Only the thread uses it */
};

enum finding { UNKNOWN, ABSENT, WAITS, DIFFERS, FAILED };

struct query {
    struct query *next;
    int32_t lane;
    int64_t sequence;
    int64_t deadline_ns;
    struct note own;
    bool done;
    bool abandoned;      /* the caller waits no more: the thread frees the query */
    int32_t found[5];    /* how many ranks, by enum finding */
    int32_t first[5];    /* the first of them */
    struct note other;   /* of the first rank that has failed, or else of the first one in another call */
    tutti_error failure; /* of the store */
    char absent[96];     /* names of ranks */
};

struct tti_wait_registry {
    tutti_wait_registry table;
    struct tti_store *store;
    char name[64];
    int32_t rank;
    int32_t size;
    pthread_mutex_t lock; /* over the rest */
    pthread_cond_t changed;
    bool running;   /* the thread */
    bool closed;    /* the thread is to end */
    bool abandoned; /* and to free the registry, since tti_wait_registry_close has returned */
    struct lane lanes[TUTTI_MAX_LANES];
    struct query *queries;
};

static void wait_registry_free(struct tti_wait_registry *a)
{
    tti_store_release(a->store);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static void note_fill(struct note *note, const tutti_op *op, const tutti_error *failed)
{
    const tutti_op *whole = op->whole ? op->whole : op;
    const bool all_alike =
        op->kind == TUTTI_OP_ALL_REDUCE || op->kind == TUTTI_OP_REDUCE || op->kind == TUTTI_OP_BROADCAST;
    *note = (struct note){.magic = MAGIC,
                          .status = failed ? failed->status : TUTTI_OK,
                          .kind = op->kind,
                          .dtype = op->dtype,
                          .redop = op->redop,
                          .root = op->root,
                          .count = all_alike ? (int64_t)whole->count : 0};
    if (failed) {
        snprintf(note->text, sizeof(note->text), "%.*s", (int)sizeof(note->text) - 1, failed->message);
    }
}

static bool reduces(const struct note *n)
{
    return n->kind == TUTTI_OP_ALL_REDUCE || n->kind == TUTTI_OP_REDUCE || n->kind == TUTTI_OP_REDUCE_SCATTER;
}

static bool same_call(const struct note *a, const struct note *b)
{
    return a->kind == b->kind && (a->kind == TUTTI_OP_BARRIER || a->dtype == b->dtype) && a->count == b->count &&
           (!tti_operation_is_rooted(a->kind) || a->root == b->root) && (!reduces(a) || a->redop == b->redop);
}

/* "broadcast of 10 f32 from rank 0" */
static void note_text(const struct note *n, char *text, size_t capacity)
{
    char count[32] = "";
    char type[24] = "";
    char redop[24] = "";
    char root[24] = "";
    if (n->kind != TUTTI_OP_BARRIER) {
        const char *name = tutti_dtype_name(n->dtype);
        snprintf(type, sizeof(type), " of %s", name ? name : "?");
    }
    if (n->count > 0) {
        snprintf(count, sizeof(count), ", %lld elements", (long long)n->count);
    }
    if (reduces(n)) {
        const char *name = tutti_reduce_op_name(n->redop);
        snprintf(redop, sizeof(redop), " by %s", name ? name : "?");
    }
    if (tti_operation_is_rooted(n->kind)) {
        snprintf(root, sizeof(root), " with root %d", n->root);
    }
    snprintf(text, capacity, "%s%s%s%s%s", tutti_operation_name(n->kind), type, redop, root, count);
}

static void key_of(const struct tti_wait_registry *a, int32_t lane, int64_t sequence, int32_t rank,
                   char key[TTI_STORE_KEY_MAX + 1])
{
    snprintf(key, TTI_STORE_KEY_MAX + 1, "%s/note/%d/%lld/%d", a->name, lane, (long long)sequence, rank);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Replaces the lane's last note. Without the lock. */
static void put_note(struct tti_wait_registry *a, int32_t index, int64_t before, int64_t sequence,
                     const struct note *note)
{
    char key[TTI_STORE_KEY_MAX + 1];
    if (before > 0) {
        key_of(a, index, before, a->rank, key);
        tti_store_remove(a->store, key, NULL);
    }
    key_of(a, index, sequence, a->rank, key);
    tti_store_set(a->store, key, note, sizeof(*note), NULL);
}

/* Keeps the first note, or that of the first rank that has failed, which is nearer to the cause. Under the lock. */
static void count_finding(struct query *q, enum finding found, int32_t rank, const struct note *note)
{
    if (q->found[found]++ == 0) {
        q->first[found] = rank;
        if (found == FAILED || (found == DIFFERS && q->found[FAILED] == 0)) {
            q->other = *note;
        }
    }
    if (found == ABSENT) {
        const size_t used = strlen(q->absent);
        const bool fits = used + 16 < sizeof(q->absent);
        if (fits || used + 4 < sizeof(q->absent)) {
            snprintf(q->absent + used, sizeof(q->absent) - used, fits ? "%s%d" : "%.0s ...", used ? ", " : "", rank);
        }
    }
}

/* Reads the notes of all other ranks, waiting for missing ones until the deadline of the query. Without the lock. */
static void read_all_notes(struct tti_wait_registry *a, struct query *q)
{
    for (int32_t i = 1; i < a->size; i++) {
        const int32_t rank = (a->rank + i) % a->size;
        char key[TTI_STORE_KEY_MAX + 1];
        struct note note;
        size_t length = 0;
        tutti_error error;
        key_of(a, q->lane, q->sequence, rank, key);
        const tutti_status status =
            tti_store_get(a->store, key, &note, sizeof(note), &length, tti_remaining_ms(q->deadline_ns), &error);
        const bool read = status == TUTTI_OK && length == sizeof(note) && note.magic == MAGIC;
        note.text[sizeof(note.text) - 1] = '\0';
        if (status == TUTTI_OK && !read) {
            tti_error_set(
                &error, TUTTI_VERSION,
                "rank %d uses another version of Tutti, whose notes cannot be read: run the same version on all ranks",
                rank);
        }
        const enum finding found = status == TUTTI_TIMEOUT     ? ABSENT
                                   : !read                     ? UNKNOWN
                                   : note.status != TUTTI_OK   ? FAILED
                                   : same_call(&note, &q->own) ? WAITS
                                                               : DIFFERS;
        pthread_mutex_lock(&a->lock);
        count_finding(q, found, rank, &note);
        if (found == UNKNOWN) {
            q->failure = error;
        }
        const bool go_on = !q->abandoned && found != UNKNOWN;
        pthread_mutex_unlock(&a->lock);
        if (!go_on) {
            return;
        }
    }
}

/* Handles one pending note or query; false: there is none. Under the lock, which it releases meanwhile. */
static bool do_one(struct tti_wait_registry *a)
{
    for (int32_t i = 0; i < TUTTI_MAX_LANES; i++) {
        struct lane *lane = &a->lanes[i];
        if (lane->pending) {
            const struct lane copy = *lane;
            lane->pending = false;
            pthread_mutex_unlock(&a->lock);
            put_note(a, i, copy.put, copy.sequence, &copy.note);
            pthread_mutex_lock(&a->lock);
            lane->put = copy.sequence;
            return true;
        }
    }
    struct query *q = a->queries;
    if (!q) {
        return false;
    }
    a->queries = q->next;
    pthread_mutex_unlock(&a->lock);
    read_all_notes(a, q);
    pthread_mutex_lock(&a->lock);
    q->done = true;
    pthread_cond_broadcast(&a->changed);
    if (q->abandoned) {
        free(q);
    }
    return true;
}

static void *serve(void *argument)
{
    struct tti_wait_registry *a = argument;
    pthread_mutex_lock(&a->lock);
    while (!a->closed && do_one(a)) {
    }
    a->running = false;
    const bool last = a->abandoned;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (last) {
        wait_registry_free(a);
    }
    return NULL;
}

/* Starts the thread if it does not run. Under the lock. False: there is no thread. */
static bool start(struct tti_wait_registry *a)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (a->running || pthread_attr_init(&attributes) != 0) {
        return a->running;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    a->running = tti_thread_create(&thread, &attributes, serve, a) == 0;
    pthread_attr_destroy(&attributes);
    return a->running;
}

/* ---- reporting --------------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void post(struct tti_wait_registry *a, const tutti_op *op, const tutti_error *failed)
{
    struct lane *lane = &a->lanes[op->lane];
    lane->sequence = op->sequence;
    note_fill(&lane->note, op, failed);
    lane->pending = true;
    lane->pending = start(a);
}

static void report(void *self, const tutti_op *op, const tutti_error *failed)
{
    struct tti_wait_registry *a = self;
    pthread_mutex_lock(&a->lock);
    post(a, op, failed);
    pthread_mutex_unlock(&a->lock);
}

/* ---- querying ---------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void append(tutti_error *error, const char *format, ...)
{
    const size_t used = strlen(error->message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message + used, sizeof(error->message) - used, format, arguments);
    va_end(arguments);
}

/* Adds the findings to the sentence. `unanswered`: why the query has no result; NULL if it has one. */
static void conclude(const struct query *q, const char *unanswered, tutti_error *error)
{
    const int32_t absent = q->found[ABSENT];
    char call[128];
    const char *sign = ": ";
    int32_t suspect = -1;
    if (q->found[FAILED] > 0) {
        append(error, "%srank %d has failed in it: %s", sign, q->first[FAILED], q->other.text);
        suspect = q->first[FAILED];
        sign = "; ";
    } else if (q->found[DIFFERS] > 0) {
        note_text(&q->other, call, sizeof(call));
        append(error, "%srank %d is in %s there", sign, q->first[DIFFERS], call);
        note_text(&q->own, call, sizeof(call));
        append(error, ", this rank in %s", call);
        suspect = q->first[DIFFERS];
        sign = "; ";
    }
    if (absent > 0) { /* a rank that need not wait for the root or the leaves may have left the call already */
        append(error, "%s%s %s %s", sign, absent == 1 ? "rank" : "ranks", q->absent,
               tti_operation_is_rooted(q->own.kind) ? (absent == 1 ? "is not in it" : "are not in it")
                                                    : (absent == 1 ? "has not arrived" : "have not arrived"));
        suspect = suspect < 0 ? q->first[ABSENT] : suspect;
        sign = "; ";
    }
    if (unanswered || q->found[UNKNOWN] > 0) {
        append(error, "%swhich rank is missing is unknown: %s", sign, unanswered ? unanswered : q->failure.message);
    } else if (suspect < 0) {
        append(error, "%sall ranks are in it, so a device or the network between them is stuck", sign);
    }
    error->suspect = error->suspect < 0 ? suspect : error->suspect;
}

/* Takes the query out of the list; false: the thread handles it. Under the lock. */
static bool unlink_query(struct tti_wait_registry *a, const struct query *q)
{
    struct query **place = &a->queries;
    while (*place && *place != q) {
        place = &(*place)->next;
    }
    if (*place) {
        *place = q->next;
        return true;
    }
    return false;
}

static void find_missing(void *self, const tutti_op *op, int64_t timeout_ms, tutti_error *error)
{
    struct tti_wait_registry *a = self;
    struct query *q = calloc(1, sizeof(*q));
    if (!q) {
        append(error, ": no memory to ask which rank is missing");
        return;
    }
    q->lane = op->lane;
    q->sequence = op->sequence;
    q->deadline_ns = tti_deadline_ns(tti_now_ns(), timeout_ms);
    note_fill(&q->own, op, NULL);
    const int64_t until_ns =
        q->deadline_ns < TTI_NEVER - STORE_ANSWER_NS ? q->deadline_ns + STORE_ANSWER_NS : TTI_NEVER;
    const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int waited = 0;
    pthread_mutex_lock(&a->lock);
    q->next = a->queries;
    a->queries = q;
    post(a, op, NULL); /* other ranks may query this one, too */
    while (a->running && !q->done && waited == 0) {
        waited = pthread_cond_timedwait(&a->changed, &a->lock, &until);
    }
    const struct query answer = *q;
    const char *unanswered = q->done      ? NULL
                             : a->running ? "the store does not answer"
                                          : "no thread can be started for it";
    q->abandoned = !q->done && !unlink_query(a, q);
    const bool ours = !q->abandoned;
    pthread_mutex_unlock(&a->lock);
    if (ours) {
        free(q);
    }
    conclude(&answer, unanswered, error);
}

/* ---- life cycle -------------------------------------------------------------------------------------------------- */

struct tti_wait_registry *tti_wait_registry_open(struct tti_store *store, const char *name, int32_t rank, int32_t size)
{
    struct tti_wait_registry *a = calloc(1, sizeof(*a));
    pthread_condattr_t clock;
    if (!a) {
        return NULL;
    }
    tti_store_retain(store);
    a->store = store;
    a->rank = rank;
    a->size = size;
    snprintf(a->name, sizeof(a->name), "%s", name);
    a->table =
        (tutti_wait_registry){.size = sizeof(a->table), .self = a, .report = report, .find_missing = find_missing};
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &clock);
    pthread_condattr_destroy(&clock);
    return a;
}

const tutti_wait_registry *tti_wait_registry_table(const struct tti_wait_registry *wait_registry)
{
    return wait_registry ? &wait_registry->table : NULL;
}

void tti_wait_registry_close(struct tti_wait_registry *a)
{
    if (!a) {
        return;
    }
    const int64_t until_ns = tti_now_ns() + CLOSE_NS;
    const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int waited = 0;
    pthread_mutex_lock(&a->lock);
    a->closed = true;
    while (a->running && waited == 0) {
        waited = pthread_cond_timedwait(&a->changed, &a->lock, &until);
    }
    a->abandoned = a->running;
    const bool ours = !a->abandoned;
    pthread_mutex_unlock(&a->lock);
    if (ours) {
        wait_registry_free(a);
    }
}
