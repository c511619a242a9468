/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the group's device. */
#ifndef TOOLS_CHECK_DATA_DEVICE_MEMORY_H
#define TOOLS_CHECK_DATA_DEVICE_MEMORY_H

#include "check/check.h"

/* The group's device. */
DLDevice tti_check_device(const struct tti_check *c);
/* Memory there, or the end of the program. */
void *tti_check_device_alloc(struct tti_device_arena *arena, size_t bytes);
/* Copies between any two places of host and device; fails as above. */
void tti_check_device_copy(struct tti_device_arena *arena, void *dst, const void *src, size_t bytes);

/* Compact tensors over memory of the group's device; `shape` is borrowed. */
DLTensor tti_check_tensor_over(const struct tti_check *c, void *memory, int ndim, const int64_t *shape,
                               tutti_dtype dtype);

/* What a compact tensor holds, in host memory that the caller frees. */
unsigned char *tti_check_tensor_fetch(const struct tti_check *c, const DLTensor *t, size_t bytes);

/* Numbers of the caller's that a call takes or gives: t is a tensor over them or, on a device, over a copy. The struct
 * must not be moved. */
struct tti_check_values {
    DLTensor t;
    int64_t count;
    int64_t *values;
    struct tti_device_arena *arena; /* NULL: there is no copy */
};

void tti_check_values_begin(const struct tti_check *c, struct tti_check_values *w, int64_t *values, int64_t count);
/* Ends the loan: `values` are what the tensor holds. */
void tti_check_values_end(struct tti_check_values *w);

#endif
