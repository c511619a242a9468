/* SPDX-License-Identifier: BSD-3-Clause */
/* Running one collective. */
#ifndef TTI_BACKENDS_NCCL_COLLECTIVES_RUN_H
#define TTI_BACKENDS_NCCL_COLLECTIVES_RUN_H

#include <tutti/backend.h>

/* As tutti_backend_ops.run. */
tutti_status tti_nccl_run(void *state, tutti_op *op, tutti_error *error);

#endif
