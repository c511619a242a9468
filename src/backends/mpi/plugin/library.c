/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting MPI, or finding it started, and ending it when the process ends: MPI can be started once only, so the end of
 * Tutti's use of it is not the end of MPI. What the application has started is the application's to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/error.h"

struct tti_mpi_library tti_mpi_library;

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER; /* see tti_mpi_enter */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static bool started;

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

/* "Open MPI v4.1.4" out of "Open MPI v4.1.4, package: ..."; "MPICH Version: 4.0.2" out of several lines. */
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
        snprintf(why, capacity, "%s has been finalized in this process, and cannot be started again", version);
        return 0;
    }
    snprintf(why, capacity, "%s%s, plug-in " TTI_MPI_FLAVOUR, version,
             initialized && !tti_mpi_library.own ? ", started by the application" : "");
    return 1;
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
        return tti_error_set(error, TUTTI_NOT_AVAILABLE,
                             "MPI has been finalized in this process, and cannot be started again");
    }
    read_version(tti_mpi_library.version, sizeof(tti_mpi_library.version));
    if (!initialized) {
        tti_mpi_prepare_environment(info);
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
    tti_mpi_library.cpus = sysconf(_SC_NPROCESSORS_ONLN); /* not those of a mask: ranks are often bound to one each */
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &found);
    tti_mpi_library.tag_max = found && tag ? *tag : 32767;
    MPI_Comm_rank(MPI_COMM_WORLD, &tti_mpi_library.world_rank);
    tti_mpi_library.process = getpid();
    on_exit(tti_mpi_finalize, NULL);
    tti_mpi_detect_devices(info);
    return tti_mpi_types_make(error);
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
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE,
                               "MPI has been finalized in this process, and cannot be started again");
    }
    return status;
}
