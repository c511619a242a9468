/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compact stand-ins for strided tensors. Backends see compact memory only: a strided tensor is packed into scratch
 * before the call and unpacked after it. Compact tensors pass through untouched and cost nothing.
 *
 * All scratch is had before the call starts. A rank that then has no memory arrives all the same, as one that cannot take
 * part (tti_collective_fail): it returns NO_MEMORY, the others MISMATCH naming it, and all stay in step.
 */
#ifndef TTI_API_SCRATCH_H
#define TTI_API_SCRATCH_H

#include "api/check.h"

/* Sets view->memory; `fill` packs the tensor's elements into scratch. */
tutti_status tti_scratch_open(const struct tti_checker *k, struct tti_view *view, bool fill);

/* Frees what open has taken; `store` unpacks it into the tensor first. */
void tti_scratch_close(struct tti_view *view, bool store);

#endif
