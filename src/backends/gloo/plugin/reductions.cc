/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce, reduce, reduce_scatter. Every rank owns a part of the tensor. It gets that part from every other rank, straight
 * from there, folds all of them in rank order with Tutti's kernels, which round once, and passes the result on: to all, to
 * the root, or to nobody. So the bits are those of Tutti's own engine, whatever the size.
 *
 * Cost, with S bytes on n ranks: each rank sends and receives S (n-1)/n for the folding, and as much again in an
 * all_reduce (the root of a reduce receives, and each other rank sends S/n): what a ring moves, which is the least
 * possible, in two steps instead of 2 (n-1). Parts go in pieces: while one is folded, the next ones are coming, and results go
 * out. IN_FLIGHT pieces of each other rank in scratch memory.
 *
 * A ring would cross the link between two hosts once for all ranks of a host, this does once for each; that is what the
 * hierarchical backend is for. And a ring folds each part in another order, and rounds a narrow type n-1 times.
 *
 * Up to FREIGHT bytes travel in the letters: each rank gets the whole inputs, and folds them itself. S (n-1) bytes, one step.
 */
#include <cstring>

#include "backends/gloo/plugin/chunked_transfer.h"
#include "backends/gloo/plugin/parts.h"

namespace tti
{

namespace
{

constexpr size_t MIN_CHUNK = 32768;

struct Reduction {
    explicit Reduction(Call &call) : c(call), item(tti_dtype_size(call.op->dtype)), part(static_cast<size_t>(call.group.size))
    {
    }

    Call &c;
    size_t item;
    std::vector<Span> part;         /* of the own input, one for each rank */
    unsigned char *result = nullptr; /* the own part's */
    bool result_is_ring = false;     /* it is sent to the root from there, IN_FLIGHT pieces at a time */
    unsigned char *rings = nullptr;  /* of each other rank, in rank order */
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

/* sources[r] lies at rank r's. */
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

/* `own` is this rank's input to what it folds. */
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

tutti_status run_small_scatter(Reduction &job)
{
    Plan plan(job.c.group.size);
    plan.out = job.part;
    return run_small(job, plan, job.part[job.own()], job.c.op->dst);
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

/* Everything that is under way in one call. */
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
                results_out_[r] = ChunkedTransfer(job.c, peer, Use::RESULT, job.result, job.cut_of(job.own()), job.result_is_ring);
            }
            if (from_it) {
                results_in_[r] =
                    ChunkedTransfer(job.c, peer, Use::RESULT, static_cast<unsigned char *>(op->dst) + offset_of(r), job.cut_of(r));
            }
        }
    }

    bool step()
    {
        bool done = false;
        do {
            for (size_t r = 0; r < ranks_; r++) {
                in_[r].receive(folded_ + IN_FLIGHT);
                out_[r].send(out_[r].count());
                results_out_[r].send(folded_);
                results_in_[r].receive(results_in_[r].count());
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
    ChunkLayout own_cut() const
    {
        return job_.cut_of(job_.own());
    }

    /* In the tensor that all parts of an all_reduce or reduce lie in. */
    size_t offset_of(size_t rank) const
    {
        return static_cast<size_t>(job_.part[rank].at - job_.part[0].at);
    }

    /* The next piece of the own part, if it has come from everybody, and its place has been sent from. */
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
            if (in_[r].ended() <= folded_ ||
                (job_.result_is_ring && results_out_[r].count() > 0 && results_out_[r].ended() + IN_FLIGHT <= folded_)) {
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
    std::vector<ChunkedTransfer> in_;     /* the own part, from each rank */
    std::vector<ChunkedTransfer> out_;    /* each rank's part, to it */
    std::vector<ChunkedTransfer> results_out_; /* the own part's result */
    std::vector<ChunkedTransfer> results_in_;   /* the others' results */
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

/* Scratch memory: `before` bytes, the rings of the others, and one for the result if it has no other place. */
bool make_rings(Reduction &job, size_t before)
{
    const size_t longest = job.longest();
    const size_t chunks = std::max<size_t>(longest / std::max(MIN_CHUNK, longest / 4), 1); /* alike: no crumbs */
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
    if (bytes <= CALL_EAGER) {
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
    job.result_is_ring = op->kind == TUTTI_OP_REDUCE && job.c.group.rank != op->root;
    if (!job.result_is_ring) {
        job.result = static_cast<unsigned char *>(op->dst) + (job.part[job.own()].at - src);
    }
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
    const bool is_small = job.longest() <= CALL_EAGER;
    job.result = static_cast<unsigned char *>(op->dst);
    bool made = true;
    if (!is_small) {
        made = make_rings(job, packed);
    } else if (packed > 0) {
        made = job.c.scratch(packed) != nullptr;
    }
    unsigned char *to = job.c.lane.scratch.data();
    for (size_t r = 0; r < job.part.size() && packed > 0 && made; r++) {
        parts.copy_out(static_cast<int>(r), to);
        job.part[r].at = to;
        to += up_to_64(job.part[r].bytes);
    }
    if (!made) { /* the gate tells the others */
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
