/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of this process's MPI library, the lock around its calls, and its errors as errors of Tutti. */
#include "backends/mpi/plugin/library/library.h"

#include <mpi.h>
#include <pthread.h>

#include "base/error.h"

struct tti_mpi_library tti_mpi_library;

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER; /* see tti_mpi_enter */

void tti_mpi_lock(void)
{
    pthread_mutex_lock(&calls);
}

void tti_mpi_unlock(void)
{
    pthread_mutex_unlock(&calls);
}

tutti_status tti_mpi_error(tutti_error *error, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "no text";
    int length = 0;
    int class = MPI_ERR_OTHER;
    tti_mpi_enter();
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    tti_mpi_leave();
    for (char *c = text; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    tti_error_set(error, class == MPI_ERR_NO_MEM ? TUTTI_NO_MEMORY : TUTTI_BACKEND,
                  "%s failed with MPI's error class %d, code %d: %.300s", what, class, code, text);
    if (error) {
        error->vendor_code = code;
    }
    return class == MPI_ERR_NO_MEM ? TUTTI_NO_MEMORY : TUTTI_BACKEND;
}
