/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the settings mean to MPI. An MPI library reads most of them when it starts, from environment variables with
 * names of its own. So the variables are set before the start only. A setting overrides a variable that is set already,
 * as everywhere in Tutti.
 */
#include "backends/mpi/plugin/library/options.h"

#include <ctype.h>
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/mpi/plugin/library/library.h"
#include "base/error.h"

int tti_mpi_requested_level(const tutti_open_info *info)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    const char *text = info->setting(info->settings, "mpi.thread_level");
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcasecmp(text, levels[i].name) == 0) {
            return levels[i].level;
        }
    }
    return MPI_THREAD_MULTIPLE;
}

/* MPI's name of a collective, from Tutti's: MPI writes some without underscores. */
static const char *name_in_mpi(const char *name)
{
    static const char *const differs[][2] = {{"all_reduce", "allreduce"},
                                             {"all_gather", "allgather"},
                                             {"all_gather_v", "allgatherv"},
                                             {"all_to_all", "alltoall"},
                                             {"broadcast", "bcast"}};
    for (size_t i = 0; i < sizeof(differs) / sizeof(differs[0]); i++) {
        if (strcmp(name, differs[i][0]) == 0) {
            return differs[i][1];
        }
    }
    return name;
}

static tutti_status set_variable(const char *name, const char *value, tutti_error *error)
{
    if (setenv(name, value, 1) != 0) {
        return tti_error_system(error, errno, "setting %s for MPI", name);
    }
    return TUTTI_OK;
}

/* Sets the variable from which this library reads the algorithm of a collective. Intel MPI has the binary interface of
 * MPICH, so the version text decides. */
static tutti_status set_algorithm(const char *name, const char *value, tutti_error *error)
{
    static const struct {
        const char *library;
        const char *prefix;
        const char *suffix;
        bool capitals;
    } dialects[] = {{"Open MPI", "OMPI_MCA_coll_tuned_", "_algorithm", false},
                    {"Intel(R) MPI", "I_MPI_ADJUST_", "", true},
                    {"", "MPIR_CVAR_", "_INTRA_ALGORITHM", true}};
    char variable[96]; /* the core has checked the name: it is that of a collective, and the longest one fits */
    size_t which = 0;
    while (!strstr(tti_mpi_library.version, dialects[which].library)) {
        which++;
    }
    const size_t from = strlen(dialects[which].prefix);
    const int length = snprintf(variable, sizeof(variable), "%s%s%s", dialects[which].prefix, name_in_mpi(name),
                                dialects[which].suffix);
    for (char *c = variable + from; dialects[which].capitals && length > 0 && *c; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    tutti_status status = TUTTI_OK;
    if (which == 0) { /* else Open MPI ignores these variables */
        status = set_variable("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", error);
    }
    return status == TUTTI_OK ? set_variable(variable, value, error) : status;
}

/* Calls `set` for each pair of "NAME=VALUE;NAME=VALUE", up to the first failure. The core has checked the form. */
static tutti_status for_each_pair(const char *list,
                                  tutti_status (*set)(const char *name, const char *value, tutti_error *error),
                                  tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    char *const copy = strdup(list);
    if (!copy) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the settings of MPI");
    }
    char *rest = copy;
    for (char *pair = strsep(&rest, ";"); pair && status == TUTTI_OK; pair = strsep(&rest, ";")) {
        char *equals = strchr(pair, '=');
        if (equals) {
            *equals = '\0';
            status = set(pair, equals + 1, error);
        }
    }
    free(copy);
    return status;
}

tutti_status tti_mpi_prepare_environment(const tutti_open_info *info, tutti_error *error)
{
    const tutti_status status = for_each_pair(info->setting(info->settings, "mpi.tuning"), set_algorithm, error);
    return status == TUTTI_OK ? for_each_pair(info->setting(info->settings, "mpi.env"), set_variable, error) : status;
}
