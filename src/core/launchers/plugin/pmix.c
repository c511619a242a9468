/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the PMIx server. It knows where it has started every rank, so nothing has to be published, and no rank waits for
 * another one.
 *
 * A client that has left cannot come back, and an MPI library that starts later is a client, too. So this one stays until
 * the process ends: PMIx counts those who use it, and a process that ends without having left is one that has failed.
 */
#include "core/launchers/plugin/pmix.h"

#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/status.h>
#include <unistd.h>

static pid_t joined; /* this process, when it is a client; the caller has a lock */

static void leave(void)
{
    if (joined == getpid()) { /* not a child of it, which has the connection, too */
        PMIx_Finalize(NULL, 0);
    }
}

static int complain(const char *what, pmix_status_t status, char *why, size_t capacity)
{
    snprintf(why, capacity, "%s: %s", what, PMIx_Error_string(status));
    return 1;
}

TUTTI_API int tutti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity);

TUTTI_API int tutti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity)
{
    static pmix_proc_t own;
    pmix_status_t status = joined ? PMIX_SUCCESS : PMIx_Init(&own, NULL, 0);
    if (status != PMIX_SUCCESS) {
        return complain("the PMIx server does not answer", status, why, why_capacity);
    }
    if (!joined) {
        joined = getpid();
        atexit(leave);
    }
    pmix_proc_t first;
    pmix_value_t *value = NULL;
    PMIX_PROC_CONSTRUCT(&first);
    PMIX_LOAD_PROCID(&first, own.nspace, 0);
    status = PMIx_Get(&first, PMIX_HOSTNAME, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value) {
        return complain("the PMIx server does not know the host of rank 0", status, why, why_capacity);
    }
    const bool fits = value->type == PMIX_STRING && snprintf(host, capacity, "%s", value->data.string) < (int)capacity;
    PMIX_VALUE_RELEASE(value);
    return fits ? 0 : complain("the host of rank 0 has no usable name", PMIX_ERR_BAD_PARAM, why, why_capacity);
}
