// SPDX-License-Identifier: BSD-3-Clause
// The collectives. Each makes blocks of compact memory from its tensors and calls the function of Tutti with its name.
// The v-form serves lists of tensors of different length.
#include "backend.hpp"

namespace tutti_torch {

// A function of Tutti, or with `work` its asynchronous form.
template <class Run, class Start, class... Arguments>
static tutti_status either(Run run, Start start, const tutti_call *options, tutti_work **work, Arguments &&...arguments)
{
    return work ? start(arguments..., options, work) : run(arguments..., options);
}

static const at::Tensor &single(const std::vector<at::Tensor> &tensors, const char *what)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: ", what, " requires a single-element tensor list, got ",
                      tensors.size());
    return tensors[0];
}

static const std::vector<at::Tensor> &single(const std::vector<std::vector<at::Tensor>> &lists, const char *what)
{
    TORCH_CHECK_VALUE(lists.size() == 1, "tutti: ", what, " requires a single list of tensors, got ", lists.size());
    return lists[0];
}

// Where the part of `rank` begins in a block of equal parts, in bytes.
static ptrdiff_t offset_of(int rank, const Block &part)
{
    return static_cast<ptrdiff_t>(part.bytes()) * rank;
}

void Backend::check_root(int64_t root) const
{
    TORCH_CHECK_VALUE(root >= 0 && root < size_, "tutti: invalid root rank: ", root, "; the group has ", size_,
                      " ranks");
}

void Backend::check_list(size_t length, const char *what) const
{
    TORCH_CHECK_VALUE(length == static_cast<size_t>(size_), "tutti: Incorrect ", what, " list size ", length,
                      "; the process group has ", size_, " ranks");
}

static void check_same_type(const Block &a, const Block &b)
{
    TORCH_CHECK_VALUE(a.type() == b.type(), "tutti: invalid tensor type: the input has ", a.type(), ", the output ",
                      b.type());
}

static void check_parts(const Block &list, const Block &part, const char *function)
{
    for (size_t r = 0; r < list.tensors().size(); r++) {
        TORCH_CHECK_VALUE(list.tensors()[r].numel() == part.count(), "tutti: ", function, ": tensor ", r,
                          " of the list has ", list.tensors()[r].numel(), " elements, not ", part.count(),
                          " as this rank's own tensor");
    }
}

void Backend::check_length(const Block &whole, const Block &part, const char *function) const
{
    TORCH_CHECK_VALUE(whole.count() == part.count() * size_, "tutti: ", function, ": the joined tensor has ",
                      whole.count(), " elements, not ", part.count(), " times the world size ", size_);
}

WorkPtr Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    const at::Tensor &tensor = single(tensors, "broadcast");
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    const Block block = is_root ? Block::reading({tensor}) : Block::writing({tensor});
    const Element element = element_to_move(block.type());
    Call call = begin(c10d::OpType::BROADCAST, "tutti:broadcast", options, tensors, {tensors});
    (is_root ? call.reads : call.writes).push_back(block);
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat flat(block, element);
        return either(tutti_broadcast, tutti_broadcast_async, o, work, group_, flat, options.rootRank);
    });
}

// ---- reductions -----------------------------------------------------------------------------------------------------

WorkPtr Backend::reduce_all(Tensors &tensors, c10d::OpType type, const c10d::AllreduceOptions &options, tutti_wire wire)
{
    std::vector<Block> blocks;
    blocks.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors) {
        blocks.push_back(Block::updating({tensor}));
    }
    if (blocks.size() > 1) {
        Block::separate(blocks);
    }
    const Reduction r = reduction(options.reduceOp, blocks[0].type());
    Call call = begin(type, "tutti:all_reduce", options, tensors, {tensors});
    call.writes = blocks;
    call.wire = wire;
    return run(std::move(call), blocks.size(), r.scale, [&](size_t i, const tutti_call *o, tutti_work **work) {
        Flat flat(blocks[i], r.element);
        return either(tutti_all_reduce, tutti_all_reduce_async, o, work, group_, flat, flat, r.op);
    });
}

WorkPtr Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    if (single(tensors, "all_reduce").layout() == c10::kSparse) {
        return allreduce_sparse(tensors, options);
    }
    return reduce_all(tensors, c10d::OpType::ALLREDUCE, options);
}

