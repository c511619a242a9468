/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_STORE_KINDS_MEMORY_H
#define TTI_STORE_KINDS_MEMORY_H

#include "store/kinds/kind.h"

/* `rest` is the URL without its scheme, never empty. Sets the kind's own members, and url where it differs from the one
 * asked for. */
tutti_status tti_store_open_memory(const char *rest, struct tti_store **store, tutti_error *error);

#endif
