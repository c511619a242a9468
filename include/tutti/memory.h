/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/memory.h - memory that a group's engine moves without copying it first.
 *
 * Two ways lead there. `tutti_alloc` gives new memory. `tutti_register` turns memory that exists (an arena of gradients, a
 * framework's tensor) into such memory, at the same address. Tensors inside are recognised by their address: no call
 * changes. Sub-groups use the memory of the group they came from, and the other way round.
 *
 * Whether it pays depends on the engine (`tutti_group_capabilities`, TUTTI_CAP_HEAP). Where an engine has nothing of the
 * kind, `tutti_alloc` gives ordinary memory and `tutti_register` does nothing, so programs need no second way. See
 * docs/heap.md.
 *
 * The functions that are collective are called by every rank of the group, in the same order as its operations of lane 0;
 * no batch may be open. Their errors are the same on every rank, except those of arguments that can never be right
 * (NULL), which only their caller sees. A rank that does not come is a TIMEOUT that names it and fails the group.
 */
#ifndef TUTTI_MEMORY_H
#define TUTTI_MEMORY_H

#include <stddef.h>
#include <tutti/group.h>
#include <tutti/status.h>

TUTTI_BEGIN_DECLS

/**
 * Gives each rank `bytes` bytes of its own, which the others can reach. Collective; the ranks may ask for different sizes.
 * Aligned to 64 bytes, to 4096 from 4096 bytes up, to 2 MiB from 2 MiB up. The content is undefined. 0 bytes: NULL.
 *
 * The memory is there when the call returns (and with it the pages, near the calling thread): it is never missing later.
 * It is valid until tutti_free, or until this rank has destroyed the group and every other one that shares the heap: the
 * group that it came from, and all that were made from that. In a forked child it becomes a private copy, as with
 * tutti_register.
 *
 * Errors: INVALID_ARGUMENT (memory is NULL); NO_MEMORY naming the first rank that has none: then no rank keeps anything
 * and the group works on; TIMEOUT.
 */
TUTTI_API tutti_status tutti_alloc(tutti_group *group, size_t bytes, void **memory, tutti_error *error);

/**
 * Gives memory of tutti_alloc back: through the group that it was allocated with, or another one that shares its heap.
 * Local. No operation that uses the memory may be pending on this rank; that the others have finished is not asked for.
 * NULL is allowed. INVALID_ARGUMENT if `memory` is not what tutti_alloc has returned.
 */
TUTTI_API tutti_status tutti_free(tutti_group *group, void *memory, tutti_error *error);

/**
 * Makes [memory, memory + bytes), which this rank has got from malloc, mmap or the like, reachable for the others, at the
 * same address and with its content. Collective; each rank brings memory of its own, of any size, 0 included.
 *
 * The whole pages inside are copied into memory that the ranks share, and that is laid over them. The ragged edges stay
 * private, and a tensor that reaches into them, or out of the range, is treated as private memory. Less than one whole
 * page is no error, but nothing is gained then.
 *
 * The rules:
 * - During this call and during tutti_unregister nobody touches the range: no thread, no device, no write of the kernel
 *   that is under way (O_DIRECT, io_uring, RDMA), and no thread forks. What is written meanwhile is lost.
 * - Nothing may hold the pages themselves, before or after: memory that a device has pinned stays what it was for the
 *   device, while the program sees another one.
 * - tutti_unregister comes before free, munmap or realloc of the range. If that is forgotten, the address may be used
 *   again for something else: calls of 1 MiB and more notice it where the system can tell (Linux 6.11), smaller ones do
 *   not, and their results are lost.
 * - madvise(MADV_DONTNEED) no longer empties the pages; mprotect binds this rank only; mremap counts as munmap; mlock
 *   works. Huge pages are those of shared memory, if the system is set to give them (docs/heap.md).
 * - In a forked child the range is a private copy: what the child writes stays in the child. Pages that the child has not
 *   written may still show what the parent and its peers write later. The child of a bare clone() shares the range.
 * - The range must be writable, private, anonymous memory of ordinary pages.
 *
 * While it lasts the call needs as much free memory as the range is large.
 *
 * Errors: INVALID_ARGUMENT (NULL with bytes, a part is registered or allocated already, not mapped); UNSUPPORTED with the
 * reason (a mapped file, huge pages of hugetlb, shared already, not writable, locked, a stack, watched by userfaultfd,
 * kept from forked children); NO_MEMORY; NO_RESOURCE (63 ranges a rank); TIMEOUT. After an error the memory of every rank
 * is as it was before.
 */
TUTTI_API tutti_status tutti_register(tutti_group *group, void *memory, size_t bytes, tutti_error *error);

/**
 * Undoes tutti_register: the range is private memory again, with its content. Collective, with the `memory` that each rank
 * has registered; no operation that uses it may be pending. Groups that are destroyed do this by themselves with the last
 * one that shares the heap.
 *
 * INVALID_ARGUMENT on every rank if one of them brings what is not registered, BUSY if a message of one of them that has
 * not ended has its tensor in the range: then nothing has changed. NO_MEMORY: the range stays in shared memory, which the
 * engine no longer uses; it may be freed. If the others do not come, or the group has failed, the own range is private
 * again all the same, and the status says why the others may not know.
 */
TUTTI_API tutti_status tutti_unregister(tutti_group *group, void *memory, tutti_error *error);

TUTTI_END_DECLS

#endif
