/* SPDX-License-Identifier: BSD-3-Clause */
/* hier: one backend inside each host and one between hosts. See docs/hier.md. */
#ifndef TTI_BACKENDS_HIER_HIER_H
#define TTI_BACKENDS_HIER_HIER_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_hier;

#endif
