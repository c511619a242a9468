/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_COMMON_EXIT_CODES_H
#define TOOLS_COMMON_EXIT_CODES_H

/* Exit codes of `tutti run` itself, as shells and timeout(1) use them. */
#define TTI_EXIT_TIMEOUT        124
#define TTI_EXIT_FAILED         125 /* the launcher could not do its work */
#define TTI_EXIT_NOT_EXECUTABLE 126
#define TTI_EXIT_NOT_FOUND      127
#define TTI_EXIT_SIGNAL         128 /* plus the signal's number */

#endif
