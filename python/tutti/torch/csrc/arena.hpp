// SPDX-License-Identifier: BSD-3-Clause
// Memory that the ranks of a group share, and tensors in it. Sharing is collective; taking a tensor is local, so one
// rank may take tensors that others do not. Free blocks: first fit, neighbours merge (Knuth, TAOCP volume 1, 2.5).
#pragma once

#include <ATen/ATen.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tutti/tutti.hpp>

namespace tutti_torch {

// What a compact tensor has. Throws as torch.empty does if that is negative, or does not fit into the address space.
size_t bytes_of(at::IntArrayRef shape, size_t element_size);

class Arena : public std::enable_shared_from_this<Arena> {
public:
    // Maps `bytes` bytes and registers them. Collective.
    Arena(tutti_group *group, size_t bytes);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    // A tensor with undefined content, which keeps the arena alive; nothing if no free block is large enough.
    std::optional<at::Tensor> take(at::IntArrayRef shape, const at::TensorOptions &options);

private:
    void give_back(size_t offset, size_t bytes);

    const size_t bytes_;
    char *memory_;
    std::mutex mutex_;                // tensors end on any thread
    std::map<size_t, size_t> blocks_; // free: offset -> bytes
};

} // namespace tutti_torch
