/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of the address over which each rank is reached. */
#ifndef TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_ADDRESSES_H
#define TTI_BACKENDS_GLOO_PLUGIN_TRANSPORT_ADDRESSES_H

#include <gloo/transport/tcp/attr.h>

#include <string>

#include "backends/gloo/plugin/transport/store.h"

namespace tti
{

struct Endpoint {
    gloo::transport::tcp::attr attr; /* Gloo binds to it */
    std::string text;                /* "10.0.0.2 on eth0: all ranks reach it" */
};

/*
 * Collective: all ranks choose together. `interface` restricts this rank to one interface ("" = any). Throws if a rank
 * has no address that all ranks reach.
 */
Endpoint choose_endpoint(Store &store, int rank, int size, const std::string &interface, int64_t deadline_ns);

} // namespace tti

#endif
