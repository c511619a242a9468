/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the PMIx server for the host of rank 0. The server knows the host of every rank that it has started, so no rank
 * publishes anything or waits for another one.
 *
 * A client that has left cannot come back, and an MPI library that starts later is a client of the same process. So
 * this client leaves only when the process ends: PMIx counts its users. A process that ends without leaving has failed,
 * for PMIx.
 */
#include "core/launchers/plugin/pmix.h"

#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/status.h>
#include <unistd.h>

static pid_t client; /* the process that is one; 0: none yet. The caller locks */

static void leave(void)
{
    if (client == getpid()) { /* not a forked child, which shares the connection */
        PMIx_Finalize(NULL, 0);
    }
}

static int report(const char *what, pmix_status_t status, char *why, size_t capacity)
{
    snprintf(why, capacity, "%s: %s", what, PMIx_Error_string(status));
    return 1;
}

TUTTI_API int tutti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity);

TUTTI_API int tutti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity)
{
    static pmix_proc_t own;
    if (client != 0 && client != getpid()) { /* no thread of a forked child answers for the connection */
        return report("a forked child cannot ask the PMIx server", PMIX_ERR_NOT_SUPPORTED, why, why_capacity);
    }
    pmix_status_t status = client != 0 ? PMIX_SUCCESS : PMIx_Init(&own, NULL, 0);
    if (status != PMIX_SUCCESS) {
        return report("the PMIx server does not answer", status, why, why_capacity);
    }
    if (client == 0) {
        client = getpid();
        atexit(leave);
    }
    pmix_proc_t first;
    pmix_value_t *value = NULL;
    PMIX_PROC_CONSTRUCT(&first);
    PMIX_LOAD_PROCID(&first, own.nspace, 0);
    status = PMIx_Get(&first, PMIX_HOSTNAME, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value) {
        return report("the PMIx server does not know the host of rank 0", status, why, why_capacity);
    }
    const bool fits = value->type == PMIX_STRING && snprintf(host, capacity, "%s", value->data.string) < (int)capacity;
    PMIX_VALUE_RELEASE(value);
    return fits ? 0 : report("the host of rank 0 has no usable name", PMIX_ERR_BAD_PARAM, why, why_capacity);
}
