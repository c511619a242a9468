// SPDX-License-Identifier: BSD-3-Clause
// The backend "tutti" of torch.distributed: one Tutti group for each process group. A call with async_op=False runs on
// the caller's thread by Tutti's synchronous function and returns no Work, as NCCL's does. Other calls return a Work.
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "arena.hpp"
#include "store.hpp"
#include "work.hpp"

namespace tutti_torch {

// The profiler's range of a synchronous call.
class Range {
public:
    Range(const char *title, const std::vector<at::Tensor> &inputs);

private:
    at::RecordFunction function_;
};

class Backend : public c10d::Backend {
public:
    using Tensors = std::vector<at::Tensor>;
    using Lists = std::vector<Tensors>;

    // Forms the group: returns when all ranks have called.
    Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, c10::intrusive_ptr<Options> options);
    ~Backend() override;

    const std::string getBackendName() const override { return "tutti"; }
    // A copy: split_group writes the part's name and timeout into what it gets.
    c10::intrusive_ptr<Options> getBackendOptions() override { return c10::make_intrusive<Options>(*options_); }
    void setTimeout(milliseconds timeout) override { options_->timeout = timeout; }
    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<Options> &options) override;
    c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                            const c10::intrusive_ptr<Options> &options, const int &rank,
                                            const int &size) override;
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;

    // collectives.cpp
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options) override;
    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
    WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options) override;
    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;

    // allreduce whose values travel as `wire` says, which torch has no option for.
    WorkPtr allreduce_by_wire(const at::Tensor &tensor, const c10d::AllreduceOptions &options, tutti_wire wire);

    // messages.cpp
    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    // A tensor in memory that the ranks share (tutti_register). Collective.
    at::Tensor empty(const std::vector<int64_t> &shape, c10::ScalarType type);
    // Shares `bytes` bytes, from which torch takes the buffers of DDP and FSDP2 by the two functions below. Collective.
    void reserve(size_t bytes);
    bool supportsTensorAlloc(c10::DeviceIndex index) override;
    at::Tensor allocateTensor(long size, at::TensorOptions options = {}) override;
    // What tutti_group_describe says.
    std::string describe() const;

private:
    // Runs or starts `count` operations of Tutti as one call: start(i, options, work), without `work` if it runs.
    template <class Start> WorkPtr run(Call call, size_t count, double scale, const Start &start)
    {
        // torch compares the number of collectives between ranks, which send different numbers of messages
        auto &sequence_of_kind = call.type == c10d::OpType::SEND ? messages_ : sequence_;
        const uint64_t sequence = sequence_of_kind.fetch_add(1, std::memory_order_relaxed) + 1;
        call.scale = scale;
        call.tag = count > 1 ? static_cast<uint32_t>(count) : 0; // ranks with other numbers of tensors get MISMATCH
        if (!call.async) {
            const Range range(call.title, call.inputs);
            tutti_error error;
            const tutti::call options = call.options().error(&error);
            for (size_t i = 0; i < count; i++) {
                check(start(i, options, nullptr), error);
            }
            for (const Block &block : call.writes) {
                block.store();
            }
            return nullptr;
        }
        auto work = c10::make_intrusive<Work>(rank_, std::move(call), sequence);
        for (size_t i = 0; i < count; i++) {
            work->start([&](const tutti_call *options, tutti_work **handle) { return start(i, options, handle); });
        }
        work->started();
        return work;
    }
    template <class Start> WorkPtr run_one(Call call, const Start &start)
    {
        return run(std::move(call), 1, 1,
                   [&](size_t, const tutti_call *options, tutti_work **work) { return start(options, work); });
    }

    milliseconds timeout_of(milliseconds timeout) const
    {
        return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
    }
    template <class CallOptions>
    Call begin(c10d::OpType type, const char *title, const CallOptions &options, Tensors inputs, Lists outputs) const
    {
        return {type, title, timeout_of(options.timeout), options.asyncOp, std::move(inputs), std::move(outputs),
                {},   {}};
    }
    // A reduction of several tensors, each in place.
    WorkPtr reduce_all(Tensors &tensors, c10d::OpType type, const c10d::AllreduceOptions &options,
                       tutti_wire wire = TUTTI_WIRE_FULL);
    void add_pairs(Call &call, const Tensors &inputs, const Tensors &outputs) const;
    WorkPtr gather_pairs(Call call);
    // all_to_all; without splits each tensor is a part.
    WorkPtr exchange(const Tensors &outputs, const Tensors &inputs, const std::vector<int64_t> *output_splits,
                     const std::vector<int64_t> *input_splits, c10d::OpType type, const c10d::AllToAllOptions &options);
    at::Tensor sum_sparse(const at::Tensor &tensor, milliseconds timeout);
    void check_root(int64_t root) const;
    void check_list(size_t length, const char *what) const;
    void check_length(const Block &whole, const Block &part, const char *function) const;
    WorkPtr receive(Tensors &tensors, int peer, int tag, c10d::OpType type, const char *title);
    WorkPtr send_number(int peer, int tag, int64_t number);
    void report_to_root(milliseconds timeout);
    std::vector<int64_t> collect_reports(milliseconds timeout, bool wait_all_ranks);

    const c10::intrusive_ptr<Options> options_;
    std::unique_ptr<StoreBridge> store_; // until the group is destroyed
    tutti_group *group_ = nullptr;
    std::vector<std::shared_ptr<Arena>> arenas_; // of empty(), each with one tensor
    std::mutex reserved_mutex_;                  // FSDP2 allocates on the threads of the backward pass
    std::vector<std::shared_ptr<Arena>> reserved_;
    std::atomic<uint64_t> sequence_{0}; // of collectives
    std::atomic<uint64_t> messages_{0};
    std::atomic<int64_t> reports_{0}; // of this rank, in monitored barriers
};

} // namespace tutti_torch
