/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory files of the heap. Unlike segments, all ranks map them for writing, and they get memory step by step. */
#ifndef TTI_BACKENDS_SHM_HEAP_FILE_H
#define TTI_BACKENDS_SHM_HEAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/status.h>

struct tti_heap_group_ops;

/* Bytes between two polls for a failure of the group. Also, a signal undoes one step of getting memory, not all of
 * it. */
#define TTI_HEAP_STEP ((size_t)2 << 20)

/* A sealed file without memory yet. */
tutti_status tti_heap_file_create(const char *what, size_t bytes, int *fd, tutti_error *error);

/* The size of a file of another rank, after checking its seals: PROTOCOL if it is not as promised. */
tutti_status tti_heap_file_check(int fd, int rank, size_t *bytes, tutti_error *error);

/* Maps the file at an address that suits huge pages, and excludes it from core dumps; the file of another rank from
 * forked children, too. */
tutti_status tti_heap_file_map(int fd, size_t bytes, bool own, unsigned char **base, tutti_error *error);

/* Gives a part of the file memory on the NUMA node of the calling thread, and maps its pages: NO_MEMORY now instead of
 * SIGBUS later. Offset and bytes are aligned to pages. Takes up to a second for a GiB, and ends early if the group
 * fails. */
tutti_status tti_heap_file_commit(int fd, unsigned char *base, size_t offset, size_t bytes,
                                  const struct tti_heap_group_ops *group, tutti_error *error);

/* Gives the memory of a part back to the system. */
void tti_heap_file_discard(int fd, size_t offset, size_t bytes);

/* Maps the pages that exist already, so that the first use has no faults. Ends early if the group fails. */
void tti_heap_file_populate(void *memory, size_t bytes, const struct tti_heap_group_ops *group);

#endif
