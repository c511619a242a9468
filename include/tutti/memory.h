/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/memory.h - memory from which a group's engine transfers without a copy before.
 *
 * `tutti_alloc` gives new memory of this kind. `tutti_register` turns existing memory (an arena of gradients, a
 * framework's tensor) into it, at the same address. Tensors inside are found by their address, so calls stay the same.
 * All groups that come from one another share this memory.
 *
 * The gain depends on the engine (`tutti_group_capabilities`, TUTTI_CAP_HEAP). Without that capability `tutti_alloc`
 * gives ordinary memory and `tutti_register` does nothing. See docs/heap.md.
 *
 * Every rank of the group calls a collective function, in the same order as its operations of lane 0, without an open
 * batch. All ranks get the same error, except for arguments that are never valid (NULL). A missing rank is a TIMEOUT
 * that names it and fails the group. The group's timeout is that of the whole call: its steps, and the copies and pages
 * between them.
 */
#ifndef TUTTI_MEMORY_H
#define TUTTI_MEMORY_H

#include <stddef.h>
#include <tutti/group.h>
#include <tutti/status.h>

TUTTI_BEGIN_DECLS

/**
 * Gives each rank `bytes` bytes of its own, which the other ranks can reach. Collective; ranks may ask for different
 * sizes. Aligned to 64 bytes, to 4096 from 4096 bytes on, to 2 MiB from 2 MiB on. The content is undefined. 0 bytes:
 * NULL.
 *
 * The pages exist when the call returns, near the calling thread, and stay. The memory is valid until tutti_free, or
 * until this rank has destroyed all groups that share the heap. In a forked child it is a private copy, as with
 * tutti_register.
 *
 * Errors: INVALID_ARGUMENT (memory is NULL); NO_MEMORY naming the first rank without memory: then no rank keeps any,
 * and the group stays usable; TIMEOUT.
 */
TUTTI_API tutti_status tutti_alloc(tutti_group *group, size_t bytes, void **memory, tutti_error *error);

/**
 * Frees memory of tutti_alloc, by any group that shares the heap. Local. No operation of this rank that uses the memory
 * may be pending; operations of other ranks are not checked. NULL is valid. INVALID_ARGUMENT if `memory` is not from
 * tutti_alloc.
 */
TUTTI_API tutti_status tutti_free(tutti_group *group, void *memory, tutti_error *error);

/**
 * Makes [memory, memory + bytes), from malloc, mmap or the like, reachable for the other ranks, at the same address and
 * with its content. Collective; each rank has its own memory of any size, also 0.
 *
 * The whole pages inside are copied into shared memory, which then replaces them. The edges stay private: a tensor that
 * reaches into them, or out of the range, counts as private memory. Less than one whole page is valid, without a gain.
 *
 * The rules:
 * - During this call and tutti_unregister no thread or device touches the range, no write of the kernel (O_DIRECT,
 *   io_uring, RDMA) runs, and no thread forks. Data written in that time are lost.
 * - Nothing may hold the pages themselves: a device that has pinned them keeps the old ones.
 * - Call tutti_unregister before free, munmap or realloc of the range. If that is forgotten and the address is used
 *   again, calls of 1 MiB and more detect it where the system can (Linux 6.11). Smaller calls do not, and their results
 *   are lost.
 * - madvise(MADV_DONTNEED) no longer empties the pages; mprotect affects this rank only; mremap counts as munmap; mlock
 *   works. Huge pages are those of shared memory, if the system allows them (docs/heap.md).
 * - In a forked child the range is a private copy: writes of the child stay in the child. Pages that the child has not
 *   written may show later writes of the parent and its peers. The child of a bare clone() shares the range.
 * - The range must be writable, private, anonymous memory of ordinary pages.
 *
 * During the call, as much memory as the range has must be free.
 *
 * Errors: INVALID_ARGUMENT (NULL with bytes; a part is registered, allocated or not mapped); UNSUPPORTED with the
 * reason (a mapped file, hugetlb pages, shared, not writable, locked, a stack, watched by userfaultfd, excluded from
 * forked children); NO_MEMORY; NO_RESOURCE (63 ranges a rank); TIMEOUT. After an error the memory of every rank is
 * unchanged.
 */
TUTTI_API tutti_status tutti_register(tutti_group *group, void *memory, size_t bytes, tutti_error *error);

/**
 * Reverses tutti_register: the range is private memory again, with its content. Collective, with each rank's own
 * registered `memory`. No operation that uses it may be pending. When the last group that shares the heap is destroyed,
 * this happens automatically.
 *
 * During the call, as much memory as the range has must be free.
 *
 * INVALID_ARGUMENT on every rank if one range is not registered; BUSY if an unfinished message of any rank has its
 * tensor in the range; NO_MEMORY if the host or a control group has less memory than the ranks need: then nothing has
 * changed. SYSTEM if a range could not be made private although the memory was there before: it is unregistered and
 * stays in shared memory, which the engine no longer uses; it may be freed. If other ranks do not call, or the group
 * has failed, this rank's range is private all the same; the status says why.
 */
TUTTI_API tutti_status tutti_unregister(tutti_group *group, void *memory, tutti_error *error);

TUTTI_END_DECLS

#endif
