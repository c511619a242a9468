/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waiting threads of a group sleep on. Gloo's buffers have a condition each, so that a thread can wait for one
 * transfer only, and neither for several nor for an abort; here Gloo's thread rings whenever anything has ended, and the
 * sleepers look for themselves. A ring without sleepers is one atomic addition.
 */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_BELL_H
#define TTI_BACKENDS_GLOO_PLUGIN_BELL_H

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
    /* To be read before looking at what one waits for. acquire: pairs with the addition in ring. */
    uint32_t value() const
    {
        return value_.load(std::memory_order_acquire);
    }

    void ring()
    {
        /* seq_cst, with the addition and the kernel's reading in wait: either the sleeper is seen here, or it sees the new
         * value there. */
        value_.fetch_add(1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            syscall(SYS_futex, word(), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
        }
    }

    /* Until it has rung since `seen`, or that time (CLOCK_MONOTONIC), or for no reason. */
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
