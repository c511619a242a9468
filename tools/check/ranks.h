/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks come from. Each function returns the exit code of the program. */
#ifndef TTI_CHECK_RANKS_H
#define TTI_CHECK_RANKS_H

#include "check/check.h"

/* Runs the ranks as threads / becomes `tutti run -n N -- tutti check ...` / is one rank of a launcher's job. Returns
 * the exit code. */
int tti_check_run_threads(const struct tti_check_options *options);
int tti_check_launch(const struct tti_check_options *options);
int tti_check_join(const struct tti_check_options *options);

#endif
