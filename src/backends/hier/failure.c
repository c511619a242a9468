/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing together. A group has up to three engines on each rank, and other ranks wait in other engines. A rank that
 * learns that one engine has failed aborts all its engines, the flat one first. The flat engine joins all ranks, so it
 * carries the cause to ranks that share no other engine with the suspect.
 *
 * An error is an engine's or the group's (TTI_HIER_NAME in its field `backend`). to_group makes the second from the
 * first, on the rank that notices the failure. Engines carry it to other ranks with status, suspect and this mark;
 * while it is on its way, the suspect is numbered as in the engine.
 *
 * If a rank is late, the ranks that wait for it in the first step time out. At the same moment those in later steps
 * time out, which wait for other ranks. So a rank that times out polls the flat engine every 10 ms for a cause from a
 * rank that is nearer to the late one: the later the step, the more often, up to 70 times, in a call that has failed
 * already. It cannot sleep on an event, since Gloo and MPI make progress on the network in calls only.
 */
#include "backends/hier/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/hier/renumber.h"
#include "base/error.h"

#define POLL_MS 10

/* ---- errors of engines and of the group -------------------------------------------------------------------------- */

/* The rank in the group of a rank of an engine; -1: there is no such rank. */
static int32_t number_of(const struct tti_hier *s, const tutti_engine *engine, int32_t rank)
{
    const struct tti_hosts *h = &s->hosts;
    if (rank < 0 || rank >= engine->world_size || engine == s->flat) {
        return engine == s->flat ? rank : -1;
    }
    return engine == s->inner ? tti_host_member(h, s->host, rank) : tti_host_member(h, rank, s->local_rank);
}

/* The same for all ranks of the engine; the caller frees the list. NULL: they are equal, or there is no memory. */
static int32_t *numbers_of(const struct tti_hier *s, const tutti_engine *engine)
{
    int32_t *ranks = engine == s->flat ? NULL : calloc((size_t)engine->world_size, sizeof(*ranks));
    for (int32_t i = 0; ranks && i < engine->world_size; i++) {
        ranks[i] = number_of(s, engine, i);
    }
    return ranks;
}

/* The rank in an engine of a rank of the group; -1: the engine does not have it. */
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

/* Whether the sentence uses the ranks of the group. */
static bool is_of_group(const tutti_error *error)
{
    return strncmp(error->backend, TTI_HIER_NAME, sizeof(error->backend)) == 0;
}

static void mark_of_group(tutti_error *error)
{
    snprintf(error->backend, sizeof(error->backend), "%s", TTI_HIER_NAME);
    error->scope = TUTTI_SCOPE_GROUP;
}

/* Writes an engine's sentence as one of the group, with its origin in front. */
static void write_sentence(const struct tti_hier *s, const tutti_engine *engine, tutti_error *error)
{
    int32_t *ranks = numbers_of(s, engine);
    char text[sizeof(error->message)];
    tti_hier_renumber(error->message, ranks, ranks ? engine->world_size : 0, text, sizeof(text));
    free(ranks);
    if (!s->inner) {
        snprintf(error->message, sizeof(error->message), "%s", text);
    } else if (engine == s->inner) {
        snprintf(error->message, sizeof(error->message), "inside host %d of %d: %.400s", s->host, s->hosts.count, text);
    } else {
        snprintf(error->message, sizeof(error->message), "between hosts: %.400s", text);
    }
}

/* Turns an engine's error into one of the group. */
static void to_group(const struct tti_hier *s, const tutti_engine *engine, tutti_error *error)
{
    error->suspect = number_of(s, engine, error->suspect);
    if (!is_of_group(error)) {
        write_sentence(s, engine, error);
    }
    mark_of_group(error);
}

/* ---- the failure ------------------------------------------------------------------------------------------------- */

static bool has_failed(const struct tti_hier *s)
{
    /* acquire: pairs with the release in record_cause; the cause is complete */
    return atomic_load_explicit(&s->failed, memory_order_acquire) != 0;
}

