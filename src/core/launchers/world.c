/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every launcher sets variables of its own for rank, size, local rank, local size, and for a name of the job. A table
 * holds the names for each family of launchers; only the choice of the store needs code for each family.
 *
 * The first family with rank and size counts. A family before it with only one of them must not contradict it. If no
 * family has both, torchrun's and Open MPI's variables complete one another, as some programs and wrappers set them.
 * WORLD_RANK is weaker than the rank of either.
 *
 * Ranks of one host use a unix store. Its name contains a fingerprint of all variables that name the job, so two jobs
 * that run at once never share a store. Ranks of several hosts need the host of rank 0: torchrun and Slurm name it, a
 * PMIx server knows it, else the user sets TUTTI_STORE. They also need a port there. No launcher reserves one:
 * MASTER_PORT belongs to torchrun's agent or to torch, and its neighbours may belong to other jobs. So the fingerprint
 * chooses a few ports above the ephemeral ones; rank 0 takes the first free one, and the others find it by the name of
 * the job. A job of one rank needs no store.
 */
#include "core/launchers/world.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/host_name.h"
#include "base/number.h"
#include "core/launchers/hydra.h"
#include "core/launchers/pmix.h"
#include "store/wire/fingerprint.h"

struct family {
    const char *name;
    const char *rank;
    const char *rank_alias; /* another name of the same, or NULL */
    const char *size;
    const char *local_rank;
    const char *local_size; /* NULL: the launcher sets none */
    /* Whether the launcher has started this process; NULL: if rank or size is set. */
    bool (*present)(void);
    /* Fills store_url and serve for a job of more than one rank without TUTTI_STORE. */
    tutti_status (*choose_store)(struct tti_world *world, tutti_error *error);
};

/* The ports of the store of several hosts: above the ephemeral ports of Linux. */
#define FIRST_PORT 61000
#define PORT_RANGE 4500u
#define PORT_STEP  1117u /* prime */
#define PORTS      4

static bool is_set(const char *name)
{
    return name && getenv(name) != NULL;
}

/* Reads a decimal number: digits only, minimum..maximum. Leaves *value alone if the variable is not set. */
static tutti_status read_number(const char *name, int minimum, int maximum, int *value, tutti_error *error)
{
    const char *text = name ? getenv(name) : NULL;
    if (!text) {
        return TUTTI_OK;
    }
    int64_t number = 0;
    if (!tti_parse_integer(text, minimum, maximum, &number)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the environment variable %s is \"%.60s\", which is not a "
                             "number in %d..%d",
                             name, text, minimum, maximum);
    }
    *value = (int)number;
    return TUTTI_OK;
}

/* The store for the ranks of one host. Its name is the family, a readable part, and the fingerprint. */
static void store_on_host(struct tti_world *world, const char *recognise, tti_fingerprint job)
{
    char readable[33];
    size_t used = 0;
    for (const char *p = recognise; *p && used < sizeof(readable) - 1; p++) {
        readable[used++] = (char)(isalnum((unsigned char)*p) || *p == '.' ? *p : '_');
    }
    readable[used] = '\0';
    char fingerprint[TTI_FINGERPRINT_LENGTH + 1];
    tti_fingerprint_print(job, fingerprint);
    snprintf(world->store_url, sizeof(world->store_url), "unix:%s-%s-%s", world->family, readable, fingerprint);
}

/* Adds variables to the fingerprint of the job, set or not. */
static tti_fingerprint add_variables(tti_fingerprint job, const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        job = tti_fingerprint_add(job, *names);
        job = tti_fingerprint_add(job, value ? value : "");
    }
    return job;
}

static tutti_status needs_store(const struct tti_world *world, const char *why, tutti_error *error)
{
    return tti_error_set(
        error, TUTTI_INVALID_ARGUMENT,
        "the ranks started by %s cannot choose a rendezvous store: %s; set TUTTI_STORE, for example to "
        "tcp://HOST:PORT with the host of rank 0, on all of them",
        world->family, why);
}

static bool several_hosts(const struct tti_world *world)
{
    return world->local_size >= 0 && world->local_size < world->size;
}

static tutti_status choose_store_tutti(struct tti_world *world, tutti_error *error)
{
    return tti_error_set(
        error, TUTTI_INVALID_ARGUMENT,
        "TUTTI_WORLD_SIZE is %d, but TUTTI_STORE is not set: it names the rendezvous store, for example "
        "unix:NAME or tcp://HOST:PORT",
        world->size);
}

