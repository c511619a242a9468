/* SPDX-License-Identifier: BSD-3-Clause */
/* How each regular collective is tested. */
#ifndef TOOLS_CHECK_CASES_COLLECTIVES_FORMS_H
#define TOOLS_CHECK_CASES_COLLECTIVES_FORMS_H

#include "check/operation/jobs.h"

extern const struct tti_check_form tti_check_all_reduce_form;
extern const struct tti_check_form tti_check_reduce_form;
extern const struct tti_check_form tti_check_broadcast_form;
extern const struct tti_check_form tti_check_all_gather_form;
extern const struct tti_check_form tti_check_all_gather_v_form;
extern const struct tti_check_form tti_check_gather_form;
extern const struct tti_check_form tti_check_scatter_form;
extern const struct tti_check_form tti_check_reduce_scatter_form;
extern const struct tti_check_form tti_check_reduce_scatter_v_form;
extern const struct tti_check_form tti_check_all_to_all_form;
extern const struct tti_check_form tti_check_all_to_all_v_form;

#endif
