/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 16 bytes by which ranks compare what they called:
 *   word 0   kind 5 | dtype 5 | reduce op 4 | dimension 5 | hashed 1 | root 16 | size 12 | low half of the user's tag 16
 *   word 1   count 48, or a 48-bit hash of shape and counts when `hashed` | high half of the user's tag 16
 * "size" (of the group, modulo 4096) stands for the epoch: a group has one epoch until groups can shrink and grow.
 */
#include <stdio.h>

#include "engine/descriptor.h"

#define MASK48 ((UINT64_C(1) << 48) - 1)

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

static uint64_t hash_parts(uint64_t h, const tutti_parts *p, int size)
{
    h = mix(mix(h, p->outer), p->unit);
    if (!p->counts) {
        return mix(h, (uint64_t)p->each);
    }
    for (int r = 0; r < size; r++) {
        h = mix(h, (uint64_t)p->counts[r]);
    }
    return h;
}

/* Rooted operations know one side of the joined tensor only; its parts all look alike, so the count says it all. */
static const tutti_parts *common_parts(const tutti_op *op)
{
    switch (op->kind) {
    case TUTTI_OP_ALL_GATHER:
        return &op->recv_parts;
    case TUTTI_OP_REDUCE_SCATTER:
        return &op->send_parts;
    case TUTTI_OP_ALL_TO_ALL:
        return op->send_parts.counts ? NULL : &op->send_parts;
    default:
        return NULL;
    }
}

void tti_descriptor_make(const tutti_op *op, int size, uint64_t descriptor[2])
{
    op = op->whole ? op->whole : op; /* ranks compare what was called, not the pieces that it is done in */
    const tutti_parts *parts = common_parts(op);
    bool variable = op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts != NULL;
    bool hashed = variable || (parts && (parts->counts || parts->outer > 1));
    uint64_t count = op->count & MASK48;
    if (variable) {
        count = mix(1, op->send_parts.unit) & MASK48; /* who sends what to whom is compared in all_to_all.c */
    } else if (hashed) {
        count = hash_parts(2, parts, size) & MASK48;
    }
    descriptor[0] = (uint64_t)(op->kind & 31) | (uint64_t)(op->dtype & 31) << 5 | (uint64_t)(op->redop & 15) << 10 |
                    (uint64_t)(op->dim & 31) << 14 | (uint64_t)hashed << 19 | (uint64_t)(op->root & 0xffff) << 20 |
                    (uint64_t)(size & 0xfff) << 36 | (uint64_t)(op->user_tag & 0xffff) << 48;
    descriptor[1] = count | (uint64_t)(op->user_tag >> 16) << 48;
}

/* Kinds that no operation has: a rank that cannot take part, in a call where all wait for all, and in a rooted one; the
 * round before a rooted call that may be cancelled; and a rank that has cancelled, as a bit. */
#define KIND_FAILED_ALL    31
#define KIND_FAILED_ROOTED 28
#define AGREES             8
#define CANCELLED          16 /* tti_descriptor_marked knows it; the first two have it, too */

static bool is_failed(tutti_operation kind)
{
    return kind == KIND_FAILED_ALL || kind == KIND_FAILED_ROOTED;
}

void tti_descriptor_fail(uint64_t descriptor[2])
{
    bool all = tti_kind_waits_for_all(tti_descriptor_kind(descriptor));
    descriptor[0] = (descriptor[0] & ~UINT64_C(31)) | (all ? KIND_FAILED_ALL : KIND_FAILED_ROOTED);
}

void tti_descriptor_cancel(uint64_t descriptor[2])
{
    descriptor[0] |= CANCELLED;
}

bool tti_descriptor_uncancel(uint64_t descriptor[2])
{
    bool cancelled = (descriptor[0] & CANCELLED) && !is_failed(tti_descriptor_kind(descriptor));
    descriptor[0] &= cancelled ? ~(uint64_t)CANCELLED : ~UINT64_C(0);
    return cancelled;
}

void tti_descriptor_agree(uint64_t descriptor[2])
{
    descriptor[0] |= AGREES;
}

tutti_operation tti_descriptor_kind(const uint64_t descriptor[2])
{
    return (tutti_operation)(descriptor[0] & 31);
}

static bool is_rooted(tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

bool tti_kind_waits_for_all(tutti_operation kind)
{
    if (is_failed(kind)) {
        return kind == KIND_FAILED_ALL;
    }
    kind &= ~CANCELLED;
    return kind == TUTTI_OP_ALL_REDUCE || kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_REDUCE_SCATTER ||
           kind == TUTTI_OP_ALL_TO_ALL || kind == TUTTI_OP_BARRIER || ((kind & AGREES) && is_rooted(kind & ~AGREES));
}

void tti_descriptor_text(const uint64_t descriptor[2], char *text, size_t capacity)
{
    tutti_operation kind = tti_descriptor_kind(descriptor);
    if (is_failed(kind)) {
        snprintf(text, capacity, "the same but is out of memory");
        return;
    }
    kind &= ~CANCELLED;
    if (kind == TUTTI_OP_BARRIER) {
        snprintf(text, capacity, "barrier");
        return;
    }
    bool cancellable = (kind & AGREES) && is_rooted(kind & ~AGREES);
    kind &= cancellable ? ~AGREES : ~0;
    tutti_reduce_op redop = (tutti_reduce_op)(descriptor[0] >> 10 & 15);
    uint64_t tag = descriptor[0] >> 48 | descriptor[1] >> 48 << 16;
    int used = snprintf(text, capacity, "%s%s(%s%s%s", cancellable ? "cancellable " : "", tutti_operation_name(kind),
                        tutti_dtype_name((tutti_dtype)(descriptor[0] >> 5 & 31)), redop ? " " : "",
                        redop ? tutti_reduce_op_name(redop) : "");
    size_t at = used > 0 && (size_t)used < capacity ? (size_t)used : capacity;
    if (descriptor[0] >> 19 & 1) {
        used = snprintf(text + at, capacity - at, ", counts #%06x", (unsigned)(descriptor[1] & 0xffffff));
    } else {
        used = snprintf(text + at, capacity - at, ", count %llu", (unsigned long long)(descriptor[1] & MASK48));
    }
    at = used > 0 && at + (size_t)used < capacity ? at + (size_t)used : capacity;
    snprintf(text + at, capacity - at, ", root %u, dim %u, tag %llu)", (unsigned)(descriptor[0] >> 20 & 0xffff),
             (unsigned)(descriptor[0] >> 14 & 31), (unsigned long long)tag);
}
