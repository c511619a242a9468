/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that an engine may still access after the operation has ended (tutti_op.in_use). */
#ifndef TTI_BASE_KEPT_MEMORY_H
#define TTI_BASE_KEPT_MEMORY_H

#include <stdint.h>
#include <stdlib.h>

/* Never frees the memory, and keeps it reachable for leak checkers. NULL: does nothing. */
void tti_memory_keep(void *memory);

/* `in_use`: as in tutti_op. */
static inline void tti_memory_free_or_keep(void *memory, int32_t in_use)
{
    if (in_use) {
        tti_memory_keep(memory);
    } else {
        free(memory);
    }
}

#endif
