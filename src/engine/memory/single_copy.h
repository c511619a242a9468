/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading private memory of other processes with process_vm_readv: single_copy.c. */
#ifndef TTI_ENGINE_MEMORY_SINGLE_COPY_H
#define TTI_ENGINE_MEMORY_SINGLE_COPY_H

#include "engine/lane.h"

#define TTI_SINGLE_COPY_NAME  (UINT64_C(1) << 63) /* marks a tensor's name as an address in its owner's process */
#define TTI_SINGLE_COPY_CHUNK ((size_t)1 << 20)

/* Whether any call may use it. */
bool tti_single_copy_is_used(const struct tti_tuning *tuning);
/* Writes into the own header what peers need to test whether they can read this process. */
void tti_single_copy_offer(struct tti_segment_header *header);
/* Tests whether this rank can read all others, and publishes the result. */
void tti_single_copy_detect(struct tti_engine *e);
/* Whether all ranks have published that they can read all others. A rank that does not know it yet does without; no
 * decision needs ranks to learn it at the same time. */
bool tti_single_copy_all_can(struct tti_engine *e);

/* Whether this rank wants its private tensors to be read in this call / whether a peer may want it. */
bool tti_single_copy_wanted(struct tti_lane *lane, const tutti_op *op);
bool tti_single_copy_allowed(const struct tti_lane *lane);
/* Whether this process may be read still, and the kernel reads its memory (not that of a device) at both ends. */
bool tti_single_copy_readable(const void *memory, size_t bytes);
/* Whether this rank has offered its tensors like that in this call. */
bool tti_single_copy_offered(const struct tti_lane *lane);

/* Reads n bytes at src in the peer's process into bytes [from, from + n) of a part, or of dst if parts is NULL. */
tutti_status tti_single_copy_read(struct tti_lane *lane, int peer, void *dst, const tutti_parts *parts, int rank,
                                  size_t from, const unsigned char *src, size_t n);

/* The name of private memory of this rank; 0 if it can have none / whether a name can stand for so many bytes. */
uint64_t tti_single_copy_name(const void *memory, uint64_t bytes);
bool tti_single_copy_is_name(uint64_t name, uint64_t bytes);
/* Reads n bytes from where a peer's name points. False, with dst undefined, if the kernel refuses. */
bool tti_single_copy_fetch(const struct tti_engine *e, int peer, void *dst, uint64_t name, size_t n);

#endif
