/* SPDX-License-Identifier: BSD-3-Clause */
/* local: the ranks are threads of one process. The shared-memory engine on memory of the process. */
#ifndef TTI_BACKENDS_LOCAL_LOCAL_H
#define TTI_BACKENDS_LOCAL_LOCAL_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_local;

#endif
