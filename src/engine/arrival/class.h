/* SPDX-License-Identifier: BSD-3-Clause */
/* The class of a call, and which bytes are in the arrival of a small one: class.c. */
#ifndef TTI_ENGINE_ARRIVAL_CLASS_H
#define TTI_ENGINE_ARRIVAL_CLASS_H

#include "engine/lane.h"

/* A function of the call and the group's size only, so all ranks find the same class. */
enum tti_class tti_classify(const struct tti_lane *lane, const tutti_op *op);

/* Bytes that a rank sends with its arrival. */
size_t tti_inline_bytes(const struct tti_lane *lane, const tutti_op *op, int rank);

/* Scatter and all_to_all send no part to the own rank: the place of the part for rank `to` among those that rank `from`
 * sends. The next rank's is the first, and begins in the arrival line. */
static inline size_t tti_inline_place(const struct tti_lane *lane, int from, int to)
{
    return (size_t)(to > from ? to - from - 1 : lane->engine->size + to - from - 1);
}

struct tti_range {
    size_t from;
    size_t end;
};
/* Those of a rank's bytes that this rank reads. */
struct tti_range tti_inline_range(const struct tti_lane *lane, const tutti_op *op, int rank);
/* Those of this rank's own bytes that no peer reads. */
struct tti_range tti_inline_unread(const struct tti_lane *lane, const tutti_op *op);

#endif
