/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening: first the engine inside this host, then the flat engine, then the rail. Each is opened only after the one
 * before is open on all ranks. So no rank waits in one engine for a rank that has failed in another.
 *
 * If all ranks are on one host, or each has its own, there is only the flat engine.
 */
#include "backends/hier/open.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/hier/types.h"
#include "backends/record.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/kept_memory.h"

/*
 * Of a chunk each rank sends this much to each other host. Connections take turns (gloo's receive_order.h), and TCP
 * needs some hundred KiB to use a link as well as the connection before. A chunk is at most MOST_CHUNK, since the steps
 * inside the hosts overlap with those of other chunks only.
 */
enum { PART = 512 << 10, MOST_CHUNK = 16 << 20 };

/* The result of a phase on one rank. The layout is fixed, since it is sent between processes. */
struct record {
    int32_t status;
    char message[300];
};

/* Publishes this rank's result of a phase, with its *error, and reads those of all other ranks. */
static tutti_status agree(const tutti_open_info *info, const char *phase, tutti_status mine, tutti_error *error)
{
    struct record own = {.status = mine};
    tutti_error second;
    if (mine != TUTTI_OK) {
        snprintf(own.message, sizeof(own.message), "%.*s", (int)sizeof(own.message) - 1, error->message);
    }
    tutti_status status = tti_record_publish(info, phase, &own, sizeof(own), &second);
    if (mine != TUTTI_OK) {
        return mine;
    }
    if (status != TUTTI_OK) {
        *error = second;
    }
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), info->timeout_ms);
    for (int32_t r = 0; r < info->world_size && status == TUTTI_OK; r++) {
        struct record record;
        status = tti_record_of(info, r, phase, &record, sizeof(record), deadline, error);
        record.message[sizeof(record.message) - 1] = '\0';
        if (status == TUTTI_OK && record.status != TUTTI_OK) {
            status =
                tti_error_set(error, tti_status_of_peer(record.status), "rank %d, %s: %s", r, phase, record.message);
            error->suspect = r;
        }
    }
    return status;
}

static tutti_status open_engine(const tutti_open_info *info, const char *backend, const char *scope,
                                const int32_t *ranks, int32_t count, const tutti_engine *parent, tutti_engine **engine,
                                tutti_error *error)
{
    const tutti_engine_wish wish = {
        .size = sizeof(wish), .count = count, .ranks = ranks, .backend = backend, .scope = scope, .parent = parent};
    return info->engines->open(info->engines->self, &wish, engine, error);
}

static tutti_status open_inner(const tutti_open_info *info, struct tti_hier *s, tutti_error *error)
{
    const char *backend = info->setting(info->settings, "hier.inner");
    const struct tti_hosts *h = &s->hosts;
    char scope[24];
    snprintf(scope, sizeof(scope), "i%d", s->host);
    return open_engine(info, backend, scope, h->members + h->begin[s->host], tti_host_ranks(h, s->host), NULL,
                       &s->inner, error);
}

static tutti_status open_flat(const tutti_open_info *info, struct tti_hier *s, tutti_error *error)
{
    const struct tti_hier *parent = info->parent_state;
    const bool one_host = s->hosts.count == 1;
    const char *backend = info->setting(info->settings, one_host ? "hier.inner" : "hier.outer");
    int32_t *ranks = calloc((size_t)s->size, sizeof(*ranks));
    if (!ranks) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", s->size);
    }
    for (int32_t r = 0; r < s->size; r++) {
        ranks[r] = r;
    }
    const tutti_status status =
        open_engine(info, backend, "f", ranks, s->size, parent ? parent->flat : NULL, &s->flat, error);
    free(ranks);
    return status;
}

static tutti_status open_rail(const tutti_open_info *info, struct tti_hier *s, tutti_error *error)
{
    const struct tti_hosts *h = &s->hosts;
    if (s->local_rank >= h->rails) {
        return TUTTI_OK;
    }
    char scope[24];
    int32_t *ranks = calloc((size_t)h->count, sizeof(*ranks));
    if (!ranks) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a rail of %d ranks", h->count);
    }
    for (int32_t host = 0; host < h->count; host++) {
        ranks[host] = tti_host_member(h, host, s->local_rank);
    }
    snprintf(scope, sizeof(scope), "r%d", s->local_rank);
    const tutti_status status =
        open_engine(info, s->flat->backend->name, scope, ranks, h->count, s->flat, &s->rail, error);
    free(ranks);
    return status;
}

