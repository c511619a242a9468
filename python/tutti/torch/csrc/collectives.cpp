// SPDX-License-Identifier: BSD-3-Clause
// The collectives. Each makes blocks of compact memory from its tensors and calls the function of Tutti with its name.
// The v-form serves lists of tensors of different length.
#include "backend.hpp"

namespace tutti_torch {


static const at::Tensor &single(const std::vector<at::Tensor> &tensors, const char *what)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: ", what, " requires a single-element tensor list, got ",
                      tensors.size());
    return tensors[0];
}

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
    TORCH_CHECK_VALUE(length == static_cast<size_t>(size_), "tutti: Incorrect ", what, " list size ", length, "; it "
                      "should be ", size_, ", the size of the process group");
}

static void check_same_type(const Block &a, const Block &b)
{
    TORCH_CHECK_VALUE(a.type() == b.type(), "tutti: invalid tensor type: the input has ", a.type(), ", the output ",
                      b.type());
}

static void check_length(const Block &whole, const Block &part, int parts, const char *function)
{
    TORCH_CHECK_VALUE(whole.count() == part.count() * parts, "tutti: ", function, ": the larger tensor must be the "
                      "smaller one times the world size, but it has ", whole.count(), " elements, not ", parts, " x ",
                      part.count());
}

WorkPtr Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    const at::Tensor &tensor = single(tensors, "broadcast");
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    Block block = is_root ? Block::reading({tensor}) : Block::writing({tensor});
    const Element element = element_to_move(block.type());
    Call call{c10d::OpType::BROADCAST, "tutti:broadcast", timeout_of(options.timeout), options.asyncOp, tensors,
              {tensors}, {}, {}};
    (is_root ? call.reads : call.writes).push_back(block);
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat flat(block, element);
        return work ? tutti_broadcast_async(group_, flat, options.rootRank, o, work)
                    : tutti_broadcast(group_, flat, options.rootRank, o);
    });
}

WorkPtr Backend::reduce_all(Tensors &tensors, c10d::OpType type, const c10d::AllreduceOptions &options)
{
    Call call{type, "tutti:all_reduce", timeout_of(options.timeout), options.asyncOp, tensors, {tensors}, {}, {}};
    std::vector<Block> blocks;
    blocks.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors) {
        blocks.push_back(Block::updating({tensor}));
    }
    const Reduction r = reduction(options.reduceOp, blocks[0].type());
    call.writes = blocks;
    return run(std::move(call), blocks.size(), r.scale, [&](size_t i, const tutti_call *o, tutti_work **work) {
        Flat flat(blocks[i], r.element);
        return work ? tutti_all_reduce_async(group_, flat, flat, r.op, o, work)
                    : tutti_all_reduce(group_, flat, flat, r.op, o);
    });
}

WorkPtr Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    const at::Tensor &tensor = single(tensors, "all_reduce");
    if (tensor.layout() == c10::kSparse) {
        return allreduce_sparse(tensors, options);
    }
    return reduce_all(tensors, c10d::OpType::ALLREDUCE, options);
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
    const at::Tensor &tensor = single(tensors, "reduce");
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    Block block = Block::updating({tensor});
    const Reduction r = reduction(options.reduceOp, block.type());
    Call call{c10d::OpType::REDUCE, "tutti:reduce", timeout_of(options.timeout), options.asyncOp, tensors, {tensors},
              {}, {}};
    (is_root ? call.writes : call.reads).push_back(block);
    return run(std::move(call), 1, r.scale, [&](size_t, const tutti_call *o, tutti_work **work) {
        Flat flat(block, r.element);
        DLTensor *output = is_root ? static_cast<DLTensor *>(flat) : nullptr;
        return work ? tutti_reduce_async(group_, flat, output, r.op, options.rootRank, o, work)
                    : tutti_reduce(group_, flat, output, r.op, options.rootRank, o);
    });
}

// ---- gathering and scattering ---------------------------------------------------------------------------------------