WorkPtr Backend::allreduce_by_wire(const at::Tensor &tensor, const c10d::AllreduceOptions &options, tutti_wire wire)
{
    Tensors tensors{tensor};
    return reduce_all(tensors, c10d::OpType::ALLREDUCE, options, wire);
}

WorkPtr Backend::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    TORCH_CHECK_VALUE(!tensors.empty(), "tutti: all_reduce_coalesced requires non-empty tensor list");
    for (const at::Tensor &tensor : tensors) {
        TORCH_CHECK_VALUE(tensor.scalar_type() == tensors[0].scalar_type(),
                          "tutti: tensors must all have the same type, got ", tensor.scalar_type(), " and ",
                          tensors[0].scalar_type());
    }
    return reduce_all(tensors, c10d::OpType::ALLREDUCE_COALESCED, options);
}

WorkPtr Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    const Block block = Block::updating({single(tensors, "reduce")});
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    const Reduction r = reduction(options.reduceOp, block.type());
    Call call = begin(c10d::OpType::REDUCE, "tutti:reduce", options, tensors, {tensors});
    (is_root ? call.writes : call.reads).push_back(block);
    return run(std::move(call), 1, r.scale, [&](size_t, const tutti_call *o, tutti_work **work) {
        Flat flat(block, r.element);
        DLTensor *output = is_root ? static_cast<DLTensor *>(flat) : nullptr;
        return either(tutti_reduce, tutti_reduce_async, o, work, group_, flat, output, r.op, options.rootRank);
    });
}

WorkPtr Backend::reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options)
{
    const Block output = Block::writing({single(outputs, "reduce_scatter")});
    const Tensors &list = single(inputs, "reduce_scatter");
    check_list(list.size(), "input");
    Block input = Block::reading(list);
    check_same_type(input, output);
    const bool even = input.is_even();
    input.separate(output, even ? std::optional(-offset_of(rank_, output)) : std::nullopt);
    const Reduction r = reduction(options.reduceOp, input.type());
    const std::vector<int64_t> counts = input.counts(r.element.units);
    Call call = begin(c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", options, list, {outputs});
    call.reads = {input};
    call.writes = {output};
    return run(std::move(call), 1, r.scale, [&](size_t, const tutti_call *o, tutti_work **work) {
        Flat in(input, r.element), out(output, r.element);
        if (even) {
            return either(tutti_reduce_scatter, tutti_reduce_scatter_async, o, work, group_, in, out, r.op, 0);
        }
        return either(tutti_reduce_scatter_v, tutti_reduce_scatter_v_async, o, work, group_, in, out, r.op, 0,
                      counts.data());
    });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::ReduceScatterOptions &options)
{
    Call call =
        begin(inputs.size() == 1 ? c10d::OpType::_REDUCE_SCATTER_BASE : c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED,
              "tutti:reduce_scatter", options, inputs, {outputs});
    add_pairs(call, inputs, outputs);
    std::vector<Reduction> reductions;
    for (size_t i = 0; i < inputs.size(); i++) {
        check_length(call.reads[i], call.writes[i], "reduce_scatter_tensor");
        call.reads[i].separate(call.writes[i], -offset_of(rank_, call.writes[i]));
        reductions.push_back(reduction(options.reduceOp, inputs[i].scalar_type()));
    }
    const std::vector<Block> reads = call.reads, writes = call.writes;
    const double scale = reductions[0].scale;
    return run(std::move(call), inputs.size(), scale, [&](size_t i, const tutti_call *o, tutti_work **work) {
        const Reduction &r = reductions[i];
        Flat in(reads[i], r.element), out(writes[i], r.element);
        return either(tutti_reduce_scatter, tutti_reduce_scatter_async, o, work, group_, in, out, r.op, 0);
    });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options)
{
    Tensors outputs{output};
    Tensors inputs{input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

// ---- gathering and scattering ---------------------------------------------------------------------------------------

WorkPtr Backend::allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    Block input = Block::reading({single(inputs, "all_gather")});
    const Tensors &list = single(outputs, "all_gather");
    check_list(list.size(), "output");
    const Block output = Block::writing(list);
    check_same_type(input, output);
    const bool even = output.is_even();
    input.separate(output, even ? std::optional(offset_of(rank_, input)) : std::nullopt);
    const Element element = element_to_move(input.type());
    const std::vector<int64_t> counts = output.counts(element.units);
    Call call = begin(c10d::OpType::ALLGATHER, "tutti:all_gather", options, inputs, outputs);
    call.reads = {input};
    call.writes = {output};
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat in(input, element), out(output, element);
        if (even) {
            return either(tutti_all_gather, tutti_all_gather_async, o, work, group_, in, out, 0);
        }
        return either(tutti_all_gather_v, tutti_all_gather_v_async, o, work, group_, in, out, 0, counts.data(),
                      nullptr);
    });
}

