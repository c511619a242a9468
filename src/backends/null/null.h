/* SPDX-License-Identifier: BSD-3-Clause */
/* null: communicates nothing, accepts any rank and size, and records the calls: for tests of group logic. */
#ifndef TTI_BACKENDS_NULL_NULL_H
#define TTI_BACKENDS_NULL_NULL_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_null;

/* Operation number `index` of the group, if it is among the last 1024: see tutti_null_recorded. */
tutti_status tti_null_record_at(void *state, int64_t index, tutti_null_record *record);

#endif
