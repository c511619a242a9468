/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks come from. Each function returns the exit code of the program. */
#ifndef TTI_CHECK_RANKS_H
#define TTI_CHECK_RANKS_H

#include "check/check.h"

/* Runs the ranks as threads. */
int tti_check_run_threads(const struct tti_check_options *options);

/* Becomes `tutti run -n N -- tutti check WORDS`. */
int tti_check_launch(const struct tti_check_options *options, char **words);

/* Is one rank of a launcher's job. */
int tti_check_join(const struct tti_check_options *options);

#endif
