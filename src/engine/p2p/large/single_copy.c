/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the kernel copies once (process_vm_readv, memory/single_copy.c). A sender may offer a tensor that no
 * peer can reach: by its address in the sender's process, marked as such.
 *
 * Cost: 2n bytes instead of 4n, all on the receiver's side, and the kernel looks up every page. That may pay if the two
 * ranks are far apart, where each byte in the ring crosses between caches twice (figures: docs/decisions/0023). On
 * Zen 5 the ring is faster, and tuning.single_copy_messages is 0 (docs/decisions/0043).
 *
 * Other CPUs differ, so the ranks measure (p2p/rings/chunk_times.c). A receiver that is far away publishes what a byte
 * costs, read from the ring and copied by the kernel. The sender knows what it costs to write it. In the ring the CPUs
 * of both share the work, unless the sender receives, too. Of SAMPLED_EVERY messages one uses the slower way, so that
 * the measurement goes on.
 *
 * The receiver refuses an offer by granting the message as if it had arrived without its eager part. The sender then
 * writes to the receiver's tensor, if it can reach that, which is cheaper, or to the ring. The receiver also refuses
 * when the kernel does not let it read (changed permissions, device memory, a corrupt peer); then this sender offers no
 * other private tensor. After a grant the receiver does not read the sender's tensor, so the sender waits for no
 * acknowledgement. Only messages that are larger than the eager part are offered: smaller ones have no grant, and the
 * kernel pays from some 256 KiB on (docs/decisions/0023).
 */
#include "engine/p2p/large/single_copy.h"

#include "base/host/cpu_ticks.h"
#include "engine/memory/single_copy.h"
#include "engine/p2p/large/intent.h"
#include "engine/p2p/large/zero_copy.h"
#include "engine/p2p/requests.h"
#include "engine/wait/publish.h"

#define SAMPLED_EVERY 32u
#define COST_MOST     1e9 /* ps a byte */

/* A running average, in ps a byte; 0 = not known. */
static uint64_t cost_of(const struct tti_engine *e, double ticks_a_byte)
{
    const double ps = ticks_a_byte / e->ticks_per_ns * 1000;
    return ps <= 0 ? 0 : ps < 1 ? 1 : ps < COST_MOST ? (uint64_t)ps : (uint64_t)COST_MOST;
}

static uint64_t costs_of_peer(const struct tti_engine *e, int peer)
{
    /* relaxed, as the store in tti_p2p_publish_costs: a hint */
    return atomic_load_explicit(&tti_pair(e, peer, e->rank)->costs, memory_order_relaxed);
}

bool tti_p2p_is_far_from(const struct tti_engine *e, int peer)
{
    return costs_of_peer(e, peer) != TTI_PAIR_NEAR;
}

static bool kernel_copy_pays(struct tti_engine *e, int peer, uint64_t bytes)
{
    if (e->tuning.single_copy_at_any_distance != 0) {
        return bytes >= e->tuning.single_copy;
    }
    struct tti_peer *p = &e->p2p->peers[peer];
    const uint64_t costs = costs_of_peer(e, peer);
    if (costs == TTI_PAIR_NEAR) {
        return false;
    }
    const bool receives = e->p2p->recvs || p->open_recvs > 0;
    const uint64_t kernel = (uint32_t)costs;
    const uint64_t read = costs >> 32;
    const uint64_t written = cost_of(e, p->write_ticks);
    const uint64_t ring = receives ? read + written : read > written ? read : written;
    const bool sample = p->large_sends++ % SAMPLED_EVERY == 0;
    return (kernel <= ring) != sample; /* where the kernel's is not known, it is to be measured */
}

/* By more than an eighth, or only one of them is 0. */
static bool differs(uint64_t a, uint64_t b)
{
    return (a == 0) != (b == 0) || 8 * (a > b ? a - b : b - a) > b;
}

/* The peer polls other words of that cache line, so small changes are not published. */
void tti_p2p_publish_costs(struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    _Atomic uint64_t *costs = &tti_pair(e, e->rank, peer)->costs;
    const uint64_t was = atomic_load_explicit(costs, memory_order_relaxed);
    const uint64_t read = cost_of(e, p->read_ticks);
    const uint64_t is = p->far ? (read != 0 ? read : 1) << 32 | cost_of(e, p->kernel_ticks) : TTI_PAIR_NEAR;
    if (differs(is >> 32, was >> 32) || differs((uint32_t)is, (uint32_t)was)) {
        atomic_store_explicit(costs, is, memory_order_relaxed);
    }
}

bool tti_p2p_compares_costs(const struct tti_engine *e)
{
    return !e->direct && e->tuning.single_copy_messages != 0;
}

uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes)
{
    const bool may = tti_p2p_compares_costs(e) && bytes > TTI_EAGER && !e->p2p->peers[peer].refused;
    return may && kernel_copy_pays(e, peer, bytes) && tti_single_copy_all_can(e) ? tti_single_copy_name(memory, bytes)
                                                                                 : 0;
}

bool tti_p2p_may_single_copy(const struct tti_engine *e, uint64_t name, uint64_t bytes)
{
    return bytes > TTI_EAGER && e->tuning.single_copy_messages != 0 && tti_single_copy_is_name(name, bytes);
}

bool tti_p2p_refuses_offer(struct tti_engine *e, int peer, const struct tti_incoming *m)
{
    return tti_p2p_is_single_copy(e, m->name) &&
           (e->p2p->peers[peer].unreadable || tti_p2p_name(e, m->request->op->dst, m->bytes) != 0);
}

tutti_status tti_p2p_fetch_single_copy(struct tti_engine *e, int peer, struct tti_incoming *m)
{
    const uint64_t left = m->bytes - m->arrived;
    const size_t n = left < TTI_SINGLE_COPY_CHUNK ? (size_t)left : TTI_SINGLE_COPY_CHUNK;
    if (!tti_p2p_intent_begin(e, peer)) {
        return TUTTI_BUSY;
    }
    unsigned char *to = (unsigned char *)m->request->op->dst + m->arrived;
    const uint64_t begun = tti_ticks();
    const bool read = tti_single_copy_fetch(e, peer, to, m->name + m->arrived, n);
    if (!tti_p2p_intent_end(e)) {
        return TUTTI_OK; /* it is copied again, if the alarm allows it */
    }
    if (!read) {
        e->p2p->peers[peer].unreadable = true;
        return TUTTI_UNSUPPORTED;
    }
    tti_average(&e->p2p->peers[peer].kernel_ticks, (double)(tti_ticks() - begun) / (double)n);
    tti_p2p_publish_costs(e, peer);
    m->arrived += n;
    e->p2p->bytes_copied += 2 * n;
    return TUTTI_OK;
}
