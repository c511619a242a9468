/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx server knows the host of every rank that it has started. So no rank publishes anything or waits for another
 * one.
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

static pid_t joined; /* the process that is a client; the caller locks */

static void leave(void)
{
    if (joined == getpid()) { /* not a forked child, which shares the connection */
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
