/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions on groups have in common. */
#ifndef TTI_API_GROUP_H
#define TTI_API_GROUP_H

#include "core/group/group_state.h"

/* The group, held for the caller; or NULL with the status and a sentence that says which function and why. */
struct tti_group *tti_api_hold(tutti_group *handle, const char *function, tutti_error *error, tutti_status *status);

/* Completes the error of a function that has ended; returns the status. */
tutti_status tti_api_finish(tutti_error *error, tutti_operation operation, int32_t rank, tutti_status status);

/* The caller's configuration: INVALID_ARGUMENT if it cannot be. */
tutti_status tti_api_check_config(const tutti_config *config, tutti_error *error);

#endif
