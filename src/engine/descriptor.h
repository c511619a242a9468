/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptor of a call: 16 bytes that ranks compare. It depends on the operation and the group's size only. And the
 * errors of ranks whose calls differ: all backends have the same sentences. */
#ifndef TTI_ENGINE_DESCRIPTOR_H
#define TTI_ENGINE_DESCRIPTOR_H

#include <stdbool.h>
#include <tutti/backend.h>

/* The code of a shape for tutti_op.shape_code, without the length of dimension `except` (-1: with all). 0: fewer than
 * two dimensions. */
uint32_t tti_shape_code(int32_t ndim, const int64_t *shape, int32_t except);

void tti_descriptor_make(const tutti_op *op, int size, uint64_t descriptor[2]);
/* As text: the fields that the operation has, and a tag that is not 0. */
void tti_descriptor_text(const uint64_t descriptor[2], char *text, size_t capacity);
/* With the marks below. */
tutti_operation tti_descriptor_kind(const uint64_t descriptor[2]);
/* Without them. */
tutti_operation tti_descriptor_operation(const uint64_t descriptor[2]);
bool tti_kind_waits_for_all(tutti_operation kind);
/* Turns a descriptor into that of a rank that cannot take part in the call, for that status. It differs from that of
 * every rank that can. */
void tti_descriptor_fail(uint64_t descriptor[2], tutti_status why);
/* The same for a rank that has cancelled the call. */
void tti_descriptor_cancel(uint64_t descriptor[2]);
/* Whether a rank has cancelled or cannot take part: one bit. */
static inline bool tti_descriptor_marked(const uint64_t descriptor[2])
{
    return (descriptor[0] & 16) != 0;
}
/* The status for which the rank of this descriptor cannot take part: CANCELLED, or that of tti_descriptor_fail. Else
 * OK. */
tutti_status tti_descriptor_failed(const uint64_t descriptor[2]);
/* Removes the bit of a cancelled call; true if it was there. */
bool tti_descriptor_uncancel(uint64_t descriptor[2]);
/* Turns the descriptor of a rooted call into that of the extra round before it: tti_agree_on_cancel. */
void tti_descriptor_agree(uint64_t descriptor[2]);

/* What a rank has called. */
struct tti_rank_call {
    int32_t rank;
    tutti_status failed; /* the status for which the rank cannot take part, or OK */
    const uint64_t *descriptor;
};

/* The error of two ranks whose calls differ, or of a peer that cannot take part. Returns MISMATCH; the peer is the
 * suspect. */
tutti_status tti_calls_differ(const struct tti_rank_call *peer, const struct tti_rank_call *own, uint64_t call,
                              int32_t lane, tutti_error *error);
/* The error of an all_to_all_v in which rank `from` sends so many bytes to rank `to`, which expects another number.
 * Returns MISMATCH; the sender is the suspect. */
tutti_status tti_parts_differ(int32_t from, uint64_t bytes, int32_t to, uint64_t expected, uint64_t call, int32_t lane,
                              tutti_error *error);

#endif