/* On several hosts: one of a few ports of `host`, where rank 0 runs, but not `reserved`. */
static void store_at_port(struct tti_world *world, const char *host, int reserved, tti_fingerprint job)
{
    char token[TTI_FINGERPRINT_LENGTH + 1];
    char ports[PORTS * 6 + 1] = "";
    tti_fingerprint_print(job, token);
    for (unsigned i = 0, tried = 0; i < PORTS; tried++) {
        /* the low bits of the hash; steps that are prime to the range never give a port twice */
        const int port = FIRST_PORT + (int)(((unsigned)job % PORT_RANGE + tried * PORT_STEP) % PORT_RANGE);
        if (port != reserved) {
            const size_t used = strlen(ports);
            snprintf(ports + used, sizeof(ports) - used, "%s%d", i ? "," : "", port);
            i++;
        }
    }
    const bool v6 = strchr(host, ':') != NULL;
    snprintf(world->store_url, sizeof(world->store_url), "tcp://%s%.200s%s:%s/%s", v6 ? "[" : "", host, v6 ? "]" : "",
             ports, token);
    world->serve = world->rank == 0;
}

static bool is_loopback(const char *address)
{
    return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Without LOCAL_WORLD_SIZE, as when ranks are started by hand, they may be on several hosts unless rank 0 is reached at
 * an address of the own host only. All ranks have the same address, so all decide alike. */
static tutti_status choose_store_torchrun(struct tti_world *world, tutti_error *error)
{
    static const char *const names[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_RESTART_COUNT", NULL};
    const char *address = getenv("MASTER_ADDR");
    if (!address) {
        return needs_store(world, "MASTER_ADDR is not set", error);
    }
    if (!tti_is_host_name(address)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the environment variable MASTER_ADDR is \"%.200s\", which "
                             "is not the name or address of a host",
                             address);
    }
    const char *port_text = getenv("MASTER_PORT");
    if (!port_text) {
        return needs_store(world, "MASTER_PORT is not set", error);
    }
    int port = 0;
    tutti_status status = read_number("MASTER_PORT", 1, 65535, &port, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_fingerprint job = add_variables(TTI_FINGERPRINT_EMPTY, names);
    if (several_hosts(world) || (world->local_size < 0 && !is_loopback(address))) {
        store_at_port(world, address, port, job);
    } else {
        store_on_host(world, port_text, job);
    }
    return TUTTI_OK;
}

/* Several hosts, and the launcher does not name the host of rank 0: the PMIx server knows it. `names` are variables
 * that name the job, the same on all hosts. */
static tutti_status choose_store_by_pmix(struct tti_world *world, const char *const *names, tutti_error *error)
{
    char host[200];
    char why[300];
    char text[400];
    if (!tti_pmix_first_host(host, sizeof(host), why, sizeof(why))) {
        snprintf(text, sizeof(text), "they are on several hosts, and %s", why);
        return needs_store(world, text, error);
    }
    store_at_port(world, host, 0, add_variables(TTI_FINGERPRINT_EMPTY, names));
    return TUTTI_OK;
}

static tutti_status choose_store_openmpi(struct tti_world *world, tutti_error *error)
{
    /* The namespace is made from the launcher's pid, which the kernel reuses; the transport key is random. */
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                        "OMPI_MCA_orte_precondition_transports", NULL};
    if (several_hosts(world)) {
        return choose_store_by_pmix(world, names, error);
    }
    const char *job = getenv(names[0]) ? getenv(names[0]) : getenv(names[1]);
    if (!job) {
        return needs_store(world, "neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid names the job", error);
    }
    store_on_host(world, job, add_variables(TTI_FINGERPRINT_EMPTY, names));
    return TUTTI_OK;
}

static bool in_slurm_step(void)
{
    return is_set("SLURM_PROCID") && is_set("SLURM_NTASKS");
}

static bool are_same(const char *one, const char *other)
{
    const char *value = getenv(one);
    const char *other_value = getenv(other);
    return value && other_value && strcmp(value, other_value) == 0;
}

/* srun --mpi=pmi2 sets rank and size of PMI; Slurm's own variables also say where the ranks are. */
static bool hydra_present(void)
{
    const bool by_srun = in_slurm_step() && is_set("SLURM_STEP_ID") && are_same("PMI_RANK", "SLURM_PROCID") &&
                         are_same("PMI_SIZE", "SLURM_NTASKS");
    return !by_srun && (is_set("PMI_RANK") || is_set("PMI_SIZE") || (is_set("PMI_ID") && is_set("PMI_PORT")));
}

static tutti_status choose_store_hydra(struct tti_world *world, tutti_error *error)
{
    /* Other launchers with PMI, such as Slurm, name the job by variables. */
    static const char *const names[] = {"PMI_JOBID",           "PMI_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID",
                                        "SLURM_RESTART_COUNT", NULL};
    if (several_hosts(world)) {
        return needs_store(world, "they are on several hosts", error);
    }
    const char *named = getenv("PMI_JOBID");
    const char *port = getenv("PMI_PORT");
    char job[64];
    if (named) {
        store_on_host(world, named, add_variables(TTI_FINGERPRINT_EMPTY, names));
    } else if (tti_hydra_job(job, sizeof(job))) {
        store_on_host(world, job, tti_fingerprint_add(TTI_FINGERPRINT_EMPTY, job));
    } else if (port) {
        store_on_host(world, port, add_variables(TTI_FINGERPRINT_EMPTY, names));
    } else {
        return needs_store(world, "neither PMI_FD nor PMI_JOBID nor PMI_PORT names the job", error);
    }
    return TUTTI_OK;
}

/* srun --mpi=pmix sets a rank of PMIx without a size; Slurm's own variables are complete then. */
static bool pmix_present(void)
{
    return is_set("PMIX_SIZE") || (is_set("PMIX_RANK") && !in_slurm_step());
}

static tutti_status choose_store_pmix(struct tti_world *world, tutti_error *error)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                        NULL};
    static const char *const everywhere[] = {"PMIX_NAMESPACE", NULL};
    if (several_hosts(world)) {
        return choose_store_by_pmix(world, everywhere, error);
    }
    const char *job = getenv(names[0]);
    if (!job) {
        return needs_store(world, "PMIX_NAMESPACE, which names the job, is not set", error);
    }
    store_on_host(world, job, add_variables(TTI_FINGERPRINT_EMPTY, names));
    return TUTTI_OK;
}

