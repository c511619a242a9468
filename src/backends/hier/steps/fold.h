/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reduction does inside hosts and between them. */
#ifndef TTI_BACKENDS_HIER_STEPS_FOLD_H
#define TTI_BACKENDS_HIER_STEPS_FOLD_H

#include "backends/hier/steps/steps.h"

struct tti_hier_fold {
    tutti_dtype given;      /* of the tensors                                                       */
    tutti_dtype dtype;      /* of the steps; differs for averages of small integers                 */
    size_t item;            /* its bytes                                                            */
    tutti_reduce_op inside; /* the operation of each step, and the factor of the step between hosts */
    tutti_reduce_op between;
    double scale;
    bool widened;
    int32_t divisor; /* of the results; 1: they are not divided */
};

void tti_hier_fold_make(const struct tti_hier_call *c, struct tti_hier_fold *f);

/* Converts inputs to the dtype of the steps; only if `widened`. */
void tti_hier_widen(const struct tti_hier_fold *f, void *to, const void *from, size_t count);

/* Divides results and converts them back. `to` may be `from`. */
void tti_hier_fold_finish(const struct tti_hier_fold *f, void *to, const void *from, size_t count);

#endif
