// SPDX-License-Identifier: BSD-3-Clause
// all_reduce of sparse tensors: gathers the indices and values of all ranks and adds them. Cost: the sum of all nonzero
// elements on every rank. It runs before the call returns, also with async_op=True.
#include "backend.hpp"

namespace tutti_torch {

// The tensors of all ranks, of which rank r's has lengths[r] rows.
static at::Tensor gather_rows(tutti_group *group, const at::Tensor &rows, const std::vector<int64_t> &lengths,
                              const tutti::call &call, const tutti_error &error)
{
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    at::Tensor all = at::empty(shape, rows.options());
    const Element element = element_to_move(rows.scalar_type());
    const int64_t row = element.units * c10::multiply_integers(rows.sizes().slice(1));
    std::vector<int64_t> counts = lengths;
    for (int64_t &count : counts) {
        count *= row;
    }
    const Block own = Block::reading({rows});
    Flat in(own, element), out(all.data_ptr(), all.numel(), element);
    check(tutti_all_gather_v(group, in, out, 0, counts.data(), nullptr, call), error);
    return all;
}

// How many elements each rank's tensor stores. MISMATCH on every rank if the shapes differ. If the numbers of
// dimensions do, the all_gather says so.
static std::vector<int64_t> gather_lengths(tutti_group *group, int size, const at::Tensor &own, const tutti::call &call,
                                           const tutti_error &error)
{
    std::vector<int64_t> head{own._nnz(), own.sparse_dim()};
    head.insert(head.end(), own.sizes().begin(), own.sizes().end());
    const auto columns = static_cast<int64_t>(head.size());
    std::vector<int64_t> all(head.size() * size), lengths;
    Flat in(head.data(), columns, {TUTTI_I64, 1}), out(all.data(), columns * size, {TUTTI_I64, 1});
    check(tutti_all_gather(group, in, out, 0, call), error);
    const int64_t *first = all.data();
    for (int rank = 0; rank < size; rank++) {
        const int64_t *row = first + rank * columns;
        TORCH_CHECK_WITH(DistBackendError, std::equal(row + 1, row + columns, first + 1),
                         "tutti MISMATCH: all_reduce of sparse tensors: rank ", rank, " has the shape ",
                         at::IntArrayRef(row + 2, row + columns), " with ", row[1], " sparse dimensions, rank 0 ",
                         at::IntArrayRef(first + 2, first + columns), " with ", first[1]);
        lengths.push_back(row[0]);
    }
    return lengths;
}

at::Tensor Backend::sum_sparse(const at::Tensor &tensor, milliseconds timeout)
{
    tutti_error error;
    const tutti::call call = tutti::call().timeout_ms(deadline(timeout)).error(&error);
    const at::Tensor own = tensor.coalesce();
    const std::vector<int64_t> lengths = gather_lengths(group_, size_, own, call, error);
    const at::Tensor indices = gather_rows(group_, own.indices().t(), lengths, call, error);
    const at::Tensor values = gather_rows(group_, own.values(), lengths, call, error);
    return at::sparse_coo_tensor(indices.t(), values, tensor.sizes(), tensor.options()).coalesce();
}

WorkPtr Backend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    TORCH_CHECK_VALUE(tensors.size() == 1 && tensors[0].layout() == c10::kSparse,
                      "tutti: all_reduce requires a single sparse tensor");
    TORCH_CHECK_VALUE(options.reduceOp == c10d::ReduceOp::SUM, "tutti: unsupported reduction operation for a sparse "
                                                               "tensor; only SUM is supported");
    sequence_++;
    const at::AutoDispatchBelowADInplaceOrView below;
    {
        const Range range("tutti:sparse_all_reduce", tensors);
        tensors[0].copy_(sum_sparse(tensors[0], timeout_of(options.timeout)));
    }
    if (!options.asyncOp) {
        return nullptr;
    }
    auto work = c10::make_intrusive<Work>(
        rank_, Call{c10d::OpType::_ALLREDUCE_SPARSE, nullptr, options.timeout, true, {}, {tensors}, {}, {}}, sequence_);
    work->started();
    return work;
}

} // namespace tutti_torch
