/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read by clang-tidy before each source, never compiled. The analyzer looks at one source at a time and so cannot know
 * that tti_error_set returns the status that it is given, which is never OK; without that it follows paths on which a
 * function has failed and its caller goes on. This file declares it.
 */
#ifndef SCRIPTS_LINTERS_TIDY_H
#define SCRIPTS_LINTERS_TIDY_H

#include "../../src/base/error.h"

#define tti_error_set(error, status, ...)    ((void)tti_error_set(error, status, __VA_ARGS__), (tutti_status)(status))
#define tti_error_system(error, errnum, ...) ((void)tti_error_system(error, errnum, __VA_ARGS__), TUTTI_SYSTEM)
#define tti_error_revoked(error, cause)      ((void)tti_error_revoked(error, cause), TUTTI_REVOKED)
#define tti_error_clear(error)               ((void)tti_error_clear(error), TUTTI_OK)

#endif
