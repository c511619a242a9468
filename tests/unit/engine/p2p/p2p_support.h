/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages as the engine's tests make them: vectors of int32. */
#ifndef TESTS_UNIT_ENGINE_P2P_P2P_SUPPORT_H
#define TESTS_UNIT_ENGINE_P2P_P2P_SUPPORT_H

#include "engine/memory/single_copy.h"
#include "engine/p2p/rings/rings.h"
#include "unit/engine/engine_support.h"

static inline tutti_op send_op(const int32_t *data, const int64_t *count, int peer, int tag)
{
    tutti_op op = op_of(TUTTI_OP_SEND, data, NULL, (size_t)*count, peer);
    op.ndim = 1;
    op.shape = count;
    op.p2p_tag = tag;
    return op;
}

static inline tutti_op recv_op(int32_t *data, size_t count, int peer, int tag)
{
    tutti_op op = op_of(TUTTI_OP_RECV, NULL, data, count, peer);
    op.p2p_tag = tag;
    return op;
}

/* An element of a message. */
static inline int32_t element_of(int from, int number, size_t k)
{
    return (int32_t)((uint32_t)from * 1000003u + (uint32_t)number * 7919u + (uint32_t)k);
}

/* Runs messages of this rank to their end. Returns whether that failed. */
static inline int run_messages(struct cluster *c, int rank, tutti_op *const *ops, size_t count)
{
    tutti_error e;
    return tti_engine_run_p2p(c->engines[rank], ops, count, TUTTI_FOREVER, &e) != TUTTI_OK;
}

/* The record with this number to rank 0, as that rank would write it. */
static inline void write_record_of(struct cluster *c, int rank, uint64_t number, struct tti_record record)
{
    struct tti_slot *slot = tti_slot(c->engines[rank], rank, 0, number);
    slot->record = record;
    atomic_store(&slot->number, number);
    atomic_store(&tti_pair(c->engines[rank], rank, 0)->opened, 1);
}

static inline void write_record(struct cluster *c, uint64_t number, struct tti_record record)
{
    write_record_of(c, 1, number, record);
}

#endif
