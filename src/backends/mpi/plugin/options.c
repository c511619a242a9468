/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the settings mean to MPI. Most of it an MPI library reads when it starts, from variables whose names are its
 * own, so this is done before the start only. A setting stands above a variable that is there already, as everywhere
 * in Tutti.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/mpi/plugin/plugin.h"

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

/* MPI's name of one of its collectives, from Tutti's: without what Tutti writes apart. */
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

/* The variable in which this library looks for the algorithm of a collective. Intel MPI has the binary interface of
 * MPICH, so only the library itself can tell. */
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
    if (which == 0) { /* without this it looks at no such variable */
        setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 1);
    }
    setenv(variable, value, 1);
}

static void set_variable(const char *name, const char *value)
{
    setenv(name, value, 1);
}

/* Each pair of "NAME=VALUE;NAME=VALUE", whose form the core has checked. */
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