/* A batch script gets SLURM_PROCID, too, but no step; without a number of tasks it is not a rank. */
static bool slurm_present(void)
{
    bool batch = is_set("SLURM_JOB_ID") && !is_set("SLURM_STEP_ID") && !is_set("SLURM_NTASKS");
    return is_set("SLURM_PROCID") && !batch;
}

/* The first host of a Slurm list: "node[01-04,07],gpu3" begins with node01. */
static bool first_host(const char *list, char *host, size_t capacity)
{
    size_t used = 0;
    for (const char *c = list; *c && *c != ','; c++) {
        if (*c == '[') { /* the first of these numbers */
            const size_t digits = strspn(c + 1, "0123456789");
            const char *end = strchr(c, ']');
            if (!end || digits == 0 || used + digits >= capacity) {
                return false;
            }
            memcpy(host + used, c + 1, digits);
            used += digits;
            c = end;
        } else if ((isalnum((unsigned char)*c) || strchr(".-_", *c)) && used + 1 < capacity) {
            host[used++] = *c;
        } else {
            return false;
        }
    }
    host[used] = '\0';
    return used > 0;
}

/* On several nodes of Slurm rank 0 runs on the first of the list, except with --distribution=arbitrary. */
static tutti_status choose_store_slurm_hosts(struct tti_world *world, tti_fingerprint job, tutti_error *error)
{
    const char *list = getenv("SLURM_STEP_NODELIST") ? getenv("SLURM_STEP_NODELIST") : getenv("SLURM_NODELIST");
    char host[200];
    if (!list || !first_host(list, host, sizeof(host))) {
        return needs_store(world, "they are on several hosts, and SLURM_STEP_NODELIST does not name the first", error);
    }
    int node = 0;
    tutti_status status = read_number("SLURM_NODEID", 0, INT_MAX, &node, error);
    if (status == TUTTI_OK && world->rank == 0 && node != 0) {
        return needs_store(world, "rank 0 is not on the first host of SLURM_STEP_NODELIST", error);
    }
    if (status == TUTTI_OK) {
        store_at_port(world, host, 0, job);
    }
    return status;
}

