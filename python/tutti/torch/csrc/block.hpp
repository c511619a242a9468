// SPDX-License-Identifier: BSD-3-Clause
// Tensors of the caller as compact memory. Tutti's tensors here are flat: a call compares the number of elements, not
// the shape, as gloo does. A tensor with gaps, another order of its elements, or an address that is no multiple of
// their size goes through a copy.
#pragma once

#include <ATen/ATen.h>
#include <optional>
#include <vector>

#include "dtype.hpp"

namespace tutti_torch {

// The tensors of one argument, one after the other.
class Block {
public:
    // An input: a copy has the tensors' values.
    static Block reading(std::vector<at::Tensor> tensors);
    // An output: a copy is undefined until the operation has ended, and then store() passes it to the tensors.
    static Block writing(std::vector<at::Tensor> tensors);
    // Both.
    static Block updating(std::vector<at::Tensor> tensors) { return reading(std::move(tensors)); }

    void *data() const { return data_; }
    int64_t count() const { return count_; }
    c10::ScalarType type() const { return tensors_[0].scalar_type(); }
    size_t bytes() const { return static_cast<size_t>(count_) * c10::elementSize(type()); }
    const std::vector<at::Tensor> &tensors() const { return tensors_; }
    // The number of elements of each tensor, times `units`.
    std::vector<int64_t> counts(int64_t units) const;
    // Whether all tensors have the same number of elements.
    bool is_even() const;

    bool is_copy() const { return copy_.defined(); }
    void store() const;
    // Moves an input to a copy if it shares memory with `output`. It is in place, which is valid, if it begins `offset`
    // bytes behind the output.
    void separate(const Block &output, std::optional<ptrdiff_t> offset);
    // Moves blocks that share memory to copies, except one of them: a tensor may be twice in a list that is updated.
    static void separate(std::vector<Block> &blocks);

private:
    Block(std::vector<at::Tensor> tensors, bool with_values);
    void load();
    void allocate();

    std::vector<at::Tensor> tensors_;
    at::Tensor copy_; // undefined if the tensors themselves are the block
    void *data_ = nullptr;
    int64_t count_ = 0;
};

// A flat DLTensor over memory of the caller. It points to itself, so it is not copied.
class Flat {
public:
    Flat(void *data, int64_t count, Element element) : count_(count * element.units)
    {
        tensor_ = tutti_tensor_1d(data, &count_, element.dtype);
    }
    Flat(const Block &block, Element element) : Flat(block.data(), block.count(), element) {}
    Flat(const Flat &) = delete;
    Flat &operator=(const Flat &) = delete;
    operator DLTensor *() { return &tensor_; }

private:
    int64_t count_;
    DLTensor tensor_;
};

} // namespace tutti_torch
