/* SPDX-License-Identifier: BSD-3-Clause */
/* null: communicates nothing, takes any rank and size, and records what it was asked: for testing group logic. */
#ifndef TTI_BACKENDS_NULL_H
#define TTI_BACKENDS_NULL_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_null;

/* Operation `index` since the group was made, if it is among the last 1024: see tutti_null_recorded. */
tutti_status tti_null_record_at(void *state, int64_t index, tutti_null_record *record);

#endif
