/* SPDX-License-Identifier: BSD-3-Clause */
/* A delay of some instructions, so that two threads race at another moment in every round. */
#ifndef TESTS_SPIN_H
#define TESTS_SPIN_H

#include <stdatomic.h>
#include <stdint.h>

static inline void spin(int64_t times)
{
    while (times-- > 0) {
        atomic_signal_fence(memory_order_seq_cst); /* without it the compiler would remove the loop */
    }
}

#endif
