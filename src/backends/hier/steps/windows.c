/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joined tensors on their way over the rails. A part may lie anywhere in the joined tensor and span several rows.
 * Windows of all parts are copied into scratch memory in rail order, so no step depends on which rank is on which host.
 * Cost: one more copy of all data on the ranks that have the joined tensor.
 */
#include "backends/hier/steps/windows.h"

#include <stdint.h>

#include "backends/hier/steps/slices.h"
#include "kernels/kernels.h"
#include "tensor/parts.h"

enum { LINE = 64 };

static size_t elements_of(const struct tti_windows *w, int32_t rank)
{
    return w->parts ? tti_parts_bytes(w->parts, rank) / w->unit : w->equal;
}

void tti_windows_make(const struct tti_hier *s, const tutti_parts *parts, size_t equal, size_t unit,
                      struct tti_windows *w)
{
    *w = (struct tti_windows){.s = s, .unit = unit, .equal = equal, .parts = parts};
    size_t most = 0;
    for (int32_t r = 0; r < s->size; r++) {
        const size_t n = elements_of(w, r);
        most = n > most ? n : most;
    }
    const size_t least = LINE / unit;
    const size_t step = s->chunk / ((size_t)s->size * unit);
    w->step = step > least ? step : least;
    w->step = w->step < most ? w->step : most; /* no more scratch memory than the parts need */
    w->count = most > 0 ? tti_hier_chunk_count(most, w->step) : 0;
}

/* Elements of a rank's part in window k. */
static size_t part_in_window(const struct tti_windows *w, size_t k, int32_t rank)
{
    const size_t n = elements_of(w, rank);
    const size_t from = k * w->step;
    return n <= from ? 0 : n - from < w->step ? n - from : w->step;
}

size_t tti_window_host(const struct tti_windows *w, size_t k, int32_t rail, int32_t host)
{
    const struct tti_hosts *h = &w->s->hosts;
    size_t n = 0;
    for (int32_t local_rank = rail; local_rank < tti_host_ranks(h, host); local_rank += h->rails) {
        n += part_in_window(w, k, tti_host_member(h, host, local_rank));
    }
    return n;
}

size_t tti_window_rail(const struct tti_windows *w, size_t k, int32_t rail)
{
    size_t n = 0;
    for (int32_t host = 0; host < w->s->hosts.count; host++) {
        n += tti_window_host(w, k, rail, host);
    }
    return n;
}

size_t tti_windows_rail_most(const struct tti_windows *w)
{
    const struct tti_hosts *h = &w->s->hosts;
    size_t ranks = 0;
    for (int32_t host = 0; host < h->count; host++) {
        ranks += (size_t)((tti_host_ranks(h, host) + h->rails - 1) / h->rails);
    }
    return ranks * w->step;
}

size_t tti_windows_most(const struct tti_windows *w)
{
    return (size_t)w->s->size * w->step;
}

/* Copies window k of a rank's part from its rows in `joined` to `packed`, or back. */
static void copy_part(const struct tti_windows *w, size_t k, int32_t rank, const tutti_parts *parts,
                      unsigned char *joined, unsigned char *packed, bool back)
{
    size_t from = k * w->step * w->unit;
    size_t left = part_in_window(w, k, rank) * w->unit;
    while (left > 0) {
        size_t n = left;
        unsigned char *at = tti_parts_at(parts, rank, joined, from, &n);
        tti_copy_cached(back ? at : packed, back ? packed : at, n);
        from += n;
        packed += n;
        left -= n;
    }
}

/* The same for all parts, in rail order. */
static void copy_all(const struct tti_windows *w, size_t k, const tutti_parts *parts, unsigned char *joined,
                     unsigned char *packed, bool back)
{
    const struct tti_hosts *h = &w->s->hosts;
    for (int32_t rail = 0; rail < h->rails; rail++) {
        for (int32_t host = 0; host < h->count; host++) {
            for (int32_t local_rank = rail; local_rank < tti_host_ranks(h, host); local_rank += h->rails) {
                const int32_t rank = tti_host_member(h, host, local_rank);
                copy_part(w, k, rank, parts, joined, packed, back);
                packed += part_in_window(w, k, rank) * w->unit;
            }
        }
    }
}

void tti_window_pack(const struct tti_windows *w, size_t k, const void *joined, const tutti_parts *parts,
                     unsigned char *to)
{
    copy_all(w, k, parts, (unsigned char *)(uintptr_t)joined, to, false);
}

