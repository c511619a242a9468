/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the settings mean to MPI. An MPI library reads most of them when it starts, from environment variables with
 * names of its own. So the variables are set before the start only. A setting overrides a variable that is set already,
 * as everywhere in Tutti.
 */
#include "backends/mpi/plugin/library/options.h"

#include <ctype.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/mpi/plugin/library/library.h"

const char *tti_mpi_setting(const tutti_open_info *info, const char *key, const char *otherwise)
{
    const char *text = info->setting(info->settings, key);
    return text ? text : otherwise;
}

int tti_mpi_requested_level(const tutti_open_info *info)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    const char *text = tti_mpi_setting(info, "mpi.thread_level", "multiple");
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

/* Sets the variable from which this library reads the algorithm of a collective. Intel MPI has the binary interface of
 * MPICH, so the version text decides. */
static void set_algorithm(const char *name, const char *value)
{
    static const struct {
        const char *library;
        const char *before;
        const char *behind;
        bool capitals;
    } dialects[] = {{"Open MPI", "OMPI_MCA_coll_tuned_", "_algorithm", false},
                    {"Intel(R) MPI", "I_MPI_ADJUST_", "", true},
                    {"", "MPIR_CVAR_", "_INTRA_ALGORITHM", true}};
    char variable[96];
    size_t which = 0;
    while (!strstr(tti_mpi_library.version, dialects[which].library)) {
        which++;
    }
    const size_t from = strlen(dialects[which].before);
    const int length = snprintf(variable, sizeof(variable), "%s%s%s", dialects[which].before, name_in_mpi(name),
                                dialects[which].behind);
    for (char *c = variable + from; dialects[which].capitals && length > 0 && *c; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    if (which == 0) { /* else Open MPI ignores these variables */
        setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 1);
    }
    setenv(variable, value, 1);
}

static void set_variable(const char *name, const char *value)
{
    setenv(name, value, 1);
}

/* Calls `set` for each pair of "NAME=VALUE;NAME=VALUE". The core has checked the form. */
static void for_each_pair(const char *list, void (*set)(const char *name, const char *value))
{
    char *const copy = strdup(list);
    char *rest = copy;
    for (char *pair = strsep(&rest, ";"); pair; pair = strsep(&rest, ";")) {
        char *equals = strchr(pair, '=');
        if (equals) {
            *equals = '\0';
            set(pair, equals + 1);
        }
    }
    free(copy);
}

void tti_mpi_prepare_environment(const tutti_open_info *info)
{
    for_each_pair(tti_mpi_setting(info, "mpi.tuning", ""), set_algorithm);
    for_each_pair(tti_mpi_setting(info, "mpi.env", ""), set_variable);
}
