/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives without a reduction, and all collectives of a group of one rank. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_DATA_MOVEMENT_H
#define TTI_BACKENDS_GLOO_PLUGIN_DATA_MOVEMENT_H

#include "backends/gloo/plugin/collectives/call.h"

namespace tti
{

tutti_status run_data_movement(Call &c);
/* In a group of one rank, which has no connections. */
tutti_status run_alone(const tutti_op *op);

} // namespace tti

#endif
