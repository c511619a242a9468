/* SPDX-License-Identifier: BSD-3-Clause */
/* Over which of its addresses each rank is reached. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_ADDRESSES_H
#define TTI_BACKENDS_GLOO_PLUGIN_ADDRESSES_H

#include <gloo/transport/tcp/attr.h>

#include <string>

#include "backends/gloo/plugin/store.h"

namespace tti
{

struct Endpoint {
    gloo::transport::tcp::attr attr; /* what Gloo binds to */
    std::string text;                /* "10.0.0.2 on eth0: all ranks reach it" */
};

/*
 * All ranks call it; they come to a choice together. `interface` names the only one that may be taken ("" = any). Throws
 * where there is none that all ranks reach. `all_here` becomes true if all ranks are on this host.
 */
Endpoint choose_endpoint(Store &store, int rank, int size, const std::string &interface, int64_t deadline_ns);

} // namespace tti

#endif