static tutti_status choose_store_slurm(struct tti_world *world, tutti_error *error)
{
    static const char *const names[] = {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
                                        NULL};
    const char *job = getenv("SLURM_JOB_ID");
    if (!job || !is_set("SLURM_STEP_ID")) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "SLURM_PROCID and SLURM_NTASKS are set, but %s is not: a batch script is not a rank; "
                             "start the program by srun, or set TUTTI_STORE",
                             job ? "SLURM_STEP_ID" : "SLURM_JOB_ID");
    }
    int nodes = 1;
    const char *count = is_set("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
    tutti_status status = read_number(count, 1, INT_MAX, &nodes, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const tti_fingerprint fingerprint = add_variables(TTI_FINGERPRINT_EMPTY, names);
    if (nodes > 1) {
        return choose_store_slurm_hosts(world, fingerprint, error);
    }
    store_on_host(world, job, fingerprint);
    return TUTTI_OK;
}

static const struct family families[] = {
    {"tutti", "TUTTI_RANK", NULL, "TUTTI_WORLD_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_WORLD_SIZE", NULL,
     choose_store_tutti},
    {"torchrun", "RANK", "WORLD_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, choose_store_torchrun},
    {"openmpi", "OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, choose_store_openmpi},
    {"hydra", "PMI_RANK", NULL, "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", hydra_present, choose_store_hydra},
    {"pmix", "PMIX_RANK", NULL, "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE", pmix_present, choose_store_pmix},
    {"slurm", "SLURM_PROCID", NULL, "SLURM_NTASKS", "SLURM_LOCALID", NULL, slurm_present, choose_store_slurm},
};

#define OWN      (&families[0])
#define TORCHRUN (&families[1])
#define OPENMPI  (&families[2])
#define END      (families + sizeof(families) / sizeof(families[0]))

static bool is_present(const struct family *family)
{
    if (family->present) {
        return family->present();
    }
    return is_set(family->rank) || is_set(family->rank_alias) || is_set(family->size);
}

/* The variable that has the rank, or NULL. */
static const char *rank_of(const struct family *family)
{
    if (is_set(family->rank)) {
        return family->rank;
    }
    return is_set(family->rank_alias) && !is_set(OPENMPI->rank) ? family->rank_alias : NULL;
}

static bool is_whole(const struct family *family)
{
    return is_present(family) && rank_of(family) && is_set(family->size);
}

/* Whether it has rank or size, but not both. */
static bool is_half(const struct family *family)
{
    return is_present(family) && !is_whole(family) &&
           (is_set(family->rank) || is_set(family->rank_alias) || is_set(family->size));
}

static tutti_status check_rank(const char *rank_name, int rank, const char *size_name, int size, tutti_error *error)
{
    if (rank < size) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is %d, but %s is %d: ranks count from 0", rank_name, rank,
                         size_name, size);
}

/* Reads rank and size; both must be set. */
static tutti_status read_global(const struct family *family, struct tti_world *world, tutti_error *error)
{
    const char *name = rank_of(family) ? rank_of(family) : family->rank;
    if (!is_set(name) || !is_set(family->size)) {
        const char *there = is_set(name) ? name : is_set(family->size) ? family->size : "PMI_ID";
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the environment variable %s is set, but %s is not; a rank needs both, or neither for a "
                             "job of one rank",
                             there, is_set(name) ? family->size : name);
    }
    tutti_status status = read_number(family->size, 1, INT_MAX, &world->size, error);
    if (status == TUTTI_OK) {
        status = read_number(name, 0, INT_MAX, &world->rank, error);
    }
    int other = world->rank;
    if (status == TUTTI_OK && !is_set(OPENMPI->rank)) { /* else WORLD_RANK does not count */
        status = read_number(family->rank_alias, 0, INT_MAX, &other, error);
    }
    if (status == TUTTI_OK && other != world->rank) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is %d, but %s is %d: both mean the rank", family->rank,
                             world->rank, family->rank_alias, other);
    }
    return status == TUTTI_OK ? check_rank(name, world->rank, family->size, world->size, error) : status;
}

static tutti_status read_local(const struct family *family, struct tti_world *world, tutti_error *error)
{
    tutti_status status = read_number(family->local_rank, 0, INT_MAX, &world->local_rank, error);
    if (status == TUTTI_OK) {
        status = read_number(family->local_size, 1, INT_MAX, &world->local_size, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (world->local_size > world->size) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s is %d, but %s is %d: a host cannot have more ranks than "
                             "the job",
                             family->local_size, world->local_size, family->size, world->size);
    }
    bool known = world->local_size >= 0;
    return check_rank(family->local_rank, world->local_rank, known ? family->local_size : family->size,
                      known ? world->local_size : world->size, error);
}

