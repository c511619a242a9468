/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doorbell of a group: a futex on which its threads sleep. Each buffer of Gloo has a condition of its own, so a
 * thread could wait for one transfer only, not for several or for an abort. Here Gloo's thread rings after each
 * transfer that ends, and the sleepers check what they wait for. Without sleepers a ring costs one atomic addition.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_DOORBELL_H
#define TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_DOORBELL_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "backends/gloo/plugin/c_headers.h"

namespace tti
{

class Doorbell
{
  public:
    /* To be read before the caller checks what it waits for. acquire: pairs with the addition in ring. */
    uint32_t value() const
    {
        return value_.load(std::memory_order_acquire);
    }

    void ring()
    {
        /* seq_cst: pairs with the addition and the kernel's read in wait. Either this thread sees the sleeper, or the
         * sleeper sees the new value. */
        value_.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            syscall(SYS_futex, word(), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
        }
    }

    /* Waits until it has rung since `seen`, or until that time (CLOCK_MONOTONIC). May return early. */
    void wait(uint32_t seen, int64_t until_ns)
    {
        timespec until;
        until.tv_sec = static_cast<time_t>(until_ns / 1000000000);
        until.tv_nsec = static_cast<long>(until_ns % 1000000000);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        syscall(SYS_futex, word(), FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == TTI_NEVER ? nullptr : &until, nullptr,
                FUTEX_BITSET_MATCH_ANY);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }

  private:
    uint32_t *word()
    {
        static_assert(sizeof(value_) == sizeof(uint32_t), "a futex is 32 bits");
        return reinterpret_cast<uint32_t *>(&value_);
    }

    std::atomic<uint32_t> value_{0};
    std::atomic<uint32_t> sleepers_{0};
};

} // namespace tti

#endif
