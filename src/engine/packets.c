/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets: inline data that do not fit the arrival line. Beside each slot of the arrival ring lie cache lines with 56 bytes
 * of data and the call's number each. Since every line says itself whether it is there, a reader polls all of a peer's
 * lines at once, so that their misses overlap: one hop, where a flag and then the data would be two. Reading the same few
 * lines again and again also keeps them cached, which the stage's ring is made to avoid.
 *
 * The idea of a flag in every line is that of NCCL's LL128 protocol. It costs copying in pieces of 56 bytes, so it pays up
 * to one or two KiB. Slots are reused like those of the ring: see arrive.c.
 */
#include "engine/internal.h"

static struct tti_packet *packets_of(const struct tti_lane *lane, int rank)
{
    size_t slot = ((size_t)lane->call + (size_t)rank) % TTI_RING;
    return (struct tti_packet *)(lane->controls[rank] + offsetof(struct tti_lane_control, packets)) +
           slot * TTI_PACKETS;
}

void tti_packets_write(struct tti_lane *lane, const void *data, size_t bytes)
{
    struct tti_packet *packets = packets_of(lane, lane->engine->rank);
    const unsigned char *from = data;
    for (size_t at = 0; at < bytes; at += TTI_PACKET_DATA) {
        __builtin_prefetch(&packets[at / TTI_PACKET_DATA],
                           1); /* all lines are asked for before the first store waits */
    }
    for (size_t at = 0; at < bytes; at += TTI_PACKET_DATA) {
        struct tti_packet *p = &packets[at / TTI_PACKET_DATA];
        memcpy(p->data, from + at, tti_cut(bytes - at, TTI_PACKET_DATA, 0));
        /* release: pairs with the acquire in all_there */
        atomic_store_explicit(&p->sequence, lane->call, memory_order_release);
    }
    memcpy(tti_unpacked(lane, lane->engine->rank), data, bytes);
    lane->moved += 4 * bytes;
}

/* The loads do not depend on one another: their misses overlap. */
static bool all_there(const struct tti_packet *packets, size_t first, size_t end, uint64_t call)
{
    bool there = true;
    for (size_t i = first; i < end; i++) {
        /* acquire: pairs with the release in tti_packets_write */
        there &= atomic_load_explicit(&packets[i].sequence, memory_order_acquire) == call;
    }
    return there;
}

tutti_status tti_packets_await(struct tti_lane *lane, int peer)
{
    const struct tti_packet *packets = packets_of(lane, peer);
    const struct tti_range range = tti_inline_range(lane, lane->op, peer);
    _Atomic uint64_t *arrival = &tti_arrival_of(lane, peer, lane->call)->sequence;
    size_t first = range.from / TTI_PACKET_DATA;
    size_t end = (range.end + TTI_PACKET_DATA - 1) / TTI_PACKET_DATA;
    for (unsigned i = 0; i < lane->spin_polls && !all_there(packets, end - 1, end, lane->call); i++) {
        tti_pause();
    }
    /* The arrival is stored after the packets: when it is there, they are, unless the peer has called something else. */
    tutti_status status = tti_lane_wait(lane, arrival, lane->call, peer);
    if (status != TUTTI_OK) {
        return status;
    }
    unsigned char *to = tti_unpacked(lane, peer);
    for (size_t i = first; i < end; i++) {
        memcpy(to + i * TTI_PACKET_DATA, packets[i].data, TTI_PACKET_DATA);
    }
    lane->moved += 2 * (end - first) * TTI_PACKET_DATA;
    return TUTTI_OK;
}