/* TUTTI_STORE overrides the choice of every family. */
static tutti_status read_store(struct tti_world *world, tutti_error *error)
{
    const char *url = getenv("TUTTI_STORE");
    if (!url) {
        return TUTTI_OK;
    }
    size_t length = strlen(url);
    if (length == 0 || length >= sizeof(world->store_url)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the environment variable TUTTI_STORE has %zu bytes; it must have 1..%zu", length,
                             sizeof(world->store_url) - 1);
    }
    memcpy(world->store_url, url, length + 1);
    world->serve = world->rank == 0 && strncmp(url, "tcp://", 6) == 0;
    return TUTTI_OK;
}

static tutti_status read_family(const struct family *family, bool has_store, struct tti_world *world,
                                tutti_error *error)
{
    world->family = family->name;
    tutti_status status = read_global(family, world, error);
    if (status == TUTTI_OK) {
        status = read_local(family, world, error);
    }
    if (status == TUTTI_OK) {
        status = read_store(world, error);
    }
    if (status == TUTTI_OK && world->size > 1 && world->store_url[0] == '\0' && !has_store) {
        status = family->choose_store(world, error);
    }
    return status;
}

/* Torchrun's and Open MPI's variables, each of them from either; false if rank or size is still missing. The store is
 * chosen as for torchrun if MASTER_ADDR is set, else as for Open MPI. */
static bool complete(struct family *mixed)
{
    const struct family *base = is_set("MASTER_ADDR") ? TORCHRUN : OPENMPI;
    *mixed = (struct family){.name = base->name, .choose_store = base->choose_store};
    mixed->rank = rank_of(TORCHRUN) ? rank_of(TORCHRUN) : OPENMPI->rank;
    mixed->size = is_set(TORCHRUN->size) ? TORCHRUN->size : OPENMPI->size;
    mixed->local_rank = is_set(TORCHRUN->local_rank) ? TORCHRUN->local_rank : OPENMPI->local_rank;
    mixed->local_size = is_set(TORCHRUN->local_size) ? TORCHRUN->local_size : OPENMPI->local_size;
    return is_set(mixed->rank) && is_set(mixed->size);
}

/* The family that counts, perhaps *mixed; NULL: no launcher has started this process. */
static const struct family *choose_family(struct family *mixed)
{
    const struct family *first = families;
    while (first < END && !is_present(first)) {
        first++;
    }
    if (first == END || first == OWN || is_whole(first)) {
        return first < END ? first : NULL;
    }
    for (const struct family *family = first; family < END && is_half(first); family++) {
        if (is_whole(family)) {
            return family;
        }
    }
    return is_half(first) && complete(mixed) ? mixed : first;
}

/* A family with rank or size only, before the one that counts: it must not contradict that one. WORLD_RANK is not
 * compared. */
static tutti_status compare_half(const struct family *half, const struct family *whole, const struct tti_world *world,
                                 tutti_error *error)
{
    int rank = world->rank;
    int size = world->size;
    tutti_status status = read_number(half->rank, 0, INT_MAX, &rank, error);
    if (status == TUTTI_OK) {
        status = read_number(half->size, 1, INT_MAX, &size, error);
    }
    if (status != TUTTI_OK || (rank == world->rank && size == world->size)) {
        return status;
    }
    return rank != world->rank
               ? tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is %d, but %s is %d: set %s as well, or unset %s",
                               half->rank, rank, rank_of(whole), world->rank, half->size, half->rank)
               : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s is %d, but %s is %d: set %s as well, or unset %s",
                               half->size, size, whole->size, world->size, half->rank, half->size);
}

tutti_status tti_world_from_environment(bool has_store, struct tti_world *world, tutti_error *error)
{
    struct tti_world found = {.rank = 0, .size = 1, .local_rank = -1, .local_size = -1, .family = "none"};
    tutti_status status = TUTTI_OK;
    struct family completed;
    const struct family *family = choose_family(&completed);
    if (family) {
        status = read_family(family, has_store, &found, error);
    }
    for (const struct family *half = families; family && family != &completed && half < family; half++) {
        status = status == TUTTI_OK && is_half(half) ? compare_half(half, family, &found, error) : status;
    }
    if (!family) {
        found.local_rank = 0;
        found.local_size = 1;
        status = read_store(&found, error);
    }
    if (status == TUTTI_OK) {
        *world = found;
        tti_error_clear(error);
    }
    return status;
}
