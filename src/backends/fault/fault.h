/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: another backend with delays, limited bandwidth, errors and drops by rule. See docs/fault.md. */
#ifndef TTI_BACKENDS_FAULT_FAULT_H
#define TTI_BACKENDS_FAULT_FAULT_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_fault;

#endif
