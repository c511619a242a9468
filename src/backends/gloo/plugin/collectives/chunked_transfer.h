/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A large transfer with one rank, in chunks, of which up to IN_FLIGHT are sent at a time. So the reduction of one chunk
 * overlaps with the transfer of the next, and the chunks of other lanes pass between them. receive_order.h says in
 * which order a rank receives the chunks of all transfers.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_CHUNKED_TRANSFER_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_CHUNKED_TRANSFER_H

#include <algorithm>

#include "backends/gloo/plugin/collectives/call.h"
#include "backends/gloo/plugin/collectives/receive_order.h"

namespace tti
{

/* How a part is divided. Chunks `first`, `first + stride`, ... belong to this transfer. */
struct ChunkLayout {
    size_t bytes = 0; /* of the whole part */
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

    /* `ring`: the memory is a ring buffer of IN_FLIGHT chunks. */
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

    /* Sends the chunks before number `ready`, up to IN_FLIGHT at a time. */
    void send(size_t ready)
    {
        ended_ = buffer_ ? buffer_->sent() : 0;
        for (; posted_ < std::min(ready, count()) && posted_ < ended_ + IN_FLIGHT; posted_++) {
            group_->send(*buffer_, peer_, slot_, offset(posted_), cut_.length(posted_));
        }
    }

    /* Posts the receive of the next chunk: see receive_order.h. */
    void receive_next()
    {
        group_->recv(*buffer_, peer_, slot_, offset(posted_), cut_.length(posted_), false);
        posted_++;
    }

    /* Notes which chunks have arrived; returns how many are under way. */
    size_t poll_received()
    {
        ended_ = buffer_ ? buffer_->received() : 0;
        return posted_ - ended_;
    }

    /* Chunks that had been sent or received at the last call of send or poll_received. */
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

/* Bytes of a chunk: the setting, or less, so that the ring buffers of all ranks take at most 32 MiB. */
inline size_t chunk_bytes_of(const Group &group)
{
    constexpr size_t most_scratch = size_t{32} << 20;
    const size_t share = most_scratch / (IN_FLIGHT * std::max<size_t>(group.others(), 1)) / 64 * 64;
    return std::max<size_t>(std::min(group.segment, share), 4096);
}

} // namespace tti

#endif
