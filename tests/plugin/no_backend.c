/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in whose entry point returns no backend. */
#include <tutti/backend.h>

TUTTI_API const tutti_backend *tutti_backend_entry(void);

const tutti_backend *tutti_backend_entry(void)
{
    return NULL;
}
