/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address ranges of this process that are heap memory: which ranges may become heap memory, which parts still are,
 * and what a forked child gets.
 */
#ifndef TTI_BACKENDS_SHM_HEAP_RANGES_H
#define TTI_BACKENDS_SHM_HEAP_RANGES_H

#include "backends/shm/heap/state.h"

/* Takes [region->base, + bytes) for the region, among the ranges of all heaps of this process: false if a part is
 * taken. */
bool tti_heap_claim(struct tti_heap_region *region);

/* The file of a claimed region. From tti_heap_claim_overlaid on, a forked child gets a private copy of the range. */
tutti_status tti_heap_claim_file(struct tti_heap_region *region, int fd, tutti_error *error);
void tti_heap_claim_overlaid(struct tti_heap_region *region);

void tti_heap_unclaim(struct tti_heap_region *region);

/* Whether a file can be mapped over [begin, begin + bytes), or why not; and whether huge pages were asked for there. */
tutti_status tti_heap_check_range(const unsigned char *begin, size_t bytes, bool *huge, tutti_error *error);

struct tti_heap_part {
    unsigned char *begin;
    size_t bytes;
};

/* The parts of the range that still are the region's file at its right place, in an array that the caller frees. */
tutti_status tti_heap_parts(const struct tti_heap_region *region, struct tti_heap_part **parts, size_t *count,
                            tutti_error *error);

/* The descriptor for tti_heap_still_mapped; -1 before Linux 6.11, which has no such query. */
int tti_heap_maps_open(void);

/* Whether all of [memory, memory + bytes) still is the file. Takes about a microsecond. True if `maps` is -1. */
bool tti_heap_still_mapped(int maps, const struct tti_heap_region *region, const void *memory, size_t bytes);

#endif
