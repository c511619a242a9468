/* SPDX-License-Identifier: BSD-3-Clause */
/* The runner of works that a lane runs: collectives. */
#ifndef TTI_CORE_CALL_LANE_RUNNER_H
#define TTI_CORE_CALL_LANE_RUNNER_H

#include "core/async/work/state.h"

extern const struct tti_work_runner tti_lane_runner;

#endif
