/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives without a reduction. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_DATA_MOVEMENT_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_DATA_MOVEMENT_H

#include "backends/gloo/plugin/collectives/call.h"

namespace tti
{

tutti_status run_data_movement(Call &c);

} // namespace tti

#endif
