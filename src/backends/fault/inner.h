/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend that the fault backend wraps, and the agreement of all ranks on it. */
#ifndef TTI_BACKENDS_FAULT_INNER_H
#define TTI_BACKENDS_FAULT_INNER_H

#include <tutti/backend.h>

/* The backend that the setting fault.backend names, if it can be wrapped. `self` is the fault backend, which cannot. */
tutti_status tti_inner_find(const tutti_open_info *info, const tutti_backend *self, const tutti_backend **inner,
                            tutti_error *error);

/*
 * Publishes the result of the preparation on this rank (`mine`, with its *error; inner is NULL if it is unknown) and
 * reads those of all ranks. So no rank opens an inner group that another rank cannot join. Returns `mine` if that is an
 * error. error is not NULL.
 */
tutti_status tti_inner_agree(const tutti_open_info *info, const tutti_backend *inner, tutti_status mine,
                             tutti_error *error);

#endif
