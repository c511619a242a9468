/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a rank: the launcher's own, without what would contradict, plus the identity of the rank, the
 * rendezvous store of the job, and --env. Tutti's names come first for Tutti, torch's names let unmodified torch
 * scripts run.
 *
 * Variables of an outer launcher name one rank of one world, and here every rank would inherit the same. They stay
 * only if they happen to be true (the outer world has one rank and so has this job); otherwise the family's variables
 * that carry an identity are removed from all ranks. Settings (OMPI_MCA_btl, SLURM_JOB_ID, ...) always stay.
 */
#include "run/process/environment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/record.h"

/* An outer launcher: the variables that hold its rank and size, and the beginnings of all names that carry identity.
 * Variables of `tutti run` and torchrun need no row: a rank gets new values of them, or none (torch_identity). */
struct family {
    const char *rank;
    const char *size; /* NULL: the launcher sets none; rank 0 counts as the only one */
    const char *identity[8];
};

static const struct family families[] = {
    {"OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_MCA_ess_",
      "OMPI_MCA_orte_", "PMIX_"}},
    {"PMIX_RANK", NULL, {"PMIX_"}},
    {"PMI_RANK", "PMI_SIZE", {"PMI_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD"}},
    {"SLURM_PROCID",
     "SLURM_NTASKS",
     {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"}},
};

/* torchrun's remaining names: RANK and the like are overwritten, these would disagree with them. */
static const char *const torch_identity[] = {"WORLD_RANK",      "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                                             "ROLE_WORLD_SIZE", "ROLE_NAME",  "TORCHELASTIC_"};

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool contradicts(const struct family *family, int ranks)
{
    const char *rank = getenv(family->rank);
    const char *size = family->size ? getenv(family->size) : "1";
    return rank && !(ranks == 1 && strcmp(rank, "0") == 0 && size && strcmp(size, "1") == 0);
}

static bool is_stale(const char *assignment, int ranks)
{
    for (size_t i = 0; i < sizeof(torch_identity) / sizeof(torch_identity[0]); i++) {
        if (begins_with(assignment, torch_identity[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const char *const *identity = families[i].identity;
        for (size_t j = 0; j < sizeof(families[i].identity) / sizeof(identity[0]) && identity[j]; j++) {
            if (begins_with(assignment, identity[j]) && contradicts(&families[i], ranks)) {
                return true;
            }
        }
    }
    return false;
}

/* A growing environment; `good` turns false for ever when memory is exhausted. */
struct variables {
    char **list;
    size_t count;
    bool good;
};

/* Takes over `assignment`; replaces a variable of the same name. */
static void put(struct variables *variables, char *assignment)
{
    if (!variables->good || !assignment) {
        variables->good = false;
        free(assignment);
        return;
    }
    size_t name = strcspn(assignment, "=") + 1;
    for (size_t i = 0; i < variables->count; i++) {
        if (strncmp(variables->list[i], assignment, name) == 0) {
            free(variables->list[i]);
            variables->list[i] = assignment;
            return;
        }
    }
    char **grown = realloc(variables->list, (variables->count + 2) * sizeof(*grown));
    if (!grown) {
        variables->good = false;
        free(assignment);
        return;
    }
    variables->list = grown;
    grown[variables->count++] = assignment;
    grown[variables->count] = NULL;
}

__attribute__((format(printf, 2, 3))) static void put_format(struct variables *variables, const char *format, ...)
{
    char *assignment = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&assignment, format, arguments) < 0) {
        assignment = NULL;
    }
    va_end(arguments);
    put(variables, assignment);
}

/* `local` counts the ranks of this node. */
static void put_own(struct variables *variables, const struct tti_run_options *options,
                    const struct tti_job_identity *identity, int local)
{
    const int rank = identity->first_rank + local;
    put_format(variables, "TUTTI_RANK=%d", rank);
    put_format(variables, "TUTTI_WORLD_SIZE=%d", identity->world_size);
    put_format(variables, "TUTTI_LOCAL_RANK=%d", local);
    put_format(variables, "TUTTI_LOCAL_WORLD_SIZE=%d", options->ranks);
    put_format(variables, "TUTTI_NODE_RANK=%d", options->node_rank);
    put_format(variables, "TUTTI_NODES=%d", options->nodes);
    put_format(variables, "TUTTI_STORE=%s", identity->store);
    put_format(variables, "TUTTI_JOB=%s", identity->name);
    put_format(variables, "TUTTI_RESTART_COUNT=%d", identity->restart);
    if (options->backend) {
        put_format(variables, "TUTTI_BACKEND=%s", options->backend);
    }
    put_format(variables, "RANK=%d", rank);
    put_format(variables, "WORLD_SIZE=%d", identity->world_size);
    put_format(variables, "LOCAL_RANK=%d", local);
    put_format(variables, "LOCAL_WORLD_SIZE=%d", options->ranks);
    if (options->nodes > 1) {
        put_format(variables, "GROUP_RANK=%d", options->node_rank);
        put_format(variables, "GROUP_WORLD_SIZE=%d", options->nodes);
    }
    put_format(variables, "MASTER_ADDR=%s", options->nodes > 1 ? options->master_addr : "127.0.0.1");
    put_format(variables, "MASTER_PORT=%d", identity->port);
    if (!getenv("OMP_NUM_THREADS")) {
        int threads = options->cpus_usable / options->ranks;
        put_format(variables, "OMP_NUM_THREADS=%d", threads < 1 ? 1 : threads);
    }
    for (size_t i = 0; i < options->env_count; i++) {
        put(variables, strdup(options->env[i]));
    }
}

char **tti_run_environment(const struct tti_run_options *options, const struct tti_job_identity *identity, int local,
                           int flight_fd, bool inherits)
{
    struct variables variables = {.good = true};
    for (char **variable = environ; inherits && *variable; variable++) {
        if (strchr(*variable, '=') && !is_stale(*variable, identity->world_size)) {
            put(&variables, strdup(*variable));
        }
    }
    put_own(&variables, options, identity, local);
    if (inherits) {
        put_format(&variables, "%s=%d", TTI_FLIGHT_VARIABLE, flight_fd);
    }
    if (!variables.good) {
        tti_run_environment_free(variables.list);
        return NULL;
    }
    return variables.list;
}

void tti_run_environment_free(char **environment)
{
    for (char **variable = environment; variable && *variable; variable++) {
        free(*variable);
    }
    free(environment);
}
