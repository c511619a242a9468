/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a vector is cut: into chunks that overlap in time, and each chunk into one slice for every rail. Slices are whole
 * units of 128 bytes, which are pairs of cache lines and 32 values of f32, a block of the fp8 wire.
 *
 * A short vector uses fewer rails, since each rail sends messages of its own to all other hosts. A message carries a
 * part of the slice, one for each host. Parts of a slice have at least 2 KiB, so that headers and system calls do not
 * cost more than the data: slices have at least 4 KiB with two hosts, 16 KiB with eight, and 32 KiB with many.
 */
#include "backends/hier/steps/slices.h"

enum { UNIT = 128, LEAST_PART = 2048, LEAST_SLICE = 32768 };

size_t tti_hier_chunk_elements(const struct tti_hier *s, size_t item)
{
    const size_t units = s->chunk / UNIT > 0 ? s->chunk / UNIT : 1;
    return units * UNIT / item;
}

size_t tti_hier_chunk_count(size_t count, size_t chunk)
{
    return count / chunk + (count % chunk != 0);
}

static size_t least_bytes(const struct tti_hier *s)
{
    const size_t parts = (size_t)LEAST_PART * (size_t)s->hosts.count;
    return parts < LEAST_SLICE ? parts : LEAST_SLICE;
}

static size_t each_of(const struct tti_hier *s, size_t count, size_t item)
{
    size_t rails = count * item / least_bytes(s);
    rails = rails < 1 ? 1 : rails > (size_t)s->hosts.rails ? (size_t)s->hosts.rails : rails;
    const size_t unit = UNIT / item;
    return (count + rails * unit - 1) / (rails * unit) * unit;
}

void tti_slices_cut(const struct tti_hier *s, size_t count, size_t item, size_t k, struct tti_slices *slices,
                    int64_t *counts)
{
    const size_t chunk = tti_hier_chunk_elements(s, item);
    const size_t from = k * chunk;
    const size_t n = count - from < chunk ? count - from : chunk;
    const size_t each = each_of(s, n, item);
    *slices = (struct tti_slices){.from = from, .count = n, .each = each, .begin = n};
    const int32_t local_ranks = tti_host_ranks(&s->hosts, s->host);
    size_t at = 0;
    for (int32_t local_rank = 0; local_rank < local_ranks; local_rank++) {
        const size_t own = n - at < each ? n - at : each;
        if (local_rank == s->local_rank) {
            slices->begin = at;
            slices->own = own;
        }
        if (counts) {
            counts[local_rank] = (int64_t)own;
        }
        at += own; /* ranks without a rail have no slice: their local ranks are the last ones */
    }
}

size_t tti_slices_most(const struct tti_hier *s, size_t item)
{
    /* a chunk that is just too short for one more rail has longer slices than a full chunk */
    const size_t chunk = tti_hier_chunk_elements(s, item);
    const size_t least = 2 * least_bytes(s) / item;
    const size_t whole = each_of(s, chunk, item);
    return whole > least ? whole : least;
}
