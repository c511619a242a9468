/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a group of one rank. */
#ifndef TTI_TENSOR_SOLO_H
#define TTI_TENSOR_SOLO_H

#include <tutti/backend.h>

/* Runs a collective on memory of the host. The result has the same form as in a larger group: reductions fold, so
 * factors apply and NaNs become canonical. */
void tti_run_solo(const tutti_op *op);

#endif