WorkPtr Backend::allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    const at::Tensor &tensor = single(inputs, "all_gather");
    TORCH_CHECK_VALUE(outputs.size() == 1, "tutti: all_gather requires a single-element output list");
    check_list(outputs[0].size(), "output");
    Block output = Block::writing(outputs[0]);
    Block input = Block::reading({tensor});
    check_same_type(input, output);
    const bool even = output.is_even();
    input.separate(output, even ? std::optional(offset_of(rank_, input)) : std::nullopt);
    const Element element = element_to_move(input.type());
    const std::vector<int64_t> counts = output.counts(element.units);
    return run_one({c10d::OpType::ALLGATHER, "tutti:all_gather", timeout_of(options.timeout), options.asyncOp, inputs,
                    outputs, {input}, {output}},
                   [&](const tutti_call *o, tutti_work **work) {
                       Flat in(input, element), out(output, element);
                       if (even) {
                           return work ? tutti_all_gather_async(group_, in, out, 0, o, work)
                                       : tutti_all_gather(group_, in, out, 0, o);
                       }
                       return work ? tutti_all_gather_v_async(group_, in, out, 0, counts.data(), nullptr, o, work)
                                   : tutti_all_gather_v(group_, in, out, 0, counts.data(), nullptr, o);
                   });
}

// The pairs of several operations of which one tensor is the other one times the world size.
struct Pairs {
    std::vector<Block> inputs;
    std::vector<Block> outputs;
};

static Pairs make_pairs(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs)
{
    TORCH_CHECK_VALUE(!inputs.empty(), "tutti: requires non-empty input tensor list");
    TORCH_CHECK_VALUE(inputs.size() == outputs.size(), "tutti: requires input/output tensor lists to have the same "
                                                       "length");
    Pairs pairs;
    for (size_t i = 0; i < inputs.size(); i++) {
        pairs.inputs.push_back(Block::reading({inputs[i]}));
        pairs.outputs.push_back(Block::writing({outputs[i]}));
        check_same_type(pairs.inputs[i], pairs.outputs[i]);
    }
    return pairs;
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::AllgatherOptions &options)
{
    Pairs pairs = make_pairs(inputs, outputs);
    for (size_t i = 0; i < inputs.size(); i++) {
        check_length(pairs.outputs[i], pairs.inputs[i], size_, "all_gather_into_tensor");
        pairs.inputs[i].separate(pairs.outputs[i], offset_of(rank_, pairs.inputs[i]));
    }
    const c10d::OpType type = inputs.size() == 1 ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::COALESCED;
    return run({type, "tutti:all_gather", timeout_of(options.timeout), options.asyncOp, inputs, {outputs}, pairs.inputs,
                pairs.outputs},
               inputs.size(), 0, [&](size_t i, const tutti_call *o, tutti_work **work) {
                   const Element element = element_to_move(pairs.inputs[i].type());
                   Flat in(pairs.inputs[i], element), out(pairs.outputs[i], element);
                   return work ? tutti_all_gather_async(group_, in, out, 0, o, work)
                               : tutti_all_gather(group_, in, out, 0, o);
               });
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
    Call call{c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", timeout_of(options.timeout), options.asyncOp,
              inputs, outputs, {}, {}};
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
        call.reads[i].separate(call.writes[i], offset_of(rank_, call.reads[i]));
    }
    const std::vector<Block> reads = call.reads;
    const std::vector<Block> writes = call.writes;
    return run(std::move(call), inputs.size(), 0, [&](size_t i, const tutti_call *o, tutti_work **work) {
        const Element element = element_to_move(reads[i].type());
        Flat in(reads[i], element), out(writes[i], element);
        return work ? tutti_all_gather_async(group_, in, out, 0, o, work) : tutti_all_gather(group_, in, out, 0, o);
    });
}

WorkPtr Backend::gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    const at::Tensor &tensor = single(inputs, "gather");
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    Block input = Block::reading({tensor});
    const Element element = element_to_move(input.type());
    Call call{c10d::OpType::GATHER, "tutti:gather", timeout_of(options.timeout), options.asyncOp, inputs, outputs, {},
              {}};
    if (is_root) {
        TORCH_CHECK_VALUE(outputs.size() == 1, "tutti: gather requires a single-element output list");
        check_list(outputs[0].size(), "output");
        call.writes.push_back(Block::writing(outputs[0]));
        check_same_type(input, call.writes[0]);
        check_length(call.writes[0], input, size_, "gather");
        input.separate(call.writes[0], offset_of(rank_, input));
    } else {
        TORCH_CHECK_VALUE(outputs.empty(), "tutti: gather requires empty output on non-root");
    }
    call.reads.push_back(input);
    const std::vector<Block> output = call.writes;
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat in(input, element);
        Flat out(is_root ? output[0].data() : nullptr, is_root ? output[0].count() : 0, element);
        DLTensor *joined = is_root ? static_cast<DLTensor *>(out) : nullptr;
        return work ? tutti_gather_async(group_, in, joined, 0, options.rootRank, o, work)
                    : tutti_gather(group_, in, joined, 0, options.rootRank, o);
    });
}

