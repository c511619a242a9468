/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives without a reduction. Contiguous parts go from the tensor of one rank directly into the tensor of the
 * other. Parts that span several rows of a joined tensor are packed through scratch memory.
 *
 * Cost, with S bytes in the joined tensor on n ranks: all_gather and all_to_all send and receive S (n-1)/n on each
 * rank; gather and scatter do so on the root, and S/n on the others; one step. Parts of up to Group::eager bytes are
 * sent in the records of the entry barrier.
 *
 * broadcast: scatter and all_gather (van de Geijn). The root sends each part to one rank, and that rank sends it to the
 * others. So every rank, also the root, sends and receives at most S bytes, while the root of a binomial tree sends
 * S log2(n). Parts that fit are sent in two rounds of records. Larger tensors are divided into chunks, round robin, and
 * both steps overlap. If all fits in one round, and that costs less (takes_one_round), the root sends S bytes to each
 * rank.
 */
#include "backends/gloo/plugin/collectives/data_movement.h"

#include "backends/gloo/plugin/collectives/chunked_transfer.h"
#include "backends/gloo/plugin/collectives/parts.h"

namespace tti
{

namespace
{

unsigned char *bytes_at(const void *memory)
{
    return static_cast<unsigned char *>(const_cast<void *>(memory));
}

size_t bytes_of(const tutti_op *op)
{
    return op->count * tti_dtype_size(op->dtype);
}

void copy(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (bytes > 0 && to != from) {
        tti_copy_cached(to, from, bytes);
    }
}

/* The transfers of a call. */
struct Transfer {
    explicit Transfer(Call &call) : c(call), plan(call.group.size)
    {
    }

    Call &c;
    Plan plan;
    const Parts *unpack = nullptr; /* the parts into which scratch memory is unpacked at the end */

    bool is_root() const
    {
        return c.group.rank == c.op->root;
    }

