/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a rank spins for another one. Spinning is useless if that one needs this very CPU. No count of CPUs shows
 * that: the scheduler may keep two ranks on one CPU for a while. So a rank learns it for each other one. If a spin
 * failed but one of the next few yields succeeded, the next spin is half as long. If a spin succeeded, the next one is
 * twice as long. From time to time it tries the full spin, since a short one can fail for other reasons; if that
 * succeeds, all are full again.
 */
#ifndef TTI_ENGINE_WAIT_SPIN_H
#define TTI_ENGINE_WAIT_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TTI_SPIN_YIELDS        4  /* within so many, the other rank can have run on this CPU */
#define TTI_SPIN_HALVINGS_MOST 8  /* to some 0.2 us */
#define TTI_SPIN_TRIAL_EVERY   64 /* waits */

/* Relaxed, all: hints. For messages, several threads of a rank wait for the same other one. */
struct tti_spin {
    _Atomic uint8_t halvings; /* 0 = the full spin pays */
    _Atomic uint8_t waits;
};

/* What was learnt in another group of the same processes. */
static inline void tti_spin_copy(struct tti_spin *to, const struct tti_spin *from)
{
    atomic_store_explicit(&to->halvings, atomic_load_explicit(&from->halvings, memory_order_relaxed),
                          memory_order_relaxed);
}

/* Polls of the next wait. */
static inline unsigned tti_spin_polls(struct tti_spin *s, unsigned full)
{
    const uint8_t waits = atomic_load_explicit(&s->waits, memory_order_relaxed);
    const uint8_t halvings = atomic_load_explicit(&s->halvings, memory_order_relaxed);
    atomic_store_explicit(&s->waits, (uint8_t)(waits + 1), memory_order_relaxed);
    return (waits + 1) % TTI_SPIN_TRIAL_EVERY == 0 ? full : full >> halvings;
}

static inline void tti_spin_succeeded(struct tti_spin *s, bool was_full)
{
    const uint8_t halvings = atomic_load_explicit(&s->halvings, memory_order_relaxed);
    if (halvings != 0) {
        atomic_store_explicit(&s->halvings, was_full ? 0 : (uint8_t)(halvings - 1), memory_order_relaxed);
    }
}

/* One of the first yields behind it was enough. */
static inline void tti_spin_failed(struct tti_spin *s)
{
    const uint8_t halvings = atomic_load_explicit(&s->halvings, memory_order_relaxed);
    if (halvings < TTI_SPIN_HALVINGS_MOST) {
        atomic_store_explicit(&s->halvings, (uint8_t)(halvings + 1), memory_order_relaxed);
    }
}

#endif
