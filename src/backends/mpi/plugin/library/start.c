/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting MPI, or finding it started by the application. A process can start MPI once only, so MPI ends with the
 * process and not with the last group (finalize.c). MPI that the application has started is the application's to end.
 */
#include "backends/mpi/plugin/library/start.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/mpi/plugin/library/datatypes.h"
#include "backends/mpi/plugin/library/devices.h"
#include "backends/mpi/plugin/library/finalize.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/library/options.h"
#include "base/error.h"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started;

/* Turns "Open MPI v4.1.4, package: ..." into "Open MPI v4.1.4", and the lines of MPICH into "MPICH Version: 4.0.2". */
static void read_version(char *to, size_t capacity)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    size_t used = 0;
    for (const char *c = text; *c && used + 1 < capacity; c++) {
        if (*c != '\t' || (used > 0 && to[used - 1] != ' ')) {
            to[used++] = *c == '\t' ? ' ' : *c;
        }
    }
    to[used] = '\0';
}

int32_t tti_mpi_available(char *why, size_t capacity)
{
    char version[96];
    int finalized = 0;
    int initialized = 0;
    read_version(version, sizeof(version));
    MPI_Finalized(&finalized);
    MPI_Initialized(&initialized);
    if (finalized) {
        snprintf(
            why, capacity,
            "%s has been finalized in this process and cannot be started again; open the group before MPI_Finalize",
            version);
        return 0;
    }
    snprintf(why, capacity, "%s%s, plug-in " TTI_MPI_FLAVOUR, version,
             initialized && !tti_mpi_library.own ? ", started by the application" : "");
    return 1;
}

static tutti_status finalized_error(const tutti_open_info *info, tutti_error *error)
{
    return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                         "MPI has been finalized in the process of rank %d and cannot be started again; open the group "
                         "before MPI_Finalize",
                         info->rank);
}

static tutti_status start(const tutti_open_info *info, tutti_error *error)
{
    int initialized = 0;
    int finalized = 0;
    int *tag = NULL;
    int found = 0;
    int code = MPI_SUCCESS;
    MPI_Finalized(&finalized);
    MPI_Initialized(&initialized);
    if (finalized) {
        return finalized_error(info, error);
    }
    read_version(tti_mpi_library.version, sizeof(tti_mpi_library.version));
    if (!initialized) {
        const tutti_status prepared = tti_mpi_prepare_environment(info, error);
        if (prepared != TUTTI_OK) {
            return prepared;
        }
        code = MPI_Init_thread(NULL, NULL, tti_mpi_requested_level(info), &tti_mpi_library.level);
        if (code != MPI_SUCCESS) {
            return tti_mpi_error(error, code, "MPI_Init_thread");
        }
        tti_mpi_library.own = true;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    } else if ((code = MPI_Query_thread(&tti_mpi_library.level)) != MPI_SUCCESS) {
        return tti_mpi_error(error, code, "MPI_Query_thread");
    }
    tti_mpi_library.locked = tti_mpi_library.level < MPI_THREAD_MULTIPLE;
    tti_mpi_library.cpus =
        sysconf(_SC_NPROCESSORS_ONLN); /* not those of the affinity mask: launchers often bind each rank to one */
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &found);
    tti_mpi_library.tag_max = found && tag ? *tag : 32767;
    MPI_Comm_rank(MPI_COMM_WORLD, &tti_mpi_library.world_rank);
    tti_mpi_library.process = getpid();
    on_exit(tti_mpi_finalize, NULL);
    tti_mpi_detect_devices(info);
    return tti_mpi_datatypes_make(error);
}

tutti_status tti_mpi_start(const tutti_open_info *info, tutti_error *error)
{
    int finalized = 0;
    pthread_mutex_lock(&starting);
    tutti_status status = TUTTI_OK;
    if (!started) {
        status = start(info, error);
        started = status == TUTTI_OK;
    }
    pthread_mutex_unlock(&starting);
    MPI_Finalized(&finalized);
    if (status == TUTTI_OK && finalized) {
        status = finalized_error(info, error);
    }
    return status;
}