    /* The spans of a joined tensor; packed ones take their place from `memory`, which advances. `copies`: packs the
     * data. */
    void joined(const Parts &parts, std::vector<Span> *chunks, unsigned char **memory, bool copies) const
    {
        for (int r = 0; r < c.group.size; r++) {
            Span &chunk = (*chunks)[static_cast<size_t>(r)];
            chunk.bytes = parts.bytes(r);
            chunk.at = parts.at(r);
            if (!parts.are_whole()) {
                chunk.at = *memory;
                *memory += chunk.bytes;
                if (copies && chunk.at) { /* without scratch memory all parts are empty */
                    parts.copy_out(r, chunk.at);
                }
            }
        }
    }
};

size_t packed_bytes(const Call &c, const Parts &parts)
{
    size_t total = 0;
    for (int r = 0; r < c.group.size && !parts.are_whole(); r++) {
        total += parts.bytes(r);
    }
    return total;
}

/* The parts that are too large for the records. */
tutti_status run_chunked_transfers(const Transfer &m)
{
    const size_t ranks = m.plan.out.size();
    std::vector<ChunkedTransfer> in(ranks);
    std::vector<ChunkedTransfer> out(ranks);
    for (size_t r = 0; r < ranks; r++) {
        if (r == static_cast<size_t>(m.c.group.rank)) {
            continue;
        }
        ChunkLayout cut;
        cut.chunk = m.c.group.segment;
        if (m.plan.in[r].bytes > m.c.group.eager) {
            cut.bytes = m.plan.in[r].bytes;
            in[r] = ChunkedTransfer(m.c, static_cast<int>(r), Use::TRANSFER, m.plan.in[r].at, cut);
        }
        if (m.plan.out[r].bytes > m.c.group.eager) {
            cut.bytes = m.plan.out[r].bytes;
            out[r] = ChunkedTransfer(m.c, static_cast<int>(r), Use::TRANSFER, m.plan.out[r].at, cut);
        }
    }
    ReceiveOrder order(m.c.group.rank, std::vector{&in});
    return m.c.until(
        [&] {
            order.advance(SIZE_MAX);
            bool done = true;
            for (size_t r = 0; r < ranks; r++) {
                out[r].send(out[r].count());
                done = done && in[r].is_done() && out[r].is_done();
                if (r != static_cast<size_t>(m.c.group.rank)) {
                    m.c.group.flush(static_cast<int>(r));
                }
            }
            return done;
        },
        [&](int r) { return !in[static_cast<size_t>(r)].is_done() || !out[static_cast<size_t>(r)].is_done(); });
}

/* The entry barrier and all transfers. The own part is copied from plan.out to plan.in. */
tutti_status run_transfers(const Transfer &m)
{
    const size_t own = static_cast<size_t>(m.c.group.rank);
    tutti_status status = m.c.entry_barrier(m.plan);
    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t r = 0; r < m.plan.in.size(); r++) {
        const Span &in = m.plan.in[r];
        if (r != own && in.bytes <= m.c.group.eager) {
            copy(in.at, m.c.eager_data_of(static_cast<int>(r)), in.bytes);
        }
    }
    copy(m.plan.in[own].at, m.plan.out[own].at, m.plan.in[own].bytes);
    status = run_chunked_transfers(m);
    for (int r = 0; r < m.c.group.size && status == TUTTI_OK && m.unpack; r++) {
        m.unpack->copy_in(r, m.plan.in[static_cast<size_t>(r)].at);
    }
    return status;
}

/* all_gather and gather: each rank sends one part; all ranks, or the root, receive all parts. */
tutti_status run_gather(Call &c)
{
    const tutti_op *op = c.op;
    const Parts parts(op->recv_parts, op->dst);
    const bool all = op->kind == TUTTI_OP_ALL_GATHER;
    Transfer m(c);
    const bool receives = all || m.is_root();
    for (size_t r = 0; r < m.plan.out.size(); r++) {
        if (all || r == static_cast<size_t>(op->root)) {
            m.plan.out[r].at = bytes_at(op->src);
            m.plan.out[r].bytes = bytes_of(op);
        }
    }
    if (receives) {
        const size_t packed = packed_bytes(c, parts);
        unsigned char *memory = packed > 0 ? c.scratch(packed) : nullptr;
        if (c.failed == TUTTI_OK) {
            m.joined(parts, &m.plan.in, &memory, false);
        }
        m.unpack = parts.are_whole() ? nullptr : &parts;
    }
    return run_transfers(m);
}

tutti_status run_scatter(Call &c)
{
    const tutti_op *op = c.op;
    const Parts parts(op->send_parts, op->src);
    Transfer m(c);
    if (m.is_root()) {
        const size_t packed = packed_bytes(c, parts);
        unsigned char *memory = packed > 0 ? c.scratch(packed) : nullptr;
        if (c.failed == TUTTI_OK) {
            m.joined(parts, &m.plan.out, &memory, true);
        }
    }
    Span &in = m.plan.in[static_cast<size_t>(op->root)];
    in.at = bytes_at(op->dst);
    in.bytes = bytes_of(op);
    return run_transfers(m);
}

tutti_status run_all_to_all(Call &c)
{
    const tutti_op *op = c.op;
    const Parts from(op->send_parts, op->src);
    const Parts to(op->recv_parts, op->dst);
    Transfer m(c);
    m.plan.in_pairs = op->send_parts.counts != nullptr;
    const size_t packed = packed_bytes(c, from) + packed_bytes(c, to);
    unsigned char *memory = packed > 0 ? c.scratch(packed) : nullptr;
    if (c.failed == TUTTI_OK) {
        m.joined(from, &m.plan.out, &memory, true);
        m.joined(to, &m.plan.in, &memory, false);
    }
    m.unpack = to.are_whole() ? nullptr : &to;
    return run_transfers(m);
}

/* ---- broadcast --------------------------------------------------------------------------------------------------- */

/* A rank's number among the ranks without the root. */
size_t place_of(int rank, int root)
{
    return static_cast<size_t>(rank < root ? rank : rank - 1);
}

tutti_status run_large_broadcast(Call &c)
{
    const Group &group = c.group;
    const int root = c.op->root;
    const size_t ranks = static_cast<size_t>(group.size);
    std::vector<ChunkedTransfer> first(ranks); /* only from the root */
    std::vector<ChunkedTransfer> in(ranks);
    std::vector<ChunkedTransfer> out(ranks);
    ChunkLayout cut;
    cut.bytes = bytes_of(c.op);
    cut.stride = group.others();
    /* small enough that ranks begin early to pass chunks on */
    cut.chunk = std::min(group.segment, std::max<size_t>(cut.bytes / (4 * cut.stride) / 64 * 64, 4096));
    for (int r = 0; r < group.size; r++) {
        ChunkedTransfer &from_it = in[static_cast<size_t>(r)];
        ChunkedTransfer &to_it = out[static_cast<size_t>(r)];
        ChunkLayout theirs = cut;
        ChunkLayout ours = cut;
        theirs.first = place_of(r, root);
        ours.first = place_of(group.rank, root);
        if (r == group.rank) {
            continue;
        }
        if (group.rank == root) {
            to_it = ChunkedTransfer(c, r, Use::TRANSFER, c.op->dst, theirs);
        } else if (r == root) {
            first[static_cast<size_t>(r)] = ChunkedTransfer(c, r, Use::TRANSFER, c.op->dst, ours);
        } else {
            from_it = ChunkedTransfer(c, r, Use::TRANSFER, c.op->dst, theirs);
            to_it = ChunkedTransfer(c, r, Use::TRANSFER, c.op->dst, ours);
        }
    }
    const ChunkedTransfer &from_root = first[static_cast<size_t>(root)];
    ReceiveOrder order(group.rank, std::vector{&first, &in});
    return c.until(
        [&] {
            order.advance(SIZE_MAX);
            bool done = from_root.is_done();
            for (size_t r = 0; r < ranks; r++) {
                out[r].send(group.rank == root ? out[r].count() : from_root.ended());
                done = done && in[r].is_done() && out[r].is_done();
                if (r != static_cast<size_t>(group.rank)) {
                    c.group.flush(static_cast<int>(r));
                }
            }
            return done;
        },
        [&](int peer) {
            const size_t r = static_cast<size_t>(peer);
            return !first[r].is_done() || !in[r].is_done() || !out[r].is_done();
        });
}

/* In one round of records. */
tutti_status run_small_broadcast(Call &c)
{
    const tutti_op *op = c.op;
    const size_t bytes = bytes_of(op);
    Plan plan(c.group.size);
    for (Span &out : plan.out) {
        if (c.group.rank == op->root) {
            out.at = bytes_at(op->dst);
            out.bytes = bytes;
        }
    }
    const tutti_status status = c.entry_barrier(plan);
    if (status == TUTTI_OK && c.group.rank != op->root) {
        copy(bytes_at(op->dst), c.eager_data_of(op->root), bytes);
    }
    return status;
}

/* In two rounds of records: `each` bytes to each rank, which sends them on. */
tutti_status run_medium_broadcast(Call &c, size_t each)
{
    const tutti_op *op = c.op;
    const bool is_root = c.group.rank == op->root;
    const size_t bytes = bytes_of(op);
    std::vector<Span> part(static_cast<size_t>(c.group.size)); /* none is the root's */
    for (int r = 0; r < c.group.size; r++) {
        if (r != op->root) {
            const size_t from = std::min(place_of(r, op->root) * each, bytes);
            part[static_cast<size_t>(r)].at = bytes_at(op->dst) + from;
            part[static_cast<size_t>(r)].bytes = std::min(each, bytes - from);
        }
    }
    Plan plan(c.group.size);
    if (is_root) {
        plan.out = part;
    }
    tutti_status status = c.entry_barrier(plan);
    if (status != TUTTI_OK) {
        return status;
    }
    const Span own = part[static_cast<size_t>(c.group.rank)];
    if (!is_root) {
        copy(own.at, c.eager_data_of(op->root), own.bytes);
    }
    Plan rest(c.group.size);
    for (int r = 0; r < c.group.size; r++) {
        if (r != op->root) {
            rest.out[static_cast<size_t>(r)] = own;
        }
    }
    status = c.second_round(rest);
    for (int r = 0; r < c.group.size && status == TUTTI_OK && !is_root; r++) {
        if (r != c.group.rank) {
            copy(part[static_cast<size_t>(r)].at, c.eager_data_of(r), part[static_cast<size_t>(r)].bytes);
        }
    }
    return status;
}

tutti_status run_broadcast(Call &c)
{
    const size_t bytes = bytes_of(c.op);
    if (takes_one_round(c.group, bytes)) {
        return run_small_broadcast(c);
    }
    const size_t each = ((bytes + c.group.others() - 1) / c.group.others() + 63) / 64 * 64;
    if (each <= c.group.eager) {
        return run_medium_broadcast(c, each);
    }
    const tutti_status status = c.entry_barrier(Plan(c.group.size));
    return status == TUTTI_OK ? run_large_broadcast(c) : status;
}

} // namespace

tutti_status run_data_movement(Call &c)
{
    switch (c.op->kind) {
    case TUTTI_OP_BROADCAST:
        return run_broadcast(c);
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        return run_gather(c);
    case TUTTI_OP_SCATTER:
        return run_scatter(c);
    case TUTTI_OP_ALL_TO_ALL:
        return run_all_to_all(c);
    default: /* barrier: the entry barrier is all of it */
        return c.entry_barrier(Plan(c.group.size));
    }
}

} // namespace tti