static tutti_status open_engines(const tutti_open_info *info, struct tti_hier *s, tutti_error *error)
{
    const bool flat_only = s->hosts.count == 1 || s->hosts.count == s->size;
    tutti_status status = TUTTI_OK;
    if (!flat_only) {
        status = agree(info, "inside its host", open_inner(info, s, error), error);
    }
    if (status == TUTTI_OK) {
        status = open_flat(info, s, error);
    }
    if (!flat_only && (status == TUTTI_OK || s->inner)) {
        status = agree(info, "between hosts", status, error);
    }
    return status == TUTTI_OK && !flat_only ? open_rail(info, s, error) : status;
}

static bool lists_make(struct tti_lists *l, int32_t size)
{
    const size_t n = (size_t)size;
    l->send_counts = calloc(4 * n, sizeof(*l->send_counts));
    if (l->send_counts) {
        l->receive_counts = l->send_counts + n;
        l->send_displacements = l->send_counts + 2 * n;
        l->receive_displacements = l->send_counts + 3 * n;
    }
    return l->send_counts != NULL;
}

static struct tti_hier *make(const tutti_open_info *info)
{
    struct tti_hier *s = calloc(1, sizeof(*s) + (size_t)info->lanes * sizeof(s->lane[0]));
    if (!s) {
        return NULL;
    }
    s->rank = info->rank;
    s->size = info->world_size;
    s->lanes = info->lanes;
    pthread_mutex_init(&s->lock, NULL);
    bool made = tti_hosts_make(&s->hosts, info->hosts, s->size);
    for (int32_t i = 0; i < s->lanes; i++) {
        tti_helper_init(&s->lane[i].helper);
        made = lists_make(&s->lane[i].inside, s->size) && made;
        made = lists_make(&s->lane[i].between, s->size) && made;
    }
    if (!made) {
        tti_hier_close(s);
        return NULL;
    }
    s->host = s->hosts.host_of[s->rank];
    s->local_rank = s->hosts.local_rank_of[s->rank];
    s->chunk = (size_t)strtoll(info->setting(info->settings, "hier.chunk"), NULL, 10);
    if (s->chunk == 0) {
        const size_t chunk = (size_t)s->hosts.count * (size_t)s->hosts.rails * PART;
        s->chunk = chunk < MOST_CHUNK ? chunk : MOST_CHUNK;
    }
    return s;
}

tutti_status tti_hier_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    tutti_error details;
    if (!info->engines) {
        return tti_error_set(
            error, TUTTI_UNSUPPORTED,
            "backend hier consists of other engines and cannot be a part of another one; name another backend in "
            "hier.inner and hier.outer");
    }
    struct tti_hier *s = make(info);
    tutti_status status =
        s ? open_engines(info, s, &details)
          : tti_error_set(&details, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", info->world_size);
    if (status != TUTTI_OK) {
        if (s) {
            tti_hier_close(s);
        }
        if (error) {
            *error = details;
        }
        return status;
    }
    for (int32_t i = 0; i < s->lanes; i++) {
        s->lane[i].helper.runs_inline = (s->flat->capabilities & TUTTI_CAP_OWN_THREAD) != 0;
    }
    *state = s;
    return TUTTI_OK;
}

static void close_engine(tutti_engine *engine)
{
    if (engine) {
        engine->close(engine);
    }
}

void tti_hier_close(void *state)
{
    struct tti_hier *s = state;
    for (int32_t i = 0; i < s->lanes; i++) {
        tti_helper_end(&s->lane[i].helper);
        free(s->lane[i].inside.send_counts);
        free(s->lane[i].between.send_counts);
        tti_memory_free_or_keep(s->lane[i].scratch, atomic_load_explicit(&s->lane[i].in_use, memory_order_relaxed));
    }
    close_engine(s->rail);
    close_engine(s->inner);
    close_engine(s->flat);
    tti_hosts_free(&s->hosts);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
