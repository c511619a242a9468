/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce, reduce, reduce_scatter by direct reduce-scatter. Every rank owns a part of the tensor. It receives that
 * part from every other rank, reduces all of them in rank order with Tutti's kernels, which round once, and sends the
 * result to all ranks (all_reduce) or to the root (reduce). So the bits are those of Tutti's own engine, for every
 * size.
 *
 * Cost, with S bytes on n ranks: each rank sends and receives S (n-1)/n for the reduction, and as much again in an
 * all_reduce; in a reduce each rank sends S/n to the root. That is the volume of a ring, the least possible, in two
 * steps instead of 2 (n-1). Parts are sent in chunks: while one is reduced, the next ones arrive and results leave.
 * Scratch memory: IN_FLIGHT chunks for each other rank.
 *
 * Against a ring: between two hosts, a ring crosses the link once for all ranks of a host, this algorithm once for each
 * rank; the backend hier avoids that. A ring reduces each part in another order and rounds a narrow type n-1 times.
 *
 * Parts of up to Group::eager bytes are sent in two rounds of records, without chunks and requests for them. If all
 * fits in one round, and that costs less (takes_one_round), each rank receives the whole inputs and reduces them
 * itself: S (n-1) bytes, one step. The bits are the same in all cases.
 */
#include "backends/gloo/plugin/collectives/reductions.h"

#include <cstring>
#include <optional>

#include "backends/gloo/plugin/collectives/chunked_transfer.h"
#include "backends/gloo/plugin/collectives/parts.h"

namespace tti
{

namespace
{

constexpr size_t MIN_CHUNK = 65536;

struct Reduction {
    explicit Reduction(Call &call)
        : c(call), item(tti_dtype_size(call.op->dtype)), part(static_cast<size_t>(call.group.size))
    {
    }

    Call &c;
    size_t item;
    std::vector<Span> part;          /* of this rank's input, one for each rank */
    unsigned char *result = nullptr; /* of the own part */
    bool result_is_ring = false;     /* it is a ring buffer of IN_FLIGHT chunks, sent to the root from there */
    unsigned char *rings = nullptr;  /* a ring buffer for each other rank, in rank order */
    size_t chunk = 0;

    size_t own() const
    {
        return static_cast<size_t>(c.group.rank);
    }

    size_t longest() const
    {
        size_t most = 0;
        for (const Span &p : part) {
            most = std::max(most, p.bytes);
        }
        return most;
    }

    /* The offset of a part in the tensor of an all_reduce or reduce. */
    size_t offset_of(size_t rank) const
    {
        return static_cast<size_t>(part[rank].at - part[0].at);
    }

