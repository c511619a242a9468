/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from its call to its end.
 *
 * Every collective begins with letters: each rank tells each other one what it calls, and goes on when it has all of theirs.
 * So it knows who is missing and can name them, finds out whether all call the same before anything is written, and can
 * give up while no tensor is involved. Few data travel in the letters themselves, so that a small collective is over
 * after one way across the network. Receives for the next letters are posted at the end of a call, so that no letter
 * waits for one.
 *
 * Cost: n - 1 letters of 64 bytes for each rank and call, and the data.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_CALL_H
#define TTI_BACKENDS_GLOO_PLUGIN_CALL_H

#include "backends/gloo/plugin/group.h"

namespace tti
{

/* Memory of one part of a tensor. */
struct Span {
    unsigned char *at = nullptr;
    size_t bytes = 0;
};

/* What this rank sends to each other one in letters if it has at most FREIGHT bytes, and how much comes from there. */
struct Plan {
    explicit Plan(int size) : out(static_cast<size_t>(size)), in(static_cast<size_t>(size))
    {
    }
    std::vector<Span> out;
    std::vector<Span> in;
    bool in_pairs = false; /* only the two of a pair know what they exchange: they compare it */
};

class Call
{
  public:
    Call(Group &group, tutti_op *op, tutti_error *error);
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    Group &group;
    Lane &lane;
    tutti_op *const op;
    tutti_error *const error;

    /* Exchanges letters and compares them. MISMATCH and CANCELLED leave the group usable. */
    tutti_status entry_barrier(const Plan &plan);
    /* After gate, until close: what came with a rank's letter; NULL of this rank. */
    const CallRecord &record(int peer) const;
    unsigned char *eager_data_of(int peer) const;
    /* Lets the letters go, and posts receives for the next. */
    void close();

    /* Runs `step` whenever something has ended, until it returns true; `needs(rank)` says whom it waits for. */
    template <class Step, class Needs> tutti_status until(Step step, Needs needs)
    {
        std::vector<int> missing;
        const auto list_missing = [&] {
            missing.clear();
            for (int r = 0; r < group.size; r++) {
                if (r != group.rank && needs(r)) {
                    missing.push_back(r);
                }
            }
        };
        for (;;) {
            const uint32_t seen = group.doorbell().value();
            if (step()) {
                lane.awaited.store(-1, std::memory_order_relaxed);
                return TUTTI_OK;
            }
            list_missing();
            if (!is_over(seen, missing)) {
                continue;
            }
            bool done = step();
            for (const int64_t limit = done ? 0 : begin_grace(missing); !done && poll(limit, missing);) {
                done = step();
            }
            if (!done && !step()) {
                list_missing();
                return lost(missing);
            }
        }
    }

    /* At least so many bytes of the lane's scratch memory. NULL: the call fails, and gate tells the others. Before gate. */
    unsigned char *scratch(size_t bytes);
    /* The slot for transfers of this lane. */
    uint64_t slot(Use use) const
    {
        return slot_of(use, static_cast<uint64_t>(op->lane));
    }

  private:
    void post_records();
    unsigned char *place(std::vector<unsigned char> &records, int peer, uint64_t round) const;
    tutti_status round(const CallRecord &own, const Plan *plan);
    tutti_status compare();
    tutti_status compare_pairs(const Plan &plan);
    tutti_status differs(int peer);
    bool cannot_arrive(const std::vector<int> &missing) const;
    void set_waits_since(int64_t since_ns) const;
    bool is_over(uint32_t seen, const std::vector<int> &missing);
    int64_t begin_grace(const std::vector<int> &missing);
    bool poll(int64_t limit_ns, const std::vector<int> &missing);
    tutti_status lost(const std::vector<int> &missing);
    tutti_status too_late(const std::vector<int> &missing);
    const CallRecord &record_of(int peer, uint64_t round) const;

    int64_t started_ns_;
    int64_t deadline_ns_;
    uint64_t round_ = 0; /* of the call's first letters */
    bool grace_begun_ = false;
};

/* The first round of a group. Throws. */
void handshake(Group &group, int64_t deadline_ns);

tutti_status run_reduction(Call &c);     /* all_reduce, reduce, reduce_scatter: reductions.cc */
tutti_status run_data_movement(Call &c); /* data_movement.cc: what reduces nothing */
tutti_status run_alone(const tutti_op *op);

} // namespace tti

#endif
