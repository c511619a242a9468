/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that the kernel copies once. A tensor that nobody else can reach may be offered all the same (p2p_zero_copy.c): by its
 * address in the sender's process, marked as such, from where the receiver lets the kernel copy it (single_copy.c).
 *
 * Cost: 2n bytes instead of 4n, all on the receiver's side, and the kernel looks up every page. That pays if the two ranks are
 * far from one another, where each byte in the ring crosses between caches twice: docs/decisions/0023 has the figures. The
 * receiver finds that out by what it takes to read a line that the sender has just written to the ring, and tells it. Since
 * it may change, some messages always go there.
 *
 * The receiver may turn such an offer down: it grants the message as if it had come without its first bytes, and the sender
 * writes it to the receiver's tensor, if that can be reached, which is cheaper, or to the ring. It does so as well when the
 * kernel does not let it read, for whatever reason, and is not offered that again by this sender: permissions differ from what
 * they were when the group was made, the memory is a device's, or the peer writes what it likes. From the grant on it reads no
 * more, so the sender waits for nobody then.
 */
#include "base/cpu_ticks.h"
#include "engine/p2p/p2p.h"

#define REMOTE_FROM  262144u /* bytes of a message; measured, as is FAR_NS: docs/decisions/0023 */
#define STAGED_EVERY 32u     /* messages, one goes through the rings */
#define TIMED_FROM   16384u  /* bytes of a chunk in the rings */
#define TIMED_EVERY  4u      /* of them */
#define FAR_NS       150.0   /* to read a line that the sender has just written: near 30 to 90, far 250 to 350 */
#define HYSTERESIS   1.2

static bool pays(struct tti_engine *e, int peer, uint64_t bytes)
{
    if (e->tuning.single_copy_near != 0) {
        return bytes >= e->tuning.single_copy;
    }
    /* relaxed, as the store in tti_p2p_time: a hint */
    return bytes >= REMOTE_FROM &&
           atomic_load_explicit(&tti_pair(e, peer, e->rank)->is_far, memory_order_relaxed) != 0 &&
           e->p2p->peers[peer].large_sends++ % STAGED_EVERY != 0;
}

uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes)
{
    const bool may =
        !e->direct && bytes > TTI_EAGER && e->tuning.single_copy < TTI_TUNING_NEVER && !e->p2p->peers[peer].refused;
    return may && pays(e, peer, bytes) && tti_single_copy_all_can(e) ? tti_single_copy_name(memory, bytes) : 0;
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
        return TUTTI_OK; /* once more, if it still may be */
    }
    if (!read) {
        e->p2p->peers[peer].unreadable = true;
        return TUTTI_UNSUPPORTED;
    }
    m->arrived += n;
    e->p2p->bytes_copied += 2 * n;
    return TUTTI_OK;
}

void tti_p2p_time(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    _Atomic uint64_t *is_far = &tti_pair(e, e->rank, peer)->is_far;
    if (e->direct || bytes < TIMED_FROM || p->chunks++ % TIMED_EVERY != 0) {
        return;
    }
    /* One line, since how fast many come depends on who else uses the core; far enough from another one of its page, which is
     * read before so that the page's address is known, not to be prefetched. */
    const uintptr_t middle = (uintptr_t)(chunk + bytes / 2);
    /* relaxed: that the sender has written them is known, and only the time counts */
    const _Atomic unsigned char *page = (const _Atomic unsigned char *)(chunk + bytes / 2 - middle % TTI_PAGE);
    (void)atomic_load_explicit(page, memory_order_relaxed);
    const uint64_t before = tti_ticks_after_stores();
    (void)atomic_load_explicit(page + TTI_PAGE / 2, memory_order_relaxed);
    tti_average(&p->line_ticks, (double)(tti_ticks() - before));
    const double ns = p->line_ticks / e->ticks_per_ns; /* below 0: nothing is known */
    const uint64_t was = atomic_load_explicit(is_far, memory_order_relaxed);
    const uint64_t is = ns > (was ? FAR_NS / HYSTERESIS : FAR_NS * HYSTERESIS);
    if (is != was) {
        atomic_store_explicit(is_far, is, memory_order_relaxed);
    }
}
