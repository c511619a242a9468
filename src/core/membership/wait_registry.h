/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank waits in which collective, recorded in the store: for engines that cannot say which rank is missing. */
#ifndef TTI_CORE_MEMBERSHIP_WAIT_REGISTRY_H
#define TTI_CORE_MEMBERSHIP_WAIT_REGISTRY_H

#include <tutti/backend.h>

#include "store/store.h"

struct tti_wait_registry;

/* Of one group, whose keys begin with `name`. NULL if there is no memory. Takes a reference on the store. */
struct tti_wait_registry *tti_wait_registry_open(struct tti_store *store, const char *name, int32_t rank, int32_t size);
const tutti_wait_registry *tti_wait_registry_table(const struct tti_wait_registry *wait_registry);

/* No report and no query is under way any more. Waits for the thread up to 2 s; if the store does not answer for so
 * long, the thread frees the registry. NULL is allowed. */
void tti_wait_registry_close(struct tti_wait_registry *wait_registry);

#endif
