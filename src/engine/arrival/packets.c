/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets: the data of a small call that do not fit its arrival line. Beside each slot of the arrival ring lie cache
 * lines, each with 56 bytes of data and the call's number. The number is a flag in every line, as in NCCL's LL128
 * protocol. So a reader does not wait for the arrival before it reads the data: it polls the last packet, and the
 * misses of all lines overlap. It reads the same few lines in call after call, so they stay cached.
 *
 * Cost: one cache-line hop, and copying in chunks of 56 bytes. That pays up to some hundred bytes. A rank reuses
 * packets together with the slot of its arrival: see arrival.c.
 */
#include "engine/arrival/packets.h"

#include "base/host/cpu_prefetch.h"
#include "engine/arrival/class.h"
#include "engine/memory/parts.h"
#include "engine/wait/wait.h"

static struct tti_packet *packets_of(const struct tti_lane *lane, int rank, uint64_t call)
{
    size_t slot = ((size_t)call + (size_t)rank) % TTI_RING;
    return (struct tti_packet *)(lane->controls[rank] + offsetof(struct tti_lane_control, packets)) +
           slot * TTI_PACKETS;
}

/* Whether this rank reads its own data together with the peers'. */
static bool needs_own(const struct tti_lane *lane)
{
    const tutti_op *op = lane->op;
    const bool root = lane->engine->rank == op->root;
    switch (op->kind) {
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return false;
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_GATHER:
        return root;
    default:
        return true;
    }
}

void tti_packets_write(struct tti_lane *lane, const void *data, size_t bytes)
{
    struct tti_packet *packets = packets_of(lane, lane->engine->rank, lane->call);
    const unsigned char *from = data;
    const struct tti_range unread = tti_inline_unread(lane, lane->op);
    for (size_t at = TTI_PAYLOAD, i = 0; at < bytes; at += TTI_PACKET_DATA, i++) {
        tti_prefetch_to_write(&packets[i]); /* requests all lines before the first store waits */
    }
    for (size_t at = TTI_PAYLOAD, i = 0; at < bytes; at += TTI_PACKET_DATA, i++) {
        if (at >= unread.from && at + TTI_PACKET_DATA <= unread.end) {
            continue;
        }
        memcpy(packets[i].data, from + at, tti_chunk_bytes(bytes - at, TTI_PACKET_DATA, 0));
        /* release: pairs with the acquire in tti_lane_wait_behind */
        atomic_store_explicit(&packets[i].sequence, lane->call, memory_order_release);
    }
    lane->bytes_copied += 2 * bytes;
    if (needs_own(lane)) {
        memcpy(tti_unpacked(lane, lane->engine->rank), data, bytes);
        lane->bytes_copied += 2 * bytes;
    }
}

/* In a rooted call: see request_next in arrival.c. */
static void request_next(const struct tti_lane *lane, int peer, size_t first, size_t end)
{
    const struct tti_packet *packets = packets_of(lane, peer, lane->call + 1);
    for (size_t i = first; lane->announces && i < end; i++) {
        tti_prefetch_to_read(&packets[i]);
    }
}

/* The number of the packet that byte `at` of the data is in. */
static size_t packet_at(size_t at)
{
    return at > TTI_PAYLOAD ? (at - TTI_PAYLOAD) / TTI_PACKET_DATA : 0;
}

tutti_status tti_packets_await(struct tti_lane *lane, int peer)
{
    struct tti_packet *packets = packets_of(lane, peer, lane->call);
    const struct tti_range range = tti_inline_range(lane, lane->op, peer);
    struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    const size_t first = packet_at(range.from);
    const size_t end = packet_at(range.end + TTI_PACKET_DATA - 1);
    /* The arrival is stored after the packets: it shows that they are there, unless the peer runs another call. */
    _Atomic uint64_t *ahead = first < end ? &packets[end - 1].sequence : &line->sequence;
    request_next(lane, peer, first, end);
    tutti_status status = tti_lane_wait_behind(lane, ahead, &line->sequence, lane->call, peer);
    if (status != TUTTI_OK) {
        return status;
    }
    unsigned char *to = tti_unpacked(lane, peer);
    for (size_t i = first; i < end; i++) {
        memcpy(to + TTI_PAYLOAD + i * TTI_PACKET_DATA, packets[i].data, TTI_PACKET_DATA);
    }
    memcpy(to, line->payload, TTI_PAYLOAD);
    lane->bytes_copied += 2 * (TTI_PAYLOAD + (end - first) * TTI_PACKET_DATA);
    return TUTTI_OK;
}
