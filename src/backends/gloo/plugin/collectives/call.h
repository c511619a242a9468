/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from its call to its end.
 *
 * Every collective begins with an entry barrier: each rank sends a record of its call to each other rank, and waits for
 * theirs. So a rank can name the missing ranks, compares all calls before any tensor is written, and can fail while no
 * tensor is in use. A small tensor is sent in the record, so a small collective takes one trip across the network. A
 * second round of records returns the results of a tensor of which only a part went to each rank. Receives for the next
 * records are posted at the end of a call, so that no record waits for its receive.
 *
 * Cost: n - 1 records of 64 bytes for each rank and call, and the data.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_CALL_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_CALL_H

#include "backends/gloo/plugin/group.h"

namespace tti
{

/* The record that each rank sends to each other rank at the beginning of a collective. Eager data follow it. */
struct CallRecord {
    uint64_t token; /* the group's token plus the sender's rank */
    uint64_t call;
    uint64_t descriptor[2];
    uint64_t sends;   /* all_to_all_v: bytes for the receiver of this record; with a decision: those of that rank ... */
    uint64_t expects; /* ... and what the sender of this record expects from it */
    double scale;
    int32_t decision; /* second round of all_to_all_v: the rank whose `sends` differ from `expects`, or -1 */
    int32_t failed;   /* the status for which the sender cannot take part, or OK */
};
static_assert(sizeof(CallRecord) == 64, "the eager data behind it are aligned");

/* What a link transfers in the time of one more round: 200 us at 1 Gbit/s, 20 us at 10 Gbit/s. A round between two
 * hosts takes 30 to 100 us. */
constexpr size_t ROUND_BYTES = 24576;

/* Whether `bytes` take one round, in which a rank sends all of them to each of n - 1 ranks, or two: parts to their
 * ranks, and then their results. Two rounds transfer 2 (n-1)/n of the bytes, one round (n-1)(n-2)/n of them more. */
inline bool takes_one_round(const Group &group, size_t bytes)
{
    const size_t ranks = static_cast<size_t>(group.size);
    return bytes <= group.eager && bytes * (ranks - 1) * (ranks - 2) / ranks <= ROUND_BYTES;
}

/* Memory of one part of a tensor. */
struct Span {
    unsigned char *at = nullptr;
    size_t bytes = 0;
};

/* What this rank sends to and receives from each other rank. Parts of up to Group::eager bytes are in the record. */
struct Plan {
    explicit Plan(int size) : out(static_cast<size_t>(size)), in(static_cast<size_t>(size))
    {
    }
    std::vector<Span> out;
    std::vector<Span> in;
    bool in_pairs = false; /* only the two ranks of a pair know the sizes, so they compare them */
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
    /* The status for which this rank cannot take part, or OK. Not in the op: the call cache keeps that for the next
     * call. */
    tutti_status failed;

    /* Exchanges the records and compares them. MISMATCH and CANCELLED leave the group usable. */
    tutti_status entry_barrier(const Plan &plan);
    /* After entry_barrier: releases its records, whose eager data have been used, and makes one more round, with the
     * eager data of this plan. At most once a call. */
    tutti_status second_round(const Plan &plan);
    /* Until close: a rank's record of the last round, and the eager data in it. */
    const CallRecord &record(int peer) const;
    unsigned char *eager_data_of(int peer) const;
    /* Releases the records, and posts receives for the next two rounds. */
    void close();

    /*
     * Runs `step` after each transfer that ends, until it returns true. `needs(rank)`: whether it waits for that rank.
     * Once the deadline has passed and a last step has found data missing, no data end the wait with success. So this
     * rank fails the group if it has sent WAITS, and no later call sees that notification.
     */
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
            if (!is_over(seen, missing) || step()) {
                continue;
            }
            list_missing(); /* without a rank whose last data arrived just before its connection was lost */
            if (!has_ended(missing) || (missing.empty() && step())) {
                continue;
            }
            const std::vector<int> late(missing.begin(), missing.end()); /* list_missing changes `missing` */
            for (const int64_t limit = begin_grace(missing); poll(limit, missing);) {
                list_missing(); /* a rank that arrives now may leave before this one has ended the wait */
            }
            return give_up(late, missing);
        }
    }

    /* At least `bytes` of the lane's scratch memory; to be called before entry_barrier. NULL: the call fails, and
     * entry_barrier passes that on to the other ranks. */
    unsigned char *scratch(size_t bytes);
    /* The slot for transfers of this lane. */
    uint64_t slot(Use use) const
    {
        return slot_of(use, static_cast<uint64_t>(op->lane));
    }

  private:
    void post_records();
    size_t record_room() const
    {
        return sizeof(CallRecord) + group.eager;
    }
    unsigned char *place(std::vector<unsigned char> &records, int peer, uint64_t round) const;
    tutti_status round(const CallRecord &own, const Plan *plan);
    tutti_status compare();
    tutti_status compare_pairs(const Plan &plan);
    tutti_status differs(int peer);
    bool cannot_arrive(const std::vector<int> &missing) const;
    void set_waits_since(int64_t since_ns) const;
    bool has_ended(const std::vector<int> &missing) const;
    bool is_over(uint32_t seen, const std::vector<int> &missing);
    int64_t begin_grace(const std::vector<int> &missing);
    bool poll(int64_t limit_ns, const std::vector<int> &missing);
    tutti_status give_up(const std::vector<int> &late, const std::vector<int> &missing);
    tutti_status too_late(const std::vector<int> &late);
    const CallRecord &record_of(int peer, uint64_t round) const;

    int64_t started_ns_;
    int64_t deadline_ns_;
    uint64_t round_ = 0; /* whose records are in use */
};

/* The first round of a group: checks that every connection leads to its rank. Throws. */
void handshake(Group &group, int64_t deadline_ns);

} // namespace tti

#endif
