/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BASE_FILE_LIMIT_H
#define TTI_BASE_FILE_LIMIT_H

#include <stdint.h>
#include <sys/resource.h>

/* The largest size in bytes that this process may give a file, memory files included (ulimit -f). A larger size would
 * raise SIGXFSZ. */
static inline uint64_t tti_file_limit(void)
{
    struct rlimit files;
    return getrlimit(RLIMIT_FSIZE, &files) == 0 ? files.rlim_cur : UINT64_MAX;
}

#endif
