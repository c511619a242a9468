/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the kernel copies once (process_vm_readv, memory/single_copy.c). A sender may offer a tensor that no
 * peer can reach: by its address in the sender's process, marked as such.
 *
 * Cost: 2n bytes instead of 4n, all on the receiver's side, and the kernel looks up every page. That pays if the two
 * ranks are far apart, where each byte in the ring crosses between caches twice (figures: docs/decisions/0023). If the
 * sender waits for no message itself, the CPUs of both share the work in the ring, so the distance has to be larger. On
 * Zen 5 the ring is faster, and tuning.single_copy is TTI_TUNING_NEVER (docs/decisions/0043). The receiver measures how
 * long it takes to read a line that the sender has just written, and publishes the distance. Every STAGED_EVERY-th
 * message uses the ring, so that the measurement goes on.
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

#define STAGED_EVERY 32u   /* one message of so many goes through the rings */
#define TIMED_FROM   8192u /* least bytes of a chunk in the ring */
#define TIMED_EVERY  16u   /* one of so many of them; seldom the first of a message, which is read cold */
#define HYSTERESIS   1.1

enum { NEAR, FAR, VERY_FAR };

/* How long it takes to read a line that the sender has just written: near 25 to 65, far 110 to 350. */
static const double from_ns[] = {[FAR] = 90, [VERY_FAR] = 220};

static bool kernel_copy_pays(struct tti_engine *e, int peer, uint64_t bytes)
{
    if (e->tuning.single_copy_at_any_distance != 0) {
        return bytes >= e->tuning.single_copy;
    }
    struct tti_peer *p = &e->p2p->peers[peer];
    const bool receives = e->p2p->recvs || p->open_recvs > 0;
    /* relaxed, as the store in tti_p2p_measure_distance: a hint */
    const uint64_t distance = atomic_load_explicit(&tti_pair(e, peer, e->rank)->distance, memory_order_relaxed);
    return distance >= (receives ? FAR : VERY_FAR) && p->large_sends++ % STAGED_EVERY != 0;
}

uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes)
{
    const bool may =
        !e->direct && bytes > TTI_EAGER && e->tuning.single_copy < TTI_TUNING_NEVER && !e->p2p->peers[peer].refused;
    return may && kernel_copy_pays(e, peer, bytes) && tti_single_copy_all_can(e) ? tti_single_copy_name(memory, bytes)
                                                                                 : 0;
}

bool tti_p2p_may_single_copy(const struct tti_engine *e, uint64_t name, uint64_t bytes)
{
    return bytes > TTI_EAGER && e->tuning.single_copy < TTI_TUNING_NEVER && tti_single_copy_is_name(name, bytes);
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
    const bool read = tti_single_copy_fetch(e, peer, to, m->name + m->arrived, n);
    if (!tti_p2p_intent_end(e)) {
        return TUTTI_OK; /* it is copied again, if the alarm allows it */
    }
    if (!read) {
        e->p2p->peers[peer].unreadable = true;
        return TUTTI_UNSUPPORTED;
    }
    m->arrived += n;
    e->p2p->bytes_copied += 2 * n;
    return TUTTI_OK;
}

void tti_p2p_measure_distance(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    _Atomic uint64_t *distance = &tti_pair(e, e->rank, peer)->distance;
    const bool wanted = !e->direct && e->tuning.single_copy < TTI_TUNING_NEVER;
    if (!wanted || bytes < TIMED_FROM || p->chunks++ % TIMED_EVERY != TIMED_EVERY / 2) {
        return;
    }
    /* One line only: the speed of many depends on other users of the core. The first line of its page is read before,
     * so that the TLB has the page; it is far enough away that the prefetcher does not bring the measured line. */
    const uintptr_t middle = (uintptr_t)(chunk + bytes / 2);
    /* relaxed: the sender is known to have written them, and only the time counts */
    const _Atomic unsigned char *page = (const _Atomic unsigned char *)(chunk + bytes / 2 - middle % TTI_PAGE);
    (void)atomic_load_explicit(page, memory_order_relaxed);
    const uint64_t before = tti_ticks_after_stores();
    (void)atomic_load_explicit(page + TTI_PAGE / 2, memory_order_relaxed);
    tti_average(&p->line_ticks, (double)(tti_ticks() - before));
    const double ns = p->line_ticks / e->ticks_per_ns; /* below 0: not known */
    const uint64_t was = atomic_load_explicit(distance, memory_order_relaxed);
    uint64_t is = NEAR;
    for (uint64_t level = FAR; level <= VERY_FAR; level++) {
        is += ns > (was >= level ? from_ns[level] / HYSTERESIS : from_ns[level] * HYSTERESIS);
    }
    if (is != was) {
        atomic_store_explicit(distance, is, memory_order_relaxed);
    }
}
