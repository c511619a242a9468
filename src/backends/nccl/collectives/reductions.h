/* SPDX-License-Identifier: BSD-3-Clause */
/* Which operations the library runs, and how it names element types and reductions. */
#ifndef TTI_BACKENDS_NCCL_COLLECTIVES_REDUCTIONS_H
#define TTI_BACKENDS_NCCL_COLLECTIVES_REDUCTIONS_H

#include "backends/nccl/state.h"

/* As tutti_backend_ops.supports. */
const char *tti_nccl_supports(void *state, const tutti_op *op);

/* A supported reduction in the library's terms. PREMUL_SUM needs an operation of its own, which begin creates and end
 * destroys; the caller has acquired `comm` for both. Both return the library's code. */
struct tti_nccl_reduction {
    int type;
    int op;
    bool created;
};
int tti_nccl_reduction_begin(const struct tti_nccl_call *c, tti_nccl_comm comm, struct tti_nccl_reduction *reduction);
int tti_nccl_reduction_end(const struct tti_nccl_call *c, tti_nccl_comm comm,
                           const struct tti_nccl_reduction *reduction);

#endif
