// SPDX-License-Identifier: BSD-3-Clause
#include "block.hpp"

#include <algorithm>

namespace tutti_torch {

// Whether the tensor's memory can be passed to Tutti, which takes aligned elements only.
static bool is_compact(const at::Tensor &tensor)
{
    const auto units = static_cast<size_t>(element_to_move(tensor.scalar_type()).units);
    const size_t alignment = tensor.element_size() / units;
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
           reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % alignment == 0;
}

// Whether the tensors lie one after the other in one storage, as slices of torch.chunk do.
static bool are_joined(const std::vector<at::Tensor> &tensors)
{
    const char *next = nullptr;
    const c10::StorageImpl *storage = nullptr;
    for (const at::Tensor &tensor : tensors) {
        if (!is_compact(tensor)) {
            return false;
        }
        if (tensor.numel() == 0) {
            continue;
        }
        const char *data = static_cast<const char *>(tensor.const_data_ptr());
        if (storage && (data != next || tensor.storage().unsafeGetStorageImpl() != storage)) {
            return false;
        }
        storage = tensor.storage().unsafeGetStorageImpl();
        next = data + tensor.nbytes();
    }
    return true;
}

Block::Block(std::vector<at::Tensor> tensors, bool with_values) : tensors_(std::move(tensors))
{
    TORCH_CHECK_VALUE(!tensors_.empty(), "tutti: the list of tensors is empty");
    for (const at::Tensor &tensor : tensors_) {
        TORCH_CHECK_VALUE(tensor.device().is_cpu(), "tutti: the tensor lies on ", tensor.device(),
                          ", but the backend tutti works on the CPU; name a backend for each device, as in "
                          "init_process_group(\"cpu:tutti,cuda:nccl\")");
        TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, "tutti: the tensor has the layout ", tensor.layout(),
                          "; only all_reduce accepts sparse tensors");
        TORCH_CHECK_VALUE(tensor.scalar_type() == type(), "tutti: invalid tensor type ", tensor.scalar_type(),
                          " in a list of ", type());
        count_ += tensor.numel();
        if (!data_ && tensor.numel() != 0) {
            data_ = const_cast<void *>(tensor.const_data_ptr());
        }
    }
    if (!are_joined(tensors_)) {
        allocate();
        if (with_values) {
            load();
        }
    }
}

Block Block::reading(std::vector<at::Tensor> tensors)
{
    return Block(std::move(tensors), true);
}

Block Block::writing(std::vector<at::Tensor> tensors)
{
    return Block(std::move(tensors), false);
}

void Block::allocate()
{
    copy_ = at::empty({count_}, tensors_[0].options().memory_format(c10::nullopt).requires_grad(false));
    data_ = copy_.mutable_data_ptr();
}

// Calls f(tensor, its part of the copy).
template <class F> static void for_each_part(const std::vector<at::Tensor> &tensors, const at::Tensor &copy, F f)
{
    // Autograd does not see communication, and the caller's inference mode holds on this thread.
    at::AutoDispatchBelowADInplaceOrView below;
    int64_t begin = 0;
    for (const at::Tensor &tensor : tensors) {
        f(tensor, copy.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
        begin += tensor.numel();
    }
}

void Block::load()
{
    for_each_part(tensors_, copy_, [](const at::Tensor &tensor, const at::Tensor &part) { part.copy_(tensor); });
}

void Block::store() const
{
    if (is_copy()) {
        for_each_part(tensors_, copy_, [](const at::Tensor &tensor, const at::Tensor &part) { tensor.copy_(part); });
    }
}

std::vector<int64_t> Block::counts(int64_t units) const
{
    std::vector<int64_t> counts;
    counts.reserve(tensors_.size());
    for (const at::Tensor &tensor : tensors_) {
        counts.push_back(tensor.numel() * units);
    }
    return counts;
}

bool Block::is_even() const
{
    for (const at::Tensor &tensor : tensors_) {
        if (tensor.numel() != tensors_[0].numel()) {
            return false;
        }
    }
    return true;
}

void Block::separate(const Block &output, std::optional<ptrdiff_t> offset)
{
    const char *in = static_cast<const char *>(data_);
    const char *out = static_cast<const char *>(output.data());
    const bool apart = in + bytes() <= out || out + output.bytes() <= in;
    if (!is_copy() && !apart && !(offset && in - out == *offset)) {
        allocate();
        load();
    }
}

void Block::separate(std::vector<Block> &blocks)
{
    std::vector<Block *> order;
    for (Block &block : blocks) {
        order.push_back(&block);
    }
    std::sort(order.begin(), order.end(), [](const Block *a, const Block *b) { return a->data_ < b->data_; });
    const char *end = nullptr;
    for (Block *block : order) {
        if (!block->is_copy() && static_cast<const char *>(block->data_) < end) {
            block->allocate();
            block->load();
        } else {
            end = std::max(end, static_cast<const char *>(block->data_) + block->bytes());
        }
    }
}

} // namespace tutti_torch