// Adds the blocks of several operations with one input and one output each.
void Backend::add_pairs(Call &call, const Tensors &inputs, const Tensors &outputs) const
{
    TORCH_CHECK_VALUE(!inputs.empty(), "tutti: requires non-empty input tensor list");
    TORCH_CHECK_VALUE(inputs.size() == outputs.size(),
                      "tutti: requires input/output tensor lists to have the same length");
    for (size_t i = 0; i < inputs.size(); i++) {
        call.reads.push_back(Block::reading({inputs[i]}));
        call.writes.push_back(Block::writing({outputs[i]}));
        check_same_type(call.reads[i], call.writes[i]);
    }
}

// all_gather of each of call.reads into the block of call.writes with its index.
WorkPtr Backend::gather_pairs(Call call)
{
    for (size_t i = 0; i < call.reads.size(); i++) {
        check_length(call.writes[i], call.reads[i], "all_gather_into_tensor");
        call.reads[i].separate(call.writes[i], offset_of(rank_, call.reads[i]));
    }
    const std::vector<Block> reads = call.reads, writes = call.writes;
    return run(std::move(call), reads.size(), 1, [&](size_t i, const tutti_call *o, tutti_work **work) {
        const Element element = element_to_move(reads[i].type());
        Flat in(reads[i], element), out(writes[i], element);
        return either(tutti_all_gather, tutti_all_gather_async, o, work, group_, in, out, 0);
    });
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::AllgatherOptions &options)
{
    Call call = begin(inputs.size() == 1 ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::COALESCED, "tutti:all_gather",
                      options, inputs, {outputs});
    add_pairs(call, inputs, outputs);
    return gather_pairs(std::move(call));
}

WorkPtr Backend::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options)
{
    Tensors outputs{output};
    Tensors inputs{input};
    return allgather_into_tensor_coalesced(outputs, inputs, options);
}

// outputs[r][i] gets inputs[i] of rank r.
WorkPtr Backend::allgather_coalesced(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    TORCH_CHECK_VALUE(!inputs.empty(), "tutti: all_gather_coalesced requires non-empty input tensor list");
    check_list(outputs.size(), "output");
    Call call = begin(c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", options, inputs, outputs);
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors list;
        for (const Tensors &of_rank : outputs) {
            TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "tutti: invalid output size: (expected length ",
                              inputs.size(), ", got ", of_rank.size(), ")");
            TORCH_CHECK_VALUE(of_rank[i].numel() == inputs[i].numel(), "tutti: invalid tensor size at index ", i);
            list.push_back(of_rank[i]);
        }
        call.reads.push_back(Block::reading({inputs[i]}));
        call.writes.push_back(Block::writing(std::move(list)));
        check_same_type(call.reads[i], call.writes[i]);
    }
    return gather_pairs(std::move(call));
}

WorkPtr Backend::gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    Block input = Block::reading({single(inputs, "gather")});
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    const Element element = element_to_move(input.type());
    Call call = begin(c10d::OpType::GATHER, "tutti:gather", options, inputs, outputs);
    if (is_root) {
        const Tensors &list = single(outputs, "gather");
        check_list(list.size(), "output");
        call.writes = {Block::writing(list)};
        check_same_type(input, call.writes[0]);
        check_parts(call.writes[0], input, "gather");
        input.separate(call.writes[0], offset_of(rank_, input));
    } else {
        TORCH_CHECK_VALUE(outputs.empty(), "tutti: gather requires empty output on non-root");
    }
    call.reads = {input};
    Flat out = is_root ? Flat(call.writes[0], element) : Flat(nullptr, 0, element);
    DLTensor *joined = is_root ? static_cast<DLTensor *>(out) : nullptr;
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat in(input, element);
        return either(tutti_gather, tutti_gather_async, o, work, group_, in, joined, 0, options.rootRank);
    });
}

