/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which a rank receives the chunks of a collective: from rank - 1, then rank - 2, and so on, BURST chunks
 * from each, with WINDOW chunks from a few ranks under way. A peer sends a chunk when it learns of the receive for it.
 * In step k each rank thus sends to one rank only, rank + k (the shifted or pairwise exchange; Thakur, Rabenseifner and
 * Gropp, "Optimization of Collective Communication Operations in MPICH", 2005).
 *
 * If all ranks sent to all others at once, the data of n - 1 connections would meet at each receiver's link. TCP then
 * estimates a share of the link for every connection, and a connection goes on to send at its share when it is alone:
 * with BBR and 8 hosts of two ranks, 16 MiB took 3 times as long as the link needs, without one lost packet.
 *
 * A collective may have phases, as reductions and results. Burst t of a phase comes before burst t - 1 of the next one.
 * A chunk depends only on chunks of earlier phases of the same or an earlier burst, which come before it on every rank.
 * There is no deadlock: of all chunks that have not arrived anywhere, the first in this order has its receive posted,
 * and its sender has received all that it depends on.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_RECEIVE_ORDER_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_RECEIVE_ORDER_H

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tti
{

constexpr size_t IN_FLIGHT = 4;          /* chunks that a rank sends to another one at a time, and of a ring buffer */
constexpr size_t BURST = IN_FLIGHT / 2;  /* so that a ring buffer has room for the next burst */
constexpr size_t WINDOW = 2 * IN_FLIGHT; /* chunks under way to a rank */
/* Ranks that send to a rank at a time, if each has one chunk; with full bursts BURST times as many, since these are
 * long enough for TCP. The next ones begin before the last chunk has arrived. */
constexpr size_t PEERS = 2;

/* A Transfer has count() chunks. receive_next() posts the receive of the next one; poll_received() says how many are
 * under way. */
template <class Transfer> class ReceiveOrder
{
  public:
    /* Each phase has a transfer from each rank; that of this rank is empty. They live as long as this object. */
    ReceiveOrder(int rank, std::vector<std::vector<Transfer> *> phases)
        : rank_(static_cast<size_t>(rank)), others_(phases.front()->size() - 1), phases_(std::move(phases)),
          under_way_(others_ + 1)
    {
        size_t most = 0;
        for (const std::vector<Transfer> *phase : phases_) {
            for (const Transfer &transfer : *phase) {
                most = std::max(most, transfer.count());
            }
        }
        bursts_ = most / BURST + (most % BURST != 0);
        peers_ = PEERS * std::min(most, BURST);
    }

    /* Posts the next receives. The first phase has memory for chunks before number `room`. The peers learn of that with
     * the next data that this rank sends to them, or at Group::flush. */
    void advance(size_t room)
    {
        size_t chunks = 0;
        size_t peers = 0;
        for (size_t r = 0; r <= others_; r++) {
            under_way_[r] = 0;
            for (std::vector<Transfer> *phase : phases_) {
                under_way_[r] += (*phase)[r].poll_received();
            }
            chunks += under_way_[r];
            peers += under_way_[r] > 0;
        }
        for (; chunks < WINDOW && burst_ < bursts_ + phases_.size() - 1; next()) {
            const size_t r = (rank_ + others_ - peer_) % (others_ + 1);
            Transfer &from = (*phases_[phase_])[r];
            const size_t chunk = (burst_ - phase_) * BURST + chunk_;
            if (burst_ < phase_ || chunk >= from.count()) {
                continue;
            }
            if ((phase_ == 0 && chunk >= room) || (under_way_[r] == 0 && peers == peers_)) {
                break;
            }
            from.receive_next();
            peers += under_way_[r]++ == 0;
            chunks++;
        }
    }

  private:
    /* To the next chunk; those of a burst come first, then peers, phases and bursts. */
    void next()
    {
        if (++chunk_ < BURST) {
            return;
        }
        chunk_ = 0;
        if (++peer_ < others_) {
            return;
        }
        peer_ = 0;
        if (++phase_ < phases_.size()) {
            return;
        }
        phase_ = 0;
        burst_++;
    }

    size_t rank_;
    size_t others_;
    std::vector<std::vector<Transfer> *> phases_;
    std::vector<size_t> under_way_; /* chunks, by peer */
    size_t bursts_ = 0;
    size_t peers_ = 0;
    size_t burst_ = 0;
    size_t phase_ = 0;
    size_t peer_ = 0; /* rank - 1 - peer_ */
    size_t chunk_ = 0;
};

} // namespace tti

#endif
