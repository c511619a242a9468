/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing together. A group has up to three engines here, and other ranks wait in others; so who learns that one has
 * failed fails all it has, the flat one first. That one has every rank under its own number, so it carries the cause to
 * ranks whose engines have nothing to do with the culprit: they look there before they name somebody themselves.
 *
 * A rank that is late is missed by those who wait for it in the first step, and at the same moment by all who wait for
 * these, or for somebody who does. So whoever times out first listens for a while whether somebody knows better: the later
 * the step, the longer. It looks every 10 ms, 70 times at most, in a call that has failed already; a look is a probe of the flat
 * engine. It cannot sleep instead until there is news: what would wake it comes over the flat engine's network, and Gloo and
 * MPI wait for that in calls only, of which this rank has none to make.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/hier/state.h"
#include "base/clock.h"
#include "base/error.h"

#define POLL_MS 10 /* between two looks */

/* ---- words --------------------------------------------------------------------------------------------------------- */

/* What begins where a sentence is in the words of the group already: a cause that another rank has passed on. */
static const char *translated_part(const char *text)
{
    const char *inside = strstr(text, "inside host ");
    const char *between = strstr(text, "between hosts: ");
    const char *first = !inside || (between && between < inside) ? between : inside;
    return first ? first : text + strlen(text);
}

/* Behind "rank" or "ranks" and a blank, if that begins here; else NULL. */
static const char *after_rank_word(const char *begin, const char *at)
{
    if (strncmp(at, "rank", 4) != 0 || (at > begin && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))) {
        return NULL;
    }
    at += at[4] == 's' ? 5 : 4;
    return *at == ' ' && isdigit((unsigned char)at[1]) ? at + 1 : NULL;
}

/* How long a word between two numbers of a list is; 0: the list ends here. */
static size_t separator_length(const char *at)
{
    static const char *const separators[] = {", ", " and ", " to ", " or "};
    for (size_t i = 0; i < sizeof(separators) / sizeof(separators[0]); i++) {
        const size_t length = strlen(separators[i]);
        if (strncmp(at, separators[i], length) == 0 && isdigit((unsigned char)at[length])) {
            return length;
        }
    }
    return 0;
}

struct sentence {
    char *text;
    size_t capacity;
    size_t length;
};

static void append(struct sentence *s, const char *from, size_t length)
{
    const size_t room = s->capacity - 1 - s->length;
    length = length < room ? length : room;
    memcpy(s->text + s->length, from, length);
    s->length += length;
    s->text[s->length] = '\0';
}

/* A list of numbers; returns what is behind it. */
static const char *append_numbers(struct sentence *s, const char *at, const int32_t *ranks, int32_t count)
{
    for (;;) {
        char *end;
        char number[24];
        const long rank = strtol(at, &end, 10);
        if (rank < count) {
            const int n = snprintf(number, sizeof(number), "%d", ranks[rank]);
            append(s, number, n > 0 ? (size_t)n : 0);
        } else {
            append(s, at, (size_t)(end - at));
        }
        const size_t more = separator_length(end);
        append(s, end, more);
        at = end + more;
        if (more == 0) {
            return at;
        }
    }
}

void tti_hier_translate(const char *from, const int32_t *ranks, int32_t count, char *to, size_t capacity)
{
    struct sentence s = {.text = to, .capacity = capacity};
    const char *end = translated_part(from);
    to[0] = '\0';
    for (const char *at = from; at < end;) {
        const char *numbers = after_rank_word(from, at);
        if (numbers) {
            append(&s, at, (size_t)(numbers - at));
            at = append_numbers(&s, numbers, ranks, count);
        } else {
            append(&s, at++, 1);
        }
    }
    append(&s, end, strlen(end));
}

/* The number in the group of a rank of an engine; -1: there is no such rank. */
static int32_t number_of(const struct tti_hier *s, const tutti_engine *engine, int32_t rank)
{
    const struct tti_hosts *h = &s->hosts;
    if (rank < 0 || rank >= engine->world_size || engine == s->flat) {
        return engine == s->flat ? rank : -1;
    }
    return engine == s->inner ? tti_host_member(h, s->host, rank) : tti_host_member(h, rank, s->local_rank);
}

