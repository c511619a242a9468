// SPDX-License-Identifier: BSD-3-Clause
// The Work of an asynchronous call: one or several works of Tutti that end together. A waiting thread may run the
// operation itself (tutti_work_wait). The end of the last operation completes the Work, on the thread that ran it.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <atomic>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <tutti/tutti.hpp>
#include <vector>

#include "block.hpp"
#include "error.hpp"

namespace tutti_torch {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// What a call of torch is, and the memory that it uses until it ends.
struct Call {
    c10d::OpType type;
    const char *title; // of the profiler's range: "tutti:all_reduce"
    milliseconds timeout;
    bool async;
    std::vector<at::Tensor> inputs;               // as the profiler shows them
    std::vector<std::vector<at::Tensor>> outputs; // the result of the Work and of its future
    std::vector<Block> reads;
    std::vector<Block> writes; // stored at the end
    tutti_wire wire = TUTTI_WIRE_FULL;
    double scale = 1; // of PREMUL_SUM
    uint32_t tag = 0;

    // A factor of 0 needs its flag. Without flags a call is faster.
    tutti::call options(uint32_t flags = 0) const
    {
        return tutti::call()
            .timeout_ms(deadline(timeout))
            .scale(scale)
            .tag(tag)
            .wire(wire)
            .flags(flags | (scale == 0 ? TUTTI_HAS_SCALE : 0u));
    }
};

class Work : public c10d::Work {
public:
    Work(int rank, Call call, uint64_t sequence);
    ~Work() override;

    // Starts an operation of this Work: start(options, &work) of Tutti. Throws if it does not start.
    template <class Start> void start(const Start &start)
    {
        tutti_error error;
        tutti_work *work = nullptr;
        const tutti::call options = expect(&error);
        if (start(options, &work) != TUTTI_OK) {
            refused();
            throw_error(error);
        }
        works_.push_back(work);
    }
    // All operations have been started.
    void started() { end_one(); }
    // The process ends: pending operations end without notice, since nothing of torch and Python may be used any more.
    static void leave_pending();

    // The description of a received message.
    tutti_message *message() { return &message_; }

    bool wait(milliseconds timeout = kNoTimeout) override;
    void abort() override;
    int sourceRank() const override { return message_.source; }
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const override { return sequence_; }

private:
    tutti::call expect(tutti_error *error);
    void refused();
    static void on_end(tutti_status status, const tutti_error *error, void *user);
    void end_one();
    void complete();
    void settle(c10::ivalue::Future &future);

    Call call_;
    const uint64_t sequence_;
    std::optional<at::ThreadLocalState> caller_; // for the thread that stores results
    std::vector<tutti_work *> works_;
    std::atomic<int> unfinished_{1};                 // operations, and 1 until started()
    std::exception_ptr failure_;                     // of the first operation that failed; guarded by mutex_
    c10::intrusive_ptr<c10::ivalue::Future> future_; // guarded by mutex_
    bool ended_ = false;                             // guarded by mutex_: complete() has looked for a future
    tutti::message message_;
};

} // namespace tutti_torch
