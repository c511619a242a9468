/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits in which collective, told and asked through the store: for engines that notice only that something is missing. */
#ifndef TTI_CORE_ATTENDANCE_H
#define TTI_CORE_ATTENDANCE_H

#include <tutti/backend.h>

#include "store/store.h"

struct tti_attendance;

/* Of one group, whose keys begin with `name`. NULL if there is no memory. Takes a reference on the store. */
struct tti_attendance *tti_attendance_open(struct tti_store *store, const char *name, int32_t rank, int32_t size);
const tutti_attendance *tti_attendance_table(const struct tti_attendance *attendance);

/* Nobody tells or asks any more. Waits for the thread, but not for a store that does not answer: then the thread frees what is
 * left. NULL is allowed. */
void tti_attendance_close(struct tti_attendance *attendance);

#endif
