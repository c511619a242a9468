/* SPDX-License-Identifier: BSD-3-Clause */
/* Large calls that stage nothing: ranks read and write each other's exposed tensors. zero_copy.c has the protocol. */
#ifndef TTI_ENGINE_COLLECTIVES_ZERO_COPY_H
#define TTI_ENGINE_COLLECTIVES_ZERO_COPY_H

#include "engine/lane.h"

/* When all ranks expose their tensors: does this rank's share of the work, and waits for the end of all. Not for
 * broadcast, gather and scatter, which call tti_pull and tti_push. */
tutti_status tti_run_zero_copy(struct tti_lane *lane, const tutti_op *op);

/* Copies a part of a peer's tensor to a part of an own one; parts NULL: compact memory. If the kernel copies, the
 * call's algorithm becomes SINGLE_COPY. */
tutti_status tti_pull(struct tti_lane *lane, int peer, void *dst, const tutti_parts *dst_parts, int dst_rank,
                      const void *src, const tutti_parts *src_parts, int src_rank, size_t bytes);

/* Copies an own tensor to a peer's. */
tutti_status tti_push(struct tti_lane *lane, unsigned char *dst, const unsigned char *src, size_t bytes);

/* The algorithm of a call that stages nothing, as far as this rank's own tensors decide. */
enum tti_algorithm tti_algorithm_in_place(const struct tti_lane *lane);

#endif
