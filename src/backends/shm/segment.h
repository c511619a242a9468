/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory files without names: made, sealed, handed over as descriptors, checked, mapped. They end with the processes
 * that hold them, however these end. */
#ifndef TTI_BACKENDS_SHM_SEGMENT_H
#define TTI_BACKENDS_SHM_SEGMENT_H

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

/* From now on no process can map it for writing, shrink or grow it; the existing mapping stays writable. */
tutti_status tti_mapping_seal(struct tti_mapping *mapping, tutti_error *error);

/* The same without the write seal: for the doorbell, which all members write. */
tutti_status tti_mapping_seal_size(struct tti_mapping *mapping, tutti_error *error);

/* Maps `bytes` of a received descriptor after checking size and seals: PROTOCOL if they are not as promised. The file
 * may be longer by up to `spare`. Closes fd. */
tutti_status tti_mapping_adopt(int fd, size_t bytes, size_t spare, int writable, int rank, struct tti_mapping *mapping,
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

void tti_mapping_close(struct tti_mapping *mapping);

#endif