/* Of all its ranks, for the caller to free; NULL: they are the same, or there is no memory. */
static int32_t *numbers_of(const struct tti_hier *s, const tutti_engine *engine)
{
    int32_t *ranks = engine == s->flat ? NULL : calloc((size_t)engine->world_size, sizeof(*ranks));
    for (int32_t i = 0; ranks && i < engine->world_size; i++) {
        ranks[i] = number_of(s, engine, i);
    }
    return ranks;
}

/* The number that a rank of the group has in an engine; -1: it is not in it. */
static int32_t rank_in(const struct tti_hier *s, const tutti_engine *engine, int32_t rank)
{
    const struct tti_hosts *h = &s->hosts;
    if (rank < 0 || rank >= s->size || engine == s->flat) {
        return rank;
    }
    if (engine == s->inner) {
        return h->host_of[rank] == s->host ? h->local_rank_of[rank] : -1;
    }
    return h->local_rank_of[rank] == s->local_rank ? h->host_of[rank] : -1;
}

/* Puts an engine's error in the words of the group. */
static void translate_error(const struct tti_hier *s, const tutti_engine *engine, tutti_error *error)
{
    int32_t *ranks = numbers_of(s, engine);
    char text[sizeof(error->message)];
    if (ranks) {
        tti_hier_translate(error->message, ranks, engine->world_size, text, sizeof(text));
    } else {
        snprintf(text, sizeof(text), "%s", error->message);
    }
    free(ranks);
    error->suspect = number_of(s, engine, error->suspect);
    if (!s->inner || *translated_part(text) != '\0') {
        snprintf(error->message, sizeof(error->message), "%s", text);
    } else if (engine == s->inner) {
        snprintf(error->message, sizeof(error->message), "inside host %d of %d: %.400s", s->host, s->hosts.count, text);
    } else {
        snprintf(error->message, sizeof(error->message), "between hosts: %.400s", text);
    }
    error->scope = TUTTI_SCOPE_GROUP;
}

/* ---- the failure --------------------------------------------------------------------------------------------------- */

static bool has_failed(const struct tti_hier *s)
{
    /* acquire: pairs with the release in remember(); the cause is complete */
    return atomic_load_explicit(&s->failed, memory_order_acquire) != 0;
}

