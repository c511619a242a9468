/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's life, as in tutti_backend_ops. */
#ifndef TTI_BACKENDS_HIER_OPEN_H
#define TTI_BACKENDS_HIER_OPEN_H

#include <tutti/backend.h>

tutti_status tti_hier_open(const tutti_open_info *info, void **state, tutti_error *error);
void tti_hier_close(void *state);

#endif
