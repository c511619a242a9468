/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in that was built for another version of the interface: it is refused before anything of it is used. */
#include <tutti/backend.h>

static const tutti_backend backend = {
    .abi = TUTTI_BACKEND_ABI + 1,
    .size = sizeof(backend),
    .name = "other_abi",
};

TUTTI_API const tutti_backend *tutti_backend_entry(void);

const tutti_backend *tutti_backend_entry(void)
{
    return &backend;
}