WorkPtr Backend::scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options)
{
    const at::Tensor &tensor = single(outputs, "scatter");
    check_root(options.rootRank);
    const bool is_root = rank_ == options.rootRank;
    Block output = Block::writing({tensor});
    const Element element = element_to_move(output.type());
    Call call{c10d::OpType::SCATTER, "tutti:scatter", timeout_of(options.timeout), options.asyncOp, {}, {outputs}, {},
              {output}};
    if (is_root) {
        TORCH_CHECK_VALUE(inputs.size() == 1, "tutti: scatter requires a single-element input list");
        check_list(inputs[0].size(), "input");
        call.inputs = inputs[0];
        call.reads.push_back(Block::reading(inputs[0]));
        check_same_type(call.reads[0], output);
        check_length(call.reads[0], output, size_, "scatter");
        call.reads[0].separate(output, -offset_of(rank_, output));
    } else {
        TORCH_CHECK_VALUE(inputs.empty(), "tutti: scatter requires empty input on non-root");
    }
    const std::vector<Block> input = call.reads;
    return run_one(std::move(call), [&](const tutti_call *o, tutti_work **work) {
        Flat out(output, element);
        Flat in(is_root ? input[0].data() : nullptr, is_root ? input[0].count() : 0, element);
        DLTensor *joined = is_root ? static_cast<DLTensor *>(in) : nullptr;
        return work ? tutti_scatter_async(group_, joined, out, 0, options.rootRank, o, work)
                    : tutti_scatter(group_, joined, out, 0, options.rootRank, o);
    });
}