/* Records the first cause that this rank learns of. */
static void record_cause(struct tti_hier *s, const tutti_error *cause)
{
    pthread_mutex_lock(&s->lock);
    if (!has_failed(s)) {
        s->cause = *cause;
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
        e.suspect = engine->rank; /* the suspect is in no rank of the engine: this rank reports for it */
    }
    /* a failure of this rank alone means to the other ranks that the group is revoked */
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

/* Whether another rank has reported a cause through the flat engine. The probe receives reports, failure() returns
 * them. */
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

static bool poll_for_cause(const struct tti_hier *s, int32_t polls, tutti_error *cause)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    bool found_cause = poll_failure(s, cause);
    for (int32_t i = 0; i < polls && !found_cause && !has_failed(s); i++) {
        nanosleep(&pause, NULL);
        found_cause = poll_failure(s, cause);
    }
    return found_cause;
}

/* If other ranks have failed the engine, it reports REVOKED and quotes the cause. If the cause is an error of the
 * group, this error becomes one, too: its quote uses the ranks of the group. */
static void requote(const tutti_engine *engine, tutti_error *error)
{
    tutti_error cause;
    if (error->status == TUTTI_REVOKED && !is_of_group(error) && failure_of(engine, &cause) != TUTTI_OK &&
        is_of_group(&cause)) {
        tti_error_set(error, TUTTI_REVOKED, "%s%.300s",
                      tti_error_quotes_failure(&cause) ? "" : "the group has failed: ", cause.message);
        error->suspect = cause.suspect;
        mark_of_group(error);
    }
}

static void replace(tutti_error *error, tutti_error cause)
{
    cause.elapsed_ms = error->elapsed_ms;
    *error = cause;
}

tutti_status tti_hier_fail(struct tti_hier *s, const tutti_engine *engine, int32_t lane, int32_t polls,
                           tutti_error *error)
{
    tutti_error cause;
    /* REVOKED: perhaps by a rank that has timed out and polls, too */
    polls = error->status == TUTTI_TIMEOUT || error->status == TUTTI_REVOKED ? polls : 0;
    if (engine != s->flat && error->status != TUTTI_REVOKED && has_failed(s)) {
        /* This rank's other thread was first, and this failure follows from that one or has the same cause. */
        replace(error, s->cause);
        return error->status;
    }
    if (error->status == TUTTI_REVOKED && has_failed(s)) {
        return tti_hier_usable(s, error);
    }
    if (!has_failed(s) && engine != s->flat && poll_for_cause(s, polls, &cause)) {
        replace(error, cause);
        engine = s->flat; /* which has carried it */
    }
    requote(engine, error);
    to_group(s, engine, error);
    record_cause(s, error);
    abort_all(s, lane, error);
    return error->status;
}

tutti_status tti_hier_usable(struct tti_hier *s, tutti_error *error)
{
    return has_failed(s) ? tti_error_revoked(error, &s->cause) : TUTTI_OK;
}

/* Aborts an engine. It may have recorded which rank is missing in the call: that becomes the suspect. If it suspects
 * this rank itself, no rank is missing there, but one may be missing in another engine. */
static void query_suspect(const struct tti_hier *s, const tutti_engine *engine, int32_t lane, tutti_error *cause)
{
    tutti_error answer;
    const bool failed_before = engine && failure_of(engine, NULL) != TUTTI_OK;
    abort_engine(s, engine, lane, cause);
    if (!engine || cause->suspect >= 0 || failure_of(engine, &answer) == TUTTI_OK || answer.suspect < 0 ||
        (answer.suspect == engine->rank && !failed_before)) {
        return;
    }
    cause->suspect = number_of(s, engine, answer.suspect);
    if (failed_before || engine == s->flat) {
        to_group(s, engine, &answer);
        snprintf(cause->message, sizeof(cause->message), "%s", answer.message);
    } else if (cause->suspect >= 0) { /* the engine's sentence is this one and a list of its ranks */
        const size_t used = strlen(cause->message);
        snprintf(cause->message + used, sizeof(cause->message) - used, "; not arrived there: rank %d on host %d of %d",
                 cause->suspect, s->hosts.host_of[cause->suspect], s->hosts.count);
    }
}

void tti_hier_abort(void *state, int32_t lane, const tutti_error *cause)
{
    struct tti_hier *s = state;
    tutti_error e = *cause;
    mark_of_group(&e);
    if (e.suspect < 0) {
        query_suspect(s, s->inner, lane, &e);
        query_suspect(s, s->rail, lane, &e);
        if (!s->inner) {
            query_suspect(s, s->flat, lane, &e);
        }
    }
    tutti_error own = e;
    if (own.suspect < 0 && lane >= 0) {
        own.suspect = s->rank; /* no other rank is late on the lane; ranks that get the cause suspect its sender */
    }
    record_cause(s, &own);
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
