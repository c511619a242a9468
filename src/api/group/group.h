/* SPDX-License-Identifier: BSD-3-Clause */
/* Common to the functions on groups. */
#ifndef TTI_API_GROUP_GROUP_H
#define TTI_API_GROUP_GROUP_H

#include "core/group/group_state.h"

/* The group, acquired; or NULL with the status and a sentence. */
struct tti_group *tti_api_hold(tutti_group *handle, const char *function, tutti_error *error, tutti_status *status);

/* Completes the error of a function that ends; returns the status. */
tutti_status tti_api_finish(tutti_error *error, tutti_operation operation, int32_t rank, tutti_status status);

/* Checks the caller's configuration. */
tutti_status tti_api_check_config(const tutti_config *config, tutti_error *error);

#endif
