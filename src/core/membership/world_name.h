/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of the next world at a store: see world_name.c. */
#ifndef TTI_CORE_MEMBERSHIP_WORLD_NAME_H
#define TTI_CORE_MEMBERSHIP_WORLD_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

struct tti_store;

/* Names the world of `size` ranks that this process joins next at the store as `rank`. `setting`: the setting `name`.
 * `counted` false: it is the only world of that name at the store. After a failure *name is that of the first one. */
tutti_status tti_world_name(struct tti_store *store, const char *url, const char *setting, int32_t rank, int32_t size,
                            bool counted, char *name, size_t capacity, tutti_error *error);

#endif
