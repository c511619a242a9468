/* SPDX-License-Identifier: BSD-3-Clause */
/* all_to_all with parts of different length: all_to_all_v.c. */
#ifndef TTI_ENGINE_COLLECTIVES_ALL_TO_ALL_V_H
#define TTI_ENGINE_COLLECTIVES_ALL_TO_ALL_V_H

#include "engine/lane.h"

tutti_status tti_run_all_to_all_v(struct tti_lane *lane, const tutti_op *op);

#endif