WorkPtr Backend::scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options)
{
    const Block output = Block::writing({single(outputs, "scatter")});
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    const Element element = element_to_move(output.type());
    Call call = begin(c10d::OpType::SCATTER, "tutti:scatter", options, {}, {outputs});
    call.writes = {output};
    if (is_root) {
        call.inputs = single(inputs, "scatter");
        check_list(call.inputs.size(), "input");
        call.reads = {Block::reading(call.inputs)};
        check_same_type(call.reads[0], output);
        check_parts(call.reads[0], output, "scatter");
        call.reads[0].separate(output, -offset_of(rank_, output));
    } else {
        TORCH_CHECK_VALUE(inputs.empty(), "tutti: scatter requires empty input on non-root");
    }
    Flat in = is_root ? Flat(call.reads[0], element) : Flat(nullptr, 0, element);
    DLTensor *joined = is_root ? static_cast<DLTensor *>(in) : nullptr;
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat out(output, element);
        return either(tutti_scatter, tutti_scatter_async, o, work, group_, joined, out, 0, options.rootRank);
    });
}

// ---- all to all -----------------------------------------------------------------------------------------------------

// Elements of Tutti for each rank: one tensor of the block each, or with `splits` the given rows of its only tensor, or
// equal parts.
static std::vector<int64_t> part_counts(const Block &block, const std::vector<int64_t> *splits, int size, int64_t units)
{
    if (!splits) {
        return block.counts(units);
    }
    const at::Tensor &tensor = block.tensors()[0];
    c10d::checkSplitSizes(*splits, tensor, size);
    if (splits->empty()) {
        return std::vector<int64_t>(size, tensor.numel() / size * units);
    }
    std::vector<int64_t> counts = *splits;
    const int64_t rows = tensor.size(0);
    for (int64_t &count : counts) {
        count *= rows == 0 ? 0 : tensor.numel() / rows * units;
    }
    return counts;
}

// Other ranks may give split sizes, or tensors of different lengths, where this rank does not. So all ranks use the
// v-form.
WorkPtr Backend::exchange(const Tensors &outputs, const Tensors &inputs, const std::vector<int64_t> *output_splits,
                          const std::vector<int64_t> *input_splits, c10d::OpType type,
                          const c10d::AllToAllOptions &options)
{
    const Block output = Block::writing(outputs);
    Block input = Block::reading(inputs);
    check_same_type(input, output);
    input.separate(output, std::nullopt);
    const Element element = element_to_move(input.type());
    const std::vector<int64_t> to = part_counts(input, input_splits, size_, element.units);
    const std::vector<int64_t> from = part_counts(output, output_splits, size_, element.units);
    Call call = begin(type, "tutti:all_to_all", options, inputs, {outputs});
    call.reads = {input};
    call.writes = {output};
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat in(input, element), out(output, element);
        return either(tutti_all_to_all_v, tutti_all_to_all_v_async, o, work, group_, in, out, 0, to.data(), nullptr,
                      from.data(), nullptr);
    });
}

WorkPtr Backend::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                               std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options)
{
    return exchange({output}, {input}, &output_splits, &input_splits, c10d::OpType::ALLTOALL_BASE, options);
}

WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    check_list(inputs.size(), "input");
    check_list(outputs.size(), "output");
    return exchange(outputs, inputs, nullptr, nullptr, c10d::OpType::ALLTOALL, options);
}

WorkPtr Backend::barrier(const c10d::BarrierOptions &options)
{
    return run_one(begin(c10d::OpType::BARRIER, "tutti:barrier", options, {}, {}),
                   [&](const tutti_call *o, tutti_work **work) {
                       return either(tutti_barrier, tutti_barrier_async, o, work, group_);
                   });
}

} // namespace tutti_torch
