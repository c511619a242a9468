/* SPDX-License-Identifier: BSD-3-Clause */
/* all_reduce, reduce and reduce_scatter. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_REDUCTIONS_H
#define TTI_BACKENDS_GLOO_PLUGIN_COLLECTIVES_REDUCTIONS_H

#include "backends/gloo/plugin/collectives/call.h"

namespace tti
{

tutti_status run_reduction(Call &c);

} // namespace tti

#endif