/* The first cause that this rank learns of is the one it keeps. */
static void record_cause(struct tti_hier *s, const tutti_error *cause)
{
    pthread_mutex_lock(&s->lock);
    if (!has_failed(s)) {
        s->cause = *cause;
        s->cause.scope = TUTTI_SCOPE_GROUP;
        /* release: pairs with the acquire in has_failed */
        atomic_store_explicit(&s->failed, 1, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
}

static tutti_status failure_of(const tutti_engine *engine, tutti_error *error)
{
    return engine->backend->ops->failure ? engine->backend->ops->failure(engine->state, error) : TUTTI_OK;
}

static void abort_engine(const struct tti_hier *s, const tutti_engine *engine, int32_t lane, const tutti_error *cause)
{
    tutti_error e = *cause;
    if (!engine || !engine->backend->ops->abort || failure_of(engine, NULL) != TUTTI_OK) {
        return;
    }
    e.suspect = rank_in(s, engine, cause->suspect);
    if (cause->suspect >= 0 && e.suspect < 0) {
        e.suspect = engine->rank; /* nobody there is to blame, so ask this one */
    }
    /* what goes wrong inside one rank is to the others that the group is no more */
    const bool is_common = e.status == TUTTI_NO_MEMORY || e.status == TUTTI_MISMATCH || e.status >= TUTTI_TIMEOUT;
    e.status = is_common ? e.status : TUTTI_REVOKED;
    engine->backend->ops->abort(engine->state, lane, &e);
}

static void abort_all(struct tti_hier *s, int32_t lane, const tutti_error *cause)
{
    abort_engine(s, s->flat, lane, cause);
    abort_engine(s, s->inner, lane, cause);
    abort_engine(s, s->rail, lane, cause);
}

/* What the others have told through the flat engine. A probe looks what others say, a failure what this rank has heard. */
static bool poll_failure(const struct tti_hier *s, tutti_error *cause)
{
    const tutti_backend_ops *ops = s->flat->backend->ops;
    int32_t found = 0;
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_error unused;
    if (ops->probe) {
        ops->probe(s->flat->state, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &found, &message, &unused);
    }
    return failure_of(s->flat, cause) != TUTTI_OK;
}

static bool poll_for_cause(const struct tti_hier *s, int64_t poll_ms, tutti_error *cause)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    const int64_t until_ns = tti_now_ns() + poll_ms * 1000000;
    bool found_cause = poll_failure(s, cause);
    while (!found_cause && !has_failed(s) && tti_now_ns() < until_ns) {
        nanosleep(&pause, NULL);
        found_cause = poll_failure(s, cause);
    }
    return found_cause;
}

static void replace(tutti_error *error, tutti_error cause)
{
    cause.elapsed_ms = error->elapsed_ms;
    *error = cause;
}

tutti_status tti_hier_fail(struct tti_hier *s, const tutti_engine *engine, int32_t lane, int64_t poll_ms,
                           tutti_error *error)
{
    tutti_error cause;
    /* revoked by one that has timed out, and listens, too */
    poll_ms = error->status == TUTTI_TIMEOUT || error->status == TUTTI_REVOKED ? poll_ms : 0;
    if (engine != s->flat && error->status != TUTTI_REVOKED && has_failed(s)) {
        /* This rank's other thread was first. Who has failed this engine is no more than a messenger, perhaps of the same. */
        replace(error, s->cause);
        return error->status;
    }
    if (!has_failed(s) && engine != s->flat && poll_for_cause(s, poll_ms, &cause)) {
        replace(error, cause);
        engine = s->flat; /* its words */
    }
    translate_error(s, engine, error);
    record_cause(s, error);
    abort_all(s, lane, error);
    return error->status;
}

tutti_status tti_hier_usable(struct tti_hier *s, tutti_error *error)
{
    if (!has_failed(s)) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_REVOKED, "the group failed earlier: %.330s; make a new group of the ranks that are left",
                  s->cause.message);
    if (error) {
        error->scope = TUTTI_SCOPE_GROUP;
        error->suspect = s->cause.suspect;
        error->vendor_code = s->cause.status;
    }
    return TUTTI_REVOKED;
}

/* Aborts an engine whose ranks may know who is missing, and takes that over. */
static void query_suspect(const struct tti_hier *s, const tutti_engine *engine, int32_t lane, tutti_error *cause)
{
    tutti_error answer;
    abort_engine(s, engine, lane, cause);
    if (engine && cause->suspect < 0 && failure_of(engine, &answer) != TUTTI_OK && answer.suspect >= 0) {
        translate_error(s, engine, &answer);
        snprintf(cause->message, sizeof(cause->message), "%s", answer.message);
        cause->suspect = answer.suspect;
    }
}

void tti_hier_abort(void *state, int32_t lane, const tutti_error *cause)
{
    struct tti_hier *s = state;
    tutti_error e = *cause;
    if (e.suspect < 0) {
        query_suspect(s, s->inner, lane, &e);
        query_suspect(s, s->rail, lane, &e);
        if (!s->inner) {
            query_suspect(s, s->flat, lane, &e);
        }
    }
    record_cause(s, &e);
    abort_all(s, lane, &e);
}

tutti_status tti_hier_failure(void *state, tutti_error *error)
{
    struct tti_hier *s = state;
    tutti_error found_cause;
    if (!has_failed(s) && failure_of(s->flat, &found_cause) != TUTTI_OK) {
        tti_hier_fail(s, s->flat, TUTTI_LANE_NONE, 0, &found_cause);
    }
    if (!has_failed(s)) {
        return error ? tti_error_clear(error) : TUTTI_OK;
    }
    if (error) {
        *error = s->cause;
    }
    return s->cause.status;
}
