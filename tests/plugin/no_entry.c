/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared library that is no plug-in: it lacks the entry point. */
#include <tutti/backend.h>

TUTTI_API int32_t no_entry_at_all(void);

int32_t no_entry_at_all(void)
{
    return 1;
}
