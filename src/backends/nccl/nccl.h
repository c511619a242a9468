/* SPDX-License-Identifier: BSD-3-Clause */
/* The backends nccl and rccl: one source over a table of symbols. docs/nccl.md describes them for users. */
#ifndef TTI_BACKENDS_NCCL_NCCL_H
#define TTI_BACKENDS_NCCL_NCCL_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_nccl;
extern const tutti_backend tti_backend_rccl;

#endif