WorkPtr Backend::reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options)
{
    const at::Tensor &tensor = single(outputs, "reduce_scatter");
    TORCH_CHECK_VALUE(inputs.size() == 1, "tutti: reduce_scatter requires a single-element input list");
    check_list(inputs[0].size(), "input");
    Block input = Block::reading(inputs[0]);
    Block output = Block::writing({tensor});
    check_same_type(input, output);
    const bool even = input.is_even();
    input.separate(output, even ? std::optional(-offset_of(rank_, output)) : std::nullopt);
    const Reduction r = reduction(options.reduceOp, input.type());
    const std::vector<int64_t> counts = input.counts(r.element.units);
    return run({c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", timeout_of(options.timeout), options.asyncOp,
                inputs[0], {outputs}, {input}, {output}},
               1, r.scale, [&](size_t, const tutti_call *o, tutti_work **work) {
                   Flat in(input, r.element), out(output, r.element);
                   if (even) {
                       return work ? tutti_reduce_scatter_async(group_, in, out, r.op, 0, o, work)
                                   : tutti_reduce_scatter(group_, in, out, r.op, 0, o);
                   }
                   return work ? tutti_reduce_scatter_v_async(group_, in, out, r.op, 0, counts.data(), o, work)
                               : tutti_reduce_scatter_v(group_, in, out, r.op, 0, counts.data(), o);
               });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                 const c10d::ReduceScatterOptions &options)
{
    Pairs pairs = make_pairs(inputs, outputs);
    for (size_t i = 0; i < inputs.size(); i++) {
        check_length(pairs.inputs[i], pairs.outputs[i], size_, "reduce_scatter_tensor");
        pairs.inputs[i].separate(pairs.outputs[i], -offset_of(rank_, pairs.outputs[i]));
    }
    const Reduction r = reduction(options.reduceOp, pairs.inputs[0].type());
    const c10d::OpType type =
        inputs.size() == 1 ? c10d::OpType::_REDUCE_SCATTER_BASE : c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
    return run({type, "tutti:reduce_scatter", timeout_of(options.timeout), options.asyncOp, inputs, {outputs},
                pairs.inputs, pairs.outputs},
               inputs.size(), r.scale, [&](size_t i, const tutti_call *o, tutti_work **work) {
                   const Element element = reduction(options.reduceOp, pairs.inputs[i].type()).element;
                   Flat in(pairs.inputs[i], element), out(pairs.outputs[i], element);
                   return work ? tutti_reduce_scatter_async(group_, in, out, r.op, 0, o, work)
                               : tutti_reduce_scatter(group_, in, out, r.op, 0, o);
               });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options)
{
    Tensors outputs{output};
    Tensors inputs{input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

// ---- all to all -----------------------------------------------------------------------------------------------------

// Elements of Tutti for each rank: the given rows of the tensor, or equal parts.
static std::vector<int64_t> split_counts(const std::vector<int64_t> &splits, const at::Tensor &tensor, int size,
                                         int64_t units)
{
    c10d::checkSplitSizes(splits, tensor, size);
    if (splits.empty()) {
        return std::vector<int64_t>(size, tensor.numel() / size * units);
    }
    std::vector<int64_t> counts = splits;
    const int64_t rows = tensor.size(0);
    for (int64_t &count : counts) {
        count *= rows == 0 ? 0 : tensor.numel() / rows * units;
    }
    return counts;
}

WorkPtr Backend::alltoall_base(at::Tensor &output_tensor, at::Tensor &input_tensor, std::vector<int64_t> &output_splits,
                               std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options)
{
    Block output = Block::writing({output_tensor});
    Block input = Block::reading({input_tensor});
    check_same_type(input, output);
    input.separate(output, std::nullopt);
    const Element element = element_to_move(input.type());
    const std::vector<int64_t> to = split_counts(input_splits, input_tensor, size_, element.units);
    const std::vector<int64_t> from = split_counts(output_splits, output_tensor, size_, element.units);
    const bool even = input_splits.empty() && output_splits.empty();
    return run_one({c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", timeout_of(options.timeout), options.asyncOp,
                    {input_tensor}, {{output_tensor}}, {input}, {output}},
                   [&](const tutti_call *o, tutti_work **work) {
                       Flat in(input, element), out(output, element);
                       if (even) {
                           return work ? tutti_all_to_all_async(group_, in, out, 0, o, work)
                                       : tutti_all_to_all(group_, in, out, 0, o);
                       }
                       return work ? tutti_all_to_all_v_async(group_, in, out, 0, to.data(), nullptr, from.data(),
                                                              nullptr, o, work)
                                   : tutti_all_to_all_v(group_, in, out, 0, to.data(), nullptr, from.data(), nullptr,
                                                        o);
                   });
}

// The lengths of the tensors may differ on any rank, so all ranks use the v-form.
WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
    check_list(inputs.size(), "input");
    check_list(outputs.size(), "output");
    Block output = Block::writing(outputs);
    Block input = Block::reading(inputs);
    check_same_type(input, output);
    input.separate(output, std::nullopt);
    const Element element = element_to_move(input.type());
    const std::vector<int64_t> to = input.counts(element.units);
    const std::vector<int64_t> from = output.counts(element.units);
    return run_one({c10d::OpType::ALLTOALL, "tutti:all_to_all", timeout_of(options.timeout), options.asyncOp, inputs,
                    {outputs}, {input}, {output}},
                   [&](const tutti_call *o, tutti_work **work) {
                       Flat in(input, element), out(output, element);
                       return work ? tutti_all_to_all_v_async(group_, in, out, 0, to.data(), nullptr, from.data(),
                                                              nullptr, o, work)
                                   : tutti_all_to_all_v(group_, in, out, 0, to.data(), nullptr, from.data(), nullptr,
                                                        o);
                   });
}

WorkPtr Backend::barrier(const c10d::BarrierOptions &options)
{
    return run_one({c10d::OpType::BARRIER, "tutti:barrier", timeout_of(options.timeout), options.asyncOp, {}, {}, {},
                    {}},
                   [&](const tutti_call *o, tutti_work **work) {
                       return work ? tutti_barrier_async(group_, o, work) : tutti_barrier(group_, o);
                   });
}

} // namespace tutti_torch