    ChunkLayout cut_of(size_t rank) const
    {
        ChunkLayout cut;
        cut.bytes = part[rank].bytes;
        cut.chunk = chunk;
        return cut;
    }
};

size_t up_to_64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* sources[r] is rank r's input. */
void fold(const Reduction &job, void *to, const std::vector<const void *> &sources, size_t bytes)
{
    const tutti_op *op = job.c.op;
    const size_t n = sources.size();
    std::vector<double> scales(n);
    for (size_t r = 0; r < n; r++) {
        scales[r] = job.c.record(static_cast<int>(r)).scale;
    }
    const struct tti_fold how = {op->dtype, op->redop, op->redop == TUTTI_PREMUL_SUM ? scales.data() : nullptr};
    if (bytes > 0) {
        tti_fold(to, sources.data(), n, bytes / job.item, &how);
    }
}

/* ---- small ------------------------------------------------------------------------------------------------------- */

/* `own` is this rank's input; `to` is NULL if it does not reduce. */
tutti_status run_small(Reduction &job, const Plan &plan, const Span &own, void *to)
{
    const tutti_status status = job.c.entry_barrier(plan);
    if (status != TUTTI_OK || !to) {
        return status;
    }
    std::vector<const void *> sources(job.part.size());
    for (size_t r = 0; r < sources.size(); r++) {
        sources[r] = r == job.own() ? own.at : job.c.eager_data_of(static_cast<int>(r));
    }
    fold(job, to, sources, own.bytes);
    return TUTTI_OK;
}

tutti_status run_small_reduce(Reduction &job, const Span &whole)
{
    const tutti_op *op = job.c.op;
    const bool all = op->kind == TUTTI_OP_ALL_REDUCE;
    Plan plan(job.c.group.size);
    for (size_t r = 0; r < plan.out.size(); r++) {
        if (all || r == static_cast<size_t>(op->root)) {
            plan.out[r] = whole;
        }
    }
    return run_small(job, plan, whole, all || job.c.group.rank == op->root ? op->dst : nullptr);
}

/* Two rounds of records: inputs to the ranks that own the parts, and results to all ranks or the root. */
tutti_status run_medium_reduce(Reduction &job)
{
    const tutti_op *op = job.c.op;
    const bool all = op->kind == TUTTI_OP_ALL_REDUCE;
    Plan inputs(job.c.group.size);
    inputs.out = job.part;
    tutti_status status = run_small(job, inputs, job.part[job.own()], job.result);
    if (status != TUTTI_OK) {
        return status;
    }
    Plan results(job.c.group.size);
    for (size_t r = 0; r < results.out.size(); r++) {
        if (all || r == static_cast<size_t>(op->root)) {
            results.out[r].at = job.result;
            results.out[r].bytes = job.part[job.own()].bytes;
        }
    }
    status = job.c.second_round(results);
    const bool receives = all || job.c.group.rank == op->root;
    for (size_t r = 0; r < job.part.size() && status == TUTTI_OK && receives; r++) {
        if (r != job.own() && job.part[r].bytes > 0) {
            std::memcpy(static_cast<unsigned char *>(op->dst) + job.offset_of(r),
                        job.c.eager_data_of(static_cast<int>(r)), job.part[r].bytes);
        }
    }
    return status;
}

tutti_status run_small_scatter(Reduction &job)
{
    Plan plan(job.c.group.size);
    plan.out = job.part;
    return run_small(job, plan, job.part[job.own()], job.c.op->dst);
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

/* All transfers of one call. */
class Exchange
{
  public:
    explicit Exchange(Reduction &job)
        : job_(job), ranks_(job.part.size()), in_(ranks_), out_(ranks_), results_out_(ranks_), results_in_(ranks_)
    {
        const tutti_op *op = job.c.op;
        size_t ring = 0;
        for (size_t r = 0; r < ranks_; r++) {
            if (r == job.own()) {
                continue;
            }
            const int peer = static_cast<int>(r);
            unsigned char *memory = job.rings + ring++ * IN_FLIGHT * job.chunk;
            in_[r] = ChunkedTransfer(job.c, peer, Use::REDUCE, memory, job.cut_of(job.own()), true);
            out_[r] = ChunkedTransfer(job.c, peer, Use::REDUCE, job.part[r].at, job.cut_of(r));
            const bool to_it = op->kind == TUTTI_OP_ALL_REDUCE || (op->kind == TUTTI_OP_REDUCE && peer == op->root);
            const bool from_it =
                op->kind == TUTTI_OP_ALL_REDUCE || (op->kind == TUTTI_OP_REDUCE && job.c.group.rank == op->root);
            if (to_it) {
                results_out_[r] =
                    ChunkedTransfer(job.c, peer, Use::RESULT, job.result, job.cut_of(job.own()), job.result_is_ring);
            }
            if (from_it) {
                results_in_[r] = ChunkedTransfer(
                    job.c, peer, Use::RESULT, static_cast<unsigned char *>(op->dst) + job.offset_of(r), job.cut_of(r));
            }
        }
        order_.emplace(job.c.group.rank, std::vector{&in_, &results_in_});
    }
    Exchange(const Exchange &) = delete; /* the order refers to its transfers */
    Exchange &operator=(const Exchange &) = delete;

    bool step()
    {
        bool done = false;
        do {
            order_->advance(folded_ + IN_FLIGHT);
            for (size_t r = 0; r < ranks_; r++) {
                out_[r].send(out_[r].count());
                results_out_[r].send(folded_);
                flush(r);
            }
        } while (fold_next());
        done = folded_ == own_cut().count();
        for (size_t r = 0; r < ranks_; r++) {
            done = done && out_[r].is_done() && results_out_[r].is_done() && results_in_[r].is_done();
        }
        return done;
    }

    bool needs(int peer) const
    {
        const size_t r = static_cast<size_t>(peer);
        return !in_[r].is_done() || !out_[r].is_done() || !results_out_[r].is_done() || !results_in_[r].is_done();
    }

  private:
    void flush(size_t rank)
    {
        if (rank != job_.own()) {
            job_.c.group.flush(static_cast<int>(rank));
        }
    }

    ChunkLayout own_cut() const
    {
        return job_.cut_of(job_.own());
    }

    /* Reduces the next chunk of the own part, if all ranks' chunks have arrived and its place in the ring buffer is
     * free. */
    bool fold_next()
    {
        if (folded_ == own_cut().count()) {
            return false;
        }
        std::vector<const void *> sources(ranks_);
        for (size_t r = 0; r < ranks_; r++) {
            if (r == job_.own()) {
                sources[r] = job_.part[r].at + own_cut().offset(folded_);
                continue;
            }
            if (in_[r].ended() <= folded_ || (job_.result_is_ring && results_out_[r].count() > 0 &&
                                              results_out_[r].ended() + IN_FLIGHT <= folded_)) {
                return false;
            }
            sources[r] = job_.rings + ring_of(r) * IN_FLIGHT * job_.chunk + in_[r].offset(folded_);
        }
        const size_t at = job_.result_is_ring ? folded_ % IN_FLIGHT * job_.chunk : own_cut().offset(folded_);
        fold(job_, job_.result + at, sources, own_cut().length(folded_));
        folded_++;
        return true;
    }

    size_t ring_of(size_t rank) const
    {
        return rank < job_.own() ? rank : rank - 1;
    }

    Reduction &job_;
    size_t ranks_;
    size_t folded_ = 0;
    std::vector<ChunkedTransfer> in_;          /* the own part, from each rank */
    std::vector<ChunkedTransfer> out_;         /* each rank's part, to it */
    std::vector<ChunkedTransfer> results_out_; /* the own part's result */
    std::vector<ChunkedTransfer> results_in_;  /* the others' results */
    std::optional<ReceiveOrder<ChunkedTransfer>> order_;
};

tutti_status run_large(Reduction &job)
{
    const tutti_status status = job.c.entry_barrier(Plan(job.c.group.size));
    if (status != TUTTI_OK) {
        return status;
    }
    Exchange exchange(job);
    return job.c.until([&] { return exchange.step(); }, [&](int peer) { return exchange.needs(peer); });
}

/* Scratch memory: `before` bytes, the ring buffers of the other ranks, and one for the result if it needs one. */
bool make_rings(Reduction &job, size_t before)
{
    const size_t longest = job.longest();
    /* a burst with each of several ranks; with one, results return early */
    const size_t most = job.c.group.size > 2 ? BURST : IN_FLIGHT;
    const size_t chunks = std::max<size_t>(longest / std::max(MIN_CHUNK, longest / most),
                                           1); /* of equal length, without a small last one */
    job.chunk = std::min(chunk_bytes_of(job.c.group), std::max<size_t>(up_to_64((longest + chunks - 1) / chunks), 64));
    const size_t rings = (job.c.group.others() + (job.result_is_ring ? 1 : 0)) * IN_FLIGHT * job.chunk;
    unsigned char *scratch = job.c.scratch(before + rings);
    if (scratch) {
        job.rings = scratch + before;
        if (job.result_is_ring) {
            job.result = job.rings + job.c.group.others() * IN_FLIGHT * job.chunk;
        }
    }
    return scratch != nullptr;
}

tutti_status run_reduce(Reduction &job)
{
    const tutti_op *op = job.c.op;
    const size_t ranks = job.part.size();
    unsigned char *src = static_cast<unsigned char *>(const_cast<void *>(op->src));
    const size_t bytes = op->count * job.item;
    if (takes_one_round(job.c.group, bytes)) {
        Span whole;
        whole.at = src;
        whole.bytes = bytes;
        return run_small_reduce(job, whole);
    }
    const size_t each = up_to_64((bytes + ranks - 1) / ranks);
    for (size_t r = 0; r < ranks; r++) {
        const size_t from = std::min(r * each, bytes);
        job.part[r].at = src + from;
        job.part[r].bytes = std::min(each, bytes - from);
    }
    const bool has_output = op->kind == TUTTI_OP_ALL_REDUCE || job.c.group.rank == op->root;
    if (has_output) {
        job.result = static_cast<unsigned char *>(op->dst) + job.offset_of(job.own());
    }
    if (each <= job.c.group.eager) {
        job.result = has_output ? job.result : job.c.scratch(each);
        return run_medium_reduce(job);
    }
    job.result_is_ring = !has_output;
    make_rings(job, 0);
    return run_large(job);
}

tutti_status run_reduce_scatter(Reduction &job)
{
    const tutti_op *op = job.c.op;
    const Parts parts(op->send_parts, op->src);
    size_t packed = 0;
    for (size_t r = 0; r < job.part.size(); r++) {
        job.part[r].at = parts.at(static_cast<int>(r));
        job.part[r].bytes = parts.bytes(static_cast<int>(r));
        packed += parts.are_whole() ? 0 : up_to_64(job.part[r].bytes);
    }
    const bool is_small = job.longest() <= job.c.group.eager;
    job.result = static_cast<unsigned char *>(op->dst);
    bool made = true;
    if (!is_small) {
        made = make_rings(job, packed);
    } else if (packed > 0) {
        made = job.c.scratch(packed) != nullptr;
    }
    unsigned char *to = job.c.lane.scratch.data();
    for (size_t r = 0; r < job.part.size() && packed > 0 && made && job.c.failed == TUTTI_OK; r++) {
        parts.copy_out(static_cast<int>(r), to);
        job.part[r].at = to;
        to += up_to_64(job.part[r].bytes);
    }
    if (!made) { /* the entry barrier passes the failure on */
        return job.c.entry_barrier(Plan(job.c.group.size));
    }
    return is_small ? run_small_scatter(job) : run_large(job);
}

} // namespace

tutti_status run_reduction(Call &c)
{
    Reduction job(c);
    return c.op->kind == TUTTI_OP_REDUCE_SCATTER ? run_reduce_scatter(job) : run_reduce(job);
}

} // namespace tti
