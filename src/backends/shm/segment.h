/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory files without names: made, sealed, handed over as descriptors, checked, mapped. They end with the processes
 * that hold them, however these end. */
#ifndef TTI_BACKENDS_SHM_SEGMENT_H
#define TTI_BACKENDS_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/status.h>

struct tti_mapping {
    int fd; /* -1 once it is not needed any more */
    unsigned char *base;
    size_t bytes; /* that are mapped */
    size_t spare; /* of the file, behind them */
};

/* A new memory file of `bytes`, sparse, that can be sealed. */
tutti_status tti_memory_file(const char *what, size_t bytes, int *fd, tutti_error *error);

/* A new memory file of `bytes` + `spare`, sparse, with its first `committed` bytes backed by memory. `bytes` of it are
 * mapped read-write. */
tutti_status tti_mapping_create(const char *what, size_t bytes, size_t spare, size_t committed,
                                struct tti_mapping *mapping, tutti_error *error);

/* From now on no process can shrink or grow the file. */
tutti_status tti_memory_seal(int fd, tutti_error *error);
/* Whether that holds, and nothing else is forbidden. *seals: those that it has; below 0: it has none. */
bool tti_memory_is_sealed(int fd, int *seals);

/* Maps `bytes` of a received descriptor after checking size and seals: PROTOCOL if they are not as promised. The file
 * may be longer by up to `spare`. Closes fd. */
tutti_status tti_mapping_adopt(int fd, size_t bytes, size_t spare, bool writable, int rank, struct tti_mapping *mapping,
                               tutti_error *error);

/* Maps the next `bytes` of the file behind a mapping that ends at `end`, with the same rights, elsewhere; NULL if that
 * cannot be done. Needs no descriptor. */
unsigned char *tti_mapping_continue(unsigned char *end, size_t bytes);
void tti_mapping_drop(unsigned char *continued, size_t bytes);

/* Backs a range with memory, page tables included: NO_MEMORY now instead of SIGBUS later, and no faults one by one. */
tutti_status tti_mapping_commit(const struct tti_mapping *mapping, size_t offset, size_t bytes);

/* The same for a range of a file that is mapped at `address`; address NULL: it is not mapped. */
tutti_status tti_memory_commit(int fd, size_t offset, size_t bytes, unsigned char *address);

/* Backs a mapped range whose descriptor is closed, as far as the kernel can do that (Linux 5.14). */
tutti_status tti_memory_populate(unsigned char *address, size_t bytes);

/* Fills the page tables for reading a range that is backed with memory. */
void tti_memory_prefault(unsigned char *address, size_t bytes);

/* Lets this process write a range of a peer's segment that it only reads: its owner can then write there again sooner
 * (docs/decisions/0047). False: it can only read it still. */
bool tti_memory_make_writable(unsigned char *address, size_t bytes);

void tti_mapping_close(struct tti_mapping *mapping);

#endif
