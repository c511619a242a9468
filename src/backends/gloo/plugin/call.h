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
struct Piece {
    unsigned char *at = nullptr;
    size_t bytes = 0;
};

/* What this rank sends to each other one in letters if it has at most FREIGHT bytes, and how much comes from there. */
struct Plan {
    explicit Plan(int size) : out(static_cast<size_t>(size)), in(static_cast<size_t>(size))
    {
    }
    std::vector<Piece> out;
    std::vector<Piece> in;
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
    tutti_status gate(const Plan &plan);
    /* After gate, until close: what came with a rank's letter; NULL of this rank. */
    const Letter &letter(int peer) const;
    unsigned char *freight_of(int peer) const;
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
            const uint32_t seen = group.bell().value();
            if (step()) {
                lane.awaited.store(-1, std::memory_order_relaxed);
                return TUTTI_OK;
            }
            list_missing();
            if (!is_over(seen, missing)) {
                continue;
            }
            bool done = step();
            for (const int64_t limit = done ? 0 : ask(missing); !done && listen(limit, missing);) {
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
    void open_letters();
    unsigned char *place(std::vector<unsigned char> &letters, int peer, uint64_t round) const;
    tutti_status round(const Letter &own, const Plan *plan);
    tutti_status compare();
    tutti_status compare_pairs(const Plan &plan);
    tutti_status differs(int peer);
    bool cannot_come(const std::vector<int> &missing) const;
    void tell_since(int64_t since_ns) const;
    bool is_over(uint32_t seen, const std::vector<int> &missing);
    int64_t ask(const std::vector<int> &missing);
    bool listen(int64_t limit_ns, const std::vector<int> &missing);
    tutti_status lost(const std::vector<int> &missing);
    tutti_status too_late(const std::vector<int> &missing);
    const Letter &letter_of(int peer, uint64_t round) const;

    int64_t started_ns_;
    int64_t deadline_ns_;
    uint64_t round_ = 0; /* of the call's first letters */
    bool asked_ = false;
};

/* The first round of a group. Throws. */
void greet(Group &group, int64_t deadline_ns);

tutti_status run_reduction(Call &c); /* all_reduce, reduce, reduce_scatter: reductions.cc */
tutti_status run_move(Call &c);      /* moves.cc: what reduces nothing */
tutti_status run_alone(const tutti_op *op);

} // namespace tti

#endif
