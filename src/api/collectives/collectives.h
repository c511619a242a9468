/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives with equal parts, by their kind: for calls that are described as data. */
#ifndef TTI_API_COLLECTIVES_H
#define TTI_API_COLLECTIVES_H

#include "api/check.h"
#include "core/call/cache/signature.h"

/* The name of a collective with equal parts ("all_reduce"); NULL for another kind. */
const char *tti_collective_name(tutti_operation kind);

/* Checks the arguments, and fills k->task. The call has begun. */
tutti_status tti_collective_describe(const struct tti_checker *k, const struct tti_signature *s);

#endif
