// SPDX-License-Identifier: BSD-3-Clause
#include "arena.hpp"

#include <ATen/EmptyTensor.h>
#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

#include "error.hpp"

namespace tutti_torch {

static size_t rounded_up(size_t bytes, size_t unit)
{
    TORCH_CHECK(bytes <= PTRDIFF_MAX, "tutti: out of memory: ", bytes, " bytes");
    return std::max<size_t>(1, (bytes + unit - 1) / unit) * unit;
}

size_t bytes_of(at::IntArrayRef shape, size_t element_size)
{
    at::detail::check_size_nonnegative(shape);
    return at::detail::computeStorageNbytesContiguous(shape, element_size);
}

Arena::Arena(tutti_group *group, size_t bytes)
    : bytes_(rounded_up(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)))), blocks_{{0, bytes_}}
{
    void *memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(memory != MAP_FAILED, "tutti: out of memory: ", bytes_, " bytes that the ranks share");
    tutti_error error;
    const tutti_status status = tutti_register(group, memory, bytes_, &error);
    if (status != TUTTI_OK) {
        munmap(memory, bytes_);
        throw_error(error);
    }
    memory_ = static_cast<char *>(memory);
}

// The backend keeps the arena until its group has ended, and each tensor keeps it, too: it is not registered any more.
Arena::~Arena()
{
    munmap(memory_, bytes_);
}

std::optional<at::Tensor> Arena::take(at::IntArrayRef shape, const at::TensorOptions &options)
{
    constexpr size_t line = 64;
    const size_t bytes = rounded_up(bytes_of(shape, options.dtype().itemsize()), line);
    size_t offset;
    {
        const std::lock_guard lock(mutex_);
        const auto block =
            std::find_if(blocks_.begin(), blocks_.end(), [bytes](const auto &free) { return free.second >= bytes; });
        if (block == blocks_.end()) {
            return std::nullopt;
        }
        offset = block->first;
        const size_t rest = block->second - bytes;
        blocks_.erase(block);
        if (rest > 0) {
            blocks_.emplace(offset + bytes, rest);
        }
    }
    auto end = [arena = shared_from_this(), offset, bytes](void *) { arena->give_back(offset, bytes); };
    return at::from_blob(memory_ + offset, shape, std::move(end), options);
}

void Arena::give_back(size_t offset, size_t bytes)
{
    const std::lock_guard lock(mutex_);
    const auto next = blocks_.lower_bound(offset);
    const bool joins_next = next != blocks_.end() && next->first == offset + bytes;
    if (joins_next) {
        bytes += next->second;
    }
    const auto previous = next == blocks_.begin() ? blocks_.end() : std::prev(next);
    if (joins_next) {
        blocks_.erase(next);
    }
    if (previous != blocks_.end() && previous->first + previous->second == offset) {
        previous->second += bytes;
    } else {
        blocks_.emplace(offset, bytes);
    }
}

} // namespace tutti_torch
