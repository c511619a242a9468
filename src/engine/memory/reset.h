/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a rank that serves one group after another. */
#ifndef TTI_ENGINE_MEMORY_RESET_H
#define TTI_ENGINE_MEMORY_RESET_H

#include "engine/memory/layout.h"

/* Makes a rank's memory of a group as if it were new, for a group of the same layout. `rank`: the owner's in the group
 * that has used it; no rank accesses it any more. Costs 2 KiB of stores, 32 loads for each lane and for each of its
 * calls up to 32, and 32 KiB of stores for each peer that messages were sent to. */
void tti_segment_reset(unsigned char *segment, const struct tti_layout *layout, int rank);

#endif