void tti_window_unpack(const struct tti_windows *w, size_t k, const unsigned char *from, const tutti_parts *parts,
                       void *joined)
{
    copy_all(w, k, parts, joined, (unsigned char *)(uintptr_t)from, true);
}

/* ---- steps inside a host ----------------------------------------------------------------------------------------- */

/* An all_to_all inside the host. The caller has filled the lane's lists. */
static tutti_status exchange(struct tti_hier_call *c, const struct tti_windows *w, const void *src, void *dst,
                             tutti_error *error)
{
    const struct tti_lists *lists = &c->lane->inside;
    size_t sent = 0;
    size_t received = 0;
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&c->s->hosts, c->s->host); local_rank++) {
        sent += (size_t)lists->send_counts[local_rank];
        received += (size_t)lists->receive_counts[local_rank];
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_TO_ALL, c->op->dtype);
    op.src = src;
    op.dst = dst;
    op.send_parts = tti_hier_row(lists->send_counts, sent, w->unit);
    op.recv_parts = tti_hier_row(lists->receive_counts, received, w->unit);
    return tti_hier_run_intra_host(c, &op, error);
}

/* Fills `own` with the own part at the local rank whose rail it uses, and `shared` with the parts that use the rail of
 * this rank. */
static void list_sharers(const struct tti_hier_call *c, const struct tti_windows *w, size_t k, int64_t *own,
                         int64_t *shared)
{
    const struct tti_hier *s = c->s;
    const int32_t rails = s->hosts.rails;
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&s->hosts, s->host); local_rank++) {
        const int32_t rank = tti_host_member(&s->hosts, s->host, local_rank);
        own[local_rank] = local_rank == s->local_rank % rails ? (int64_t)part_in_window(w, k, s->rank) : 0;
        shared[local_rank] = s->rail && local_rank % rails == s->local_rank ? (int64_t)part_in_window(w, k, rank) : 0;
    }
}

/* Whether every rank of this host has a rail of its own. */
static bool is_level(const struct tti_hier *s)
{
    return tti_host_ranks(&s->hosts, s->host) == s->hosts.rails;
}

tutti_status tti_window_to_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *part,
                                void *shared, tutti_error *error)
{
    const unsigned char *from = part ? (const unsigned char *)part + k * w->step * w->unit : NULL;
    const size_t bytes = part_in_window(w, k, c->s->rank) * w->unit;
    if (!is_level(c->s)) {
        list_sharers(c, w, k, c->lane->inside.send_counts, c->lane->inside.receive_counts);
        return exchange(c, w, from, shared, error);
    }
    if (from && bytes > 0) {
        tti_copy_cached(shared, from, bytes);
    }
    return TUTTI_OK;
}

tutti_status tti_window_from_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *shared,
                                  void *part, tutti_error *error)
{
    unsigned char *to = part ? (unsigned char *)part + k * w->step * w->unit : NULL;
    const size_t bytes = part_in_window(w, k, c->s->rank) * w->unit;
    if (!is_level(c->s)) {
        list_sharers(c, w, k, c->lane->inside.receive_counts, c->lane->inside.send_counts);
        return exchange(c, w, shared, to, error);
    }
    if (to && bytes > 0) {
        tti_copy_cached(to, shared, bytes);
    }
    return TUTTI_OK;
}

/* Fills `own` with the window of the own rail at local rank `at`. On that rank, fills `all` with the windows of all
 * rails. */
static void list_rails(const struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t at, int64_t *own,
                       int64_t *all)
{
    const struct tti_hier *s = c->s;
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&s->hosts, s->host); local_rank++) {
        own[local_rank] = local_rank == at && s->rail ? (int64_t)tti_window_rail(w, k, s->local_rank) : 0;
        all[local_rank] =
            s->local_rank == at && local_rank < s->hosts.rails ? (int64_t)tti_window_rail(w, k, local_rank) : 0;
    }
}

tutti_status tti_window_gather_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t to,
                                     const void *rail, void *all, tutti_error *error)
{
    list_rails(c, w, k, to, c->lane->inside.send_counts, c->lane->inside.receive_counts);
    return exchange(c, w, rail, all, error);
}

tutti_status tti_window_scatter_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t from,
                                      const void *all, void *rail, tutti_error *error)
{
    list_rails(c, w, k, from, c->lane->inside.receive_counts, c->lane->inside.send_counts);
    return exchange(c, w, all, rail, error);
}
