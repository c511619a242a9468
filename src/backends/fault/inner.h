/* SPDX-License-Identifier: BSD-3-Clause */
/* Which backend the fault backend wraps, and whether all ranks have the same and can go on. */
#ifndef TTI_BACKENDS_FAULT_INNER_H
#define TTI_BACKENDS_FAULT_INNER_H

#include <tutti/backend.h>

/* The backend that the setting fault.backend names, if it can be wrapped here. */
tutti_status tti_inner_find(const tutti_open_info *info, const tutti_backend **inner, tutti_error *error);

/*
 * Tells the others how the preparation went here (`mine`, with its *error; inner is NULL if it is not known) and hears how
 * it went for them: nobody begins to open an inner group that somebody will not join. Returns `mine` if that is an error.
 * error is not NULL.
 */
tutti_status tti_inner_agree(const tutti_open_info *info, const tutti_backend *inner, tutti_status mine,
                             tutti_error *error);

#endif
