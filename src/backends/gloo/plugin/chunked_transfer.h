/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A large transfer with one rank, in pieces, of which a few are under way at a time: so the folding of one piece overlaps
 * with the coming of the next, and other lanes get through between them.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_FLOW_H
#define TTI_BACKENDS_GLOO_PLUGIN_FLOW_H

#include <algorithm>

#include "backends/gloo/plugin/call.h"

namespace tti
{

constexpr size_t IN_FLIGHT = 4; /* pieces of a flow */

/* How a part is cut. Pieces `first`, `first + stride`, ... of it belong to a flow. */
struct ChunkLayout {
    size_t bytes = 0; /* of the whole */
    size_t chunk = 1;
    size_t first = 0;
    size_t stride = 1;

    size_t all() const
    {
        return bytes / chunk + (bytes % chunk != 0);
    }
    size_t count() const
    {
        return all() > first ? (all() - first + stride - 1) / stride : 0;
    }
    size_t offset(size_t i) const
    {
        return (first + i * stride) * chunk;
    }
    size_t length(size_t i) const
    {
        return std::min(chunk, bytes - offset(i));
    }
};

class ChunkedTransfer
{
  public:
    ChunkedTransfer() = default;

    /* `ring`: the memory has room for IN_FLIGHT pieces only, which are used in turn. */
    ChunkedTransfer(Call &c, int peer, Use use, void *memory, const ChunkLayout &cut, bool ring = false)
        : group_(&c.group), peer_(peer), slot_(c.slot(use)), cut_(cut), ring_(ring)
    {
        if (cut.count() > 0) {
            buffer_ = group_->mesh->buffer(memory, ring ? IN_FLIGHT * cut.chunk : cut.bytes);
        }
    }

    size_t count() const
    {
        return cut_.count();
    }

    /* Sends pieces before number `ready`, as far as there may be more under way. */
    void send(size_t ready)
    {
        ended_ = buffer_ ? buffer_->sent() : 0;
        for (; posted_ < std::min(ready, count()) && posted_ < ended_ + IN_FLIGHT; posted_++) {
            group_->send(*buffer_, peer_, slot_, offset(posted_), cut_.length(posted_));
        }
    }

    /* Receives pieces before number `room`, likewise. */
    void receive(size_t room)
    {
        ended_ = buffer_ ? buffer_->received() : 0;
        for (; posted_ < std::min(room, count()) && posted_ < ended_ + IN_FLIGHT; posted_++) {
            group_->recv(*buffer_, peer_, slot_, offset(posted_), cut_.length(posted_));
        }
    }

    /* Pieces that have been sent or received, as seen by the last call of send or receive. */
    size_t ended() const
    {
        return ended_;
    }

    bool is_done() const
    {
        return ended_ == count();
    }

    size_t offset(size_t i) const
    {
        return ring_ ? i % IN_FLIGHT * cut_.chunk : cut_.offset(i);
    }

  private:
    Group *group_ = nullptr;
    int peer_ = -1;
    uint64_t slot_ = 0;
    ChunkLayout cut_;
    bool ring_ = false;
    std::unique_ptr<Buffer> buffer_;
    size_t posted_ = 0;
    size_t ended_ = 0;
};

/* How many bytes a piece has: what was set, less where pieces of many ranks are in scratch memory at once. */
inline size_t chunk_bytes_of(const Group &group)
{
    constexpr size_t most_scratch = size_t{32} << 20;
    const size_t share = most_scratch / (IN_FLIGHT * std::max<size_t>(group.others(), 1)) / 64 * 64;
    return std::max<size_t>(std::min(group.segment, share), 4096);
}

} // namespace tti

#endif
