/* SPDX-License-Identifier: BSD-3-Clause */
/* The world from the environment: every family, every malformed value, contradictions, the order of families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/launchers/world.h"
#include "store/store.h"

extern char **environ;

static const char *const prefixes[] = {"TUTTI_",        "OMPI_", "PMI",    "MPI_",   "SLURM_", "MASTER_",
                                       "TORCHELASTIC_", "RANK=", "WORLD_", "LOCAL_", NULL};

static void forget_all(void)
{
    for (char **entry = environ; *entry;) {
        const char *const *prefix = prefixes;
        while (*prefix && strncmp(*entry, *prefix, strlen(*prefix)) != 0) {
            prefix++;
        }
        char *end = strchr(*entry, '=');
        if (*prefix && end) {
            char name[128];
            snprintf(name, sizeof(name), "%.*s", (int)(end - *entry), *entry);
            unsetenv(name);
            entry = environ;
        } else {
            entry++;
        }
    }
}

/* Starts from an empty environment and sets "NAME=value" strings, closed by NULL. */
static void environment(const char *first, ...)
{
    forget_all();
    va_list args;
    va_start(args, first);
    for (const char *entry = first; entry; entry = va_arg(args, const char *)) {
        char name[128];
        const char *end = strchr(entry, '=');
        snprintf(name, sizeof(name), "%.*s", (int)(end - entry), entry);
        setenv(name, end + 1, 1);
    }
    va_end(args);
}

static struct tti_world expect_world(const char *family, int rank, int size, int local_rank, int local_size)
{
    struct tti_world world;
    tutti_error error;
    memset(&world, 0x5a, sizeof(world));
    if (tti_world_from_environment(false, &world, &error) != TUTTI_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(error.status, TUTTI_OK);
    assert_string_equal(world.family, family);
    assert_int_equal(world.rank, rank);
    assert_int_equal(world.size, size);
    assert_int_equal(world.local_rank, local_rank);
    assert_int_equal(world.local_size, local_size);
    return world;
}

/* INVALID_ARGUMENT with every one of `words` in its sentence, and the world untouched. */
static void expect_refused(const char *first, ...)
{
    struct tti_world world = {.rank = 77, .size = 78};
    tutti_error error;
    tutti_status status = tti_world_from_environment(false, &world, &error);
    if (status != TUTTI_INVALID_ARGUMENT) {
        fail_msg("status %s for the case of \"%s\"", tutti_status_name(status), first);
    }
    assert_int_equal(world.rank, 77);
    assert_int_equal(world.size, 78);
    va_list args;
    va_start(args, first);
    for (const char *word = first; word; word = va_arg(args, const char *)) {
        if (!strstr(error.message, word)) {
            fail_msg("\"%s\" is not in: %s", word, error.message);
        }
    }
    va_end(args);
}

static void nothing_is_a_world_of_one(void **state)
{
    (void)state;
    environment(NULL);
    struct tti_world world = expect_world("none", 0, 1, 0, 1);
    assert_string_equal(world.store_url, "");
    environment("TUTTI_STORE=unix:somewhere", NULL);
    world = expect_world("none", 0, 1, 0, 1);
    assert_string_equal(world.store_url, "unix:somewhere");
    environment("LOCAL_RANK=3", "MASTER_ADDR=host", "SLURM_NTASKS=4", "PMIX_NAMESPACE=x", NULL); /* no rank, no size */
    expect_world("none", 0, 1, 0, 1);
}

static void tutti_family(void **state)
{
    (void)state;
    environment("TUTTI_RANK=2", "TUTTI_WORLD_SIZE=4", "TUTTI_LOCAL_RANK=0", "TUTTI_LOCAL_WORLD_SIZE=2",
                "TUTTI_STORE=tcp://host:1234", NULL);
    struct tti_world world = expect_world("tutti", 2, 4, 0, 2);
    assert_string_equal(world.store_url, "tcp://host:1234");
    assert_false(world.serve);
    setenv("TUTTI_RANK", "0", 1);
    world = expect_world("tutti", 0, 4, 0, 2);
    assert_true(world.serve);
    setenv("TUTTI_STORE", "unix:name", 1);
    world = expect_world("tutti", 0, 4, 0, 2);
    assert_false(world.serve);
    environment("TUTTI_RANK=0", "TUTTI_WORLD_SIZE=1", NULL);
    world = expect_world("tutti", 0, 1, -1, -1);
    assert_string_equal(world.store_url, "");
    environment("TUTTI_RANK=1", "TUTTI_WORLD_SIZE=2", NULL);
    expect_refused("TUTTI_STORE", NULL);
    setenv("TUTTI_STORE", "", 1);
    expect_refused("TUTTI_STORE", NULL);
    char url[400];
    memset(url, 'u', sizeof(url));
    url[sizeof(url) - 1] = '\0';
    setenv("TUTTI_STORE", url, 1);
    expect_refused("TUTTI_STORE", NULL);
    url[299] = '\0';
    setenv("TUTTI_STORE", url, 1);
    world = expect_world("tutti", 1, 2, -1, -1);
    assert_string_equal(world.store_url, url);
}

static void torchrun_family(void **state)
{
    (void)state;
    environment("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0", NULL);
    struct tti_world first = expect_world("torchrun", 1, 2, 1, 2);
    assert_memory_equal(first.store_url, "unix:torchrun-29500-", 20);
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    assert_string_equal(expect_world("torchrun", 0, 2, 0, 2).store_url, first.store_url); /* ranks agree */
    static const char *const other[][2] = {{"MASTER_PORT", "29501"},
                                           {"MASTER_ADDR", "127.0.0.2"},
                                           {"TORCHELASTIC_RUN_ID", "other"},
                                           {"TORCHELASTIC_RESTART_COUNT", "1"}};
    for (int i = 0; i < 4; i++) { /* other jobs, and restarts of this one, do not */
        char before[64];
        snprintf(before, sizeof(before), "%s", getenv(other[i][0]));
        setenv(other[i][0], other[i][1], 1);
        assert_string_not_equal(expect_world("torchrun", 0, 2, 0, 2).store_url, first.store_url);
        setenv(other[i][0], before, 1);
    }
    environment("WORLD_RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1", NULL);
    assert_memory_equal(expect_world("torchrun", 1, 2, -1, -1).store_url, "tcp://h:", 8); /* perhaps several hosts */
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    for (int i = 0; i < 3; i++) {
        setenv("MASTER_ADDR", own[i], 1);
        assert_memory_equal(expect_world("torchrun", 1, 2, -1, -1).store_url, "unix:", 5);
    }
    setenv("RANK", "1", 1);
    expect_world("torchrun", 1, 2, -1, -1);
    setenv("RANK", "0", 1);
    expect_refused("RANK", "WORLD_RANK", NULL);
    environment("RANK=0", "WORLD_SIZE=2", NULL);
    expect_refused("MASTER_ADDR", "TUTTI_STORE", NULL);
    setenv("MASTER_ADDR", "host", 1);
    expect_refused("MASTER_PORT", "TUTTI_STORE", NULL);
    static const char *const ports[] = {"0", "65536", "-1", "", "http", "29500 "};
    for (int i = 0; i < 6; i++) {
        setenv("MASTER_PORT", ports[i], 1);
        expect_refused("MASTER_PORT", ports[i], NULL);
    }
    setenv("MASTER_PORT", "29500", 1);
    static const char *const addresses[] = {"", "a b", "host/path", "host\n", "[::1]"};
    for (int i = 0; i < 5; i++) {
        setenv("MASTER_ADDR", addresses[i], 1);
        expect_refused("MASTER_ADDR", addresses[i], NULL);
    }
    setenv("TUTTI_STORE", "file:/some/where", 1); /* the store is named: MASTER_ADDR and MASTER_PORT are not needed */
    assert_string_equal(expect_world("torchrun", 0, 2, -1, -1).store_url, "file:/some/where");
}

static void torchrun_on_several_hosts(void **state)
{
    (void)state;
    environment("RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=node0",
                "MASTER_PORT=29500", "TORCHELASTIC_USE_AGENT_STORE=True", NULL);
    struct tti_world world = expect_world("torchrun", 0, 4, 0, 2);
    assert_memory_equal(world.store_url, "tcp://node0:6", 13);
    assert_null(strstr(world.store_url, "29500")); /* never torch's own port */
    assert_true(world.serve);
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1); /* a restart uses another store */
    assert_string_not_equal(expect_world("torchrun", 0, 4, 0, 2).store_url, world.store_url);
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    setenv("RANK", "2", 1);
    struct tti_world other = expect_world("torchrun", 2, 4, 0, 2);
    assert_string_equal(other.store_url, world.store_url);
    assert_false(other.serve);
    for (int port = 61000; port < 65500; port++) { /* whatever it is: other ports are taken then */
        char text[16];
        snprintf(text, sizeof(text), "%d", port);
        setenv("MASTER_PORT", text, 1);
        world = expect_world("torchrun", 2, 4, 0, 2);
        int commas = 0;
        for (const char *at = strchr(world.store_url + 6, ':'); *at != '/'; at++) {
            if (*at == ':' || *at == ',') {
                assert_int_not_equal(strtol(at + 1, NULL, 10), port);
                assert_in_range(strtol(at + 1, NULL, 10), 61000, 65499);
                commas += *at == ',';
            }
        }
        assert_int_equal(commas, 3);
    }
    setenv("MASTER_ADDR", "fd00::2", 1);
    assert_memory_equal(expect_world("torchrun", 2, 4, 0, 2).store_url, "tcp://[fd00::2]:6", 17);
}

static void slurm_on_several_hosts(void **state)
{
    (void)state;
    environment("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_JOB_ID=99", "SLURM_STEP_ID=1",
                "SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=0", NULL);
    expect_refused("SLURM_STEP_NODELIST", "TUTTI_STORE", NULL);
    static const char *const lists[][2] = {{"node[01-04,07],gpu3", "tcp://node01:6"},
                                           {"a,b", "tcp://a:6"},
                                           {"rack[2]node[7-8].cluster", "tcp://rack2node7.cluster:6"},
                                           {"gpu-1.example.org", "tcp://gpu-1.example.org:6"}};
    for (int i = 0; i < 4; i++) {
        setenv("SLURM_STEP_NODELIST", lists[i][0], 1);
        struct tti_world world = expect_world("slurm", 0, 4, 0, -1);
        assert_memory_equal(world.store_url, lists[i][1], strlen(lists[i][1]));
        assert_true(world.serve);
    }
    setenv("PMI_RANK", "0", 1); /* srun --mpi=pmi2 */
    setenv("PMI_SIZE", "4", 1);
    setenv("PMI_JOBID", "99.1", 1);
    expect_world("slurm", 0, 4, 0, -1);
    setenv("PMI_SIZE", "8", 1); /* a process manager that started its proxies by srun */
    assert_memory_equal(expect_world("hydra", 0, 8, -1, -1).store_url, "unix:hydra-", 11);
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
    unsetenv("PMI_JOBID");
    static const char *const broken[] = {"", "node[", "node[]", "node[a-b]", "a/b", ","};
    for (int i = 0; i < 6; i++) {
        setenv("SLURM_STEP_NODELIST", broken[i], 1);
        expect_refused("SLURM_STEP_NODELIST", "TUTTI_STORE", NULL);
    }
    setenv("SLURM_STEP_NODELIST", "node[1-2]", 1);
    setenv("SLURM_NODEID", "1", 1); /* of rank 0 */
    expect_refused("SLURM_STEP_NODELIST", "TUTTI_STORE", NULL);
    setenv("SLURM_PROCID", "2", 1);
    assert_false(expect_world("slurm", 2, 4, 0, -1).serve);
}

static void openmpi_family(void **state)
{
    (void)state;
    environment("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_LOCAL_SIZE=3", "PMIX_NAMESPACE=1976762369", "PMIX_RANK=1",
                "OMPI_MCA_orte_precondition_transports=fa38-03eb", NULL);
    struct tti_world world = expect_world("openmpi", 1, 3, 1, 3);
    assert_memory_equal(world.store_url, "unix:openmpi-1976762369-", 24);
    setenv("OMPI_MCA_orte_precondition_transports", "fa38-03ec", 1); /* the same namespace in a later job */
    assert_string_not_equal(expect_world("openmpi", 1, 3, 1, 3).store_url, world.store_url);
    unsetenv("PMIX_NAMESPACE");
    expect_refused("PMIX_NAMESPACE", "TUTTI_STORE", NULL);
    setenv("OMPI_MCA_ess_base_jobid", "42", 1);
    expect_world("openmpi", 1, 3, 1, 3);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    expect_refused("several hosts", "TUTTI_STORE", NULL);
    setenv("TUTTI_STORE", "tcp://a:1", 1);
    expect_world("openmpi", 1, 3, 1, 2);
}

static void hydra_family(void **state)
{
    (void)state;
    /* The other end of PMI_FD belongs to an ancestor of the ranks, as with hydra's proxy. */
    int pair[2];
    char fd[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    snprintf(fd, sizeof(fd), "%d", pair[0]);
    environment("PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "PMI_JOBID=12.3", NULL);
    struct tti_world world = expect_world("hydra", 1, 2, 1, 2);
    assert_memory_equal(world.store_url, "unix:hydra-12.3-", 16);
    setenv("PMI_JOBID", "12.4", 1);
    assert_string_not_equal(expect_world("hydra", 1, 2, 1, 2).store_url, world.store_url);
    environment("PMI_RANK=1", "PMI_SIZE=2", "PMI_PORT=host:1234", NULL);
    assert_memory_equal(expect_world("hydra", 1, 2, -1, -1).store_url, "unix:hydra-", 11);
    environment("PMI_ID=0", "PMI_PORT=host:1234", NULL); /* mpiexec -pmi-port */
    expect_refused("PMI_RANK", NULL);
    environment("PMI_RANK=1", "PMI_SIZE=3", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", NULL);
    expect_refused("several hosts", "TUTTI_STORE", NULL);
    environment("PMI_RANK=1", "PMI_SIZE=2", NULL);
    setenv("PMI_FD", fd, 1);
    pid_t child = fork();
    if (child == 0) {
        struct tti_world inside;
        char expected[64];
        snprintf(expected, sizeof(expected), "unix:hydra-%d_", (int)getppid());
        bool right = tti_world_from_environment(false, &inside, NULL) == TUTTI_OK &&
                     strncmp(inside.store_url, expected, strlen(expected)) == 0;
        static const char *const bad[] = {"", "x", "-1", "999999", "0x1", "99999999999999999999"};
        for (int i = 0; i < 6 && right; i++) {
            setenv("PMI_FD", bad[i], 1);
            tutti_status status = tti_world_from_environment(false, &inside, NULL); /* no proxy is found either */
            right = status == TUTTI_INVALID_ARGUMENT || strncmp(inside.store_url, expected, strlen(expected)) != 0;
        }
        _exit(right ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(pair[0]);
    close(pair[1]);
}

static void pmix_family(void **state)
{
    (void)state;
    environment("PMIX_RANK=1", "PMIX_SIZE=2", "PMIX_NAMESPACE=job.1", NULL);
    assert_memory_equal(expect_world("pmix", 1, 2, -1, -1).store_url, "unix:pmix-job.1-", 16);
    environment("PMIX_RANK=1", "PMIX_NAMESPACE=job.1", NULL);
    expect_refused("PMIX_SIZE", "PMIX_RANK", NULL);
    environment("PMIX_RANK=1", "PMIX_SIZE=2", NULL);
    expect_refused("PMIX_NAMESPACE", "TUTTI_STORE", NULL);
    /* srun --mpi=pmix: Slurm's variables are complete, PMIx's are not */
    environment("PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1",
                "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", NULL);
    expect_world("slurm", 1, 2, 1, -1);
}

static void slurm_family(void **state)
{
    (void)state;
    environment("SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=3", "SLURM_JOB_ID=99", "SLURM_STEP_ID=1",
                "SLURM_NNODES=1", NULL);
    struct tti_world world = expect_world("slurm", 3, 4, 3, -1);
    assert_memory_equal(world.store_url, "unix:slurm-99-", 14);
    setenv("SLURM_STEP_ID", "2", 1);
    assert_string_not_equal(expect_world("slurm", 3, 4, 3, -1).store_url, world.store_url);
    setenv("SLURM_STEP_NUM_NODES", "2", 1);
    expect_refused("several hosts", "TUTTI_STORE", NULL);
    setenv("SLURM_STEP_NUM_NODES", "two", 1);
    expect_refused("SLURM_STEP_NUM_NODES", "two", NULL);
    unsetenv("SLURM_STEP_NUM_NODES");
    setenv("SLURM_LOCALID", "4", 1);
    expect_refused("SLURM_LOCALID", NULL);
    environment("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=99", NULL); /* a batch script */
    expect_refused("SLURM_STEP_ID", "srun", NULL);
    environment("SLURM_PROCID=0", "SLURM_JOB_ID=99", NULL); /* one that asked for no tasks */
    expect_world("none", 0, 1, 0, 1);
    environment("SLURM_NTASKS=4", "SLURM_JOB_ID=99", NULL); /* salloc */
    expect_world("none", 0, 1, 0, 1);
}

struct names {
    const char *rank;
    const char *size;
    const char *local_rank;
    const char *local_size;
};

static const struct names families[] = {
    {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_WORLD_SIZE"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"WORLD_RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
};

static void good(const struct names *family)
{
    environment("TUTTI_STORE=unix:x", NULL);
    setenv(family->rank, "1", 1);
    setenv(family->size, "4", 1);
    setenv(family->local_rank, "1", 1);
    if (family->local_size) {
        setenv(family->local_size, "2", 1);
    }
}

static void malformed_values_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "3x", "", " 3", "3 ", "-1", "+1", "1.0", "0x1", "2147483648", "99999999999999999999999", "one", "\n1"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct names *family = &families[i];
        const char *const variables[] = {family->rank, family->size, family->local_rank, family->local_size};
        struct tti_world world;
        good(family);
        assert_int_equal(tti_world_from_environment(false, &world, NULL), TUTTI_OK);
        assert_int_equal(world.rank, 1);
        assert_int_equal(world.size, 4);
        for (int k = 0; k < 4 && variables[k]; k++) {
            for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
                good(family);
                setenv(variables[k], bad[b], 1);
                expect_refused(variables[k], bad[b], NULL);
            }
        }
        good(family);
        setenv(family->size, "0", 1);
        expect_refused(family->size, "\"0\"", NULL);
    }
}

static void incomplete_and_contradicting_families_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct names *family = &families[i];
        good(family);
        unsetenv(family->size);
        expect_refused(family->size, NULL);
        if (strcmp(family->size, "SLURM_NTASKS") != 0) { /* which every batch script has */
            good(family);
            unsetenv(family->rank);
            expect_refused(strcmp(family->rank, "WORLD_RANK") == 0 ? "RANK" : family->rank, NULL);
        }
        good(family);
        setenv(family->rank, "4", 1);
        expect_refused(family->rank, family->size, "is 4", NULL);
        good(family);
        setenv(family->local_rank, family->local_size ? "2" : "4", 1);
        expect_refused(family->local_rank, family->local_size ? family->local_size : family->size, NULL);
        if (family->local_size) {
            good(family);
            setenv(family->local_size, "5", 1);
            expect_refused(family->local_size, family->size, NULL);
        }
    }
}

static void the_first_family_counts(void **state)
{
    (void)state;
    static const char *const order[] = {"tutti", "torchrun", "openmpi", "hydra", "pmix", "slurm"};
    environment("TUTTI_STORE=unix:x", "TUTTI_RANK=0", "TUTTI_WORLD_SIZE=10", "RANK=1", "WORLD_SIZE=10",
                "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=10", "PMI_RANK=3", "PMI_SIZE=10", "PMIX_RANK=4",
                "PMIX_SIZE=10", "SLURM_PROCID=5", "SLURM_NTASKS=10", NULL);
    for (int i = 0; i < 6; i++) {
        struct tti_world world;
        assert_int_equal(tti_world_from_environment(false, &world, NULL), TUTTI_OK);
        assert_string_equal(world.family, order[i]);
        assert_int_equal(world.rank, i);
        const struct names *names = &families[i == 0 ? 0 : i == 1 ? 1 : i + 1];
        /* a family that is spoilt is an error, not a reason to take the next */
        setenv(names->size, "x", 1);
        expect_refused(names->size, NULL);
        unsetenv(names->rank);
        unsetenv(names->size);
    }
}

static void names_fit_into_a_socket(void **state)
{
    (void)state;
    char longest[2000];
    memset(longest, '/', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    environment("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a.rather.long.name.of.a.host.example.org", "MASTER_PORT=65535",
                NULL);
    setenv("TORCHELASTIC_RUN_ID", longest, 1);
    struct tti_world world = expect_world("torchrun", 0, 2, -1, -1);
    struct tti_store *store = NULL;
    assert_int_equal(tti_store_open(world.store_url, world.serve, 60000, &store, NULL), TUTTI_OK);
    tti_store_release(store);
    environment("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", NULL);
    setenv("PMIX_NAMESPACE", longest, 1);
    world = expect_world("openmpi", 0, 2, -1, -1);
    assert_int_equal(tti_store_open(world.store_url, world.serve, 60000, &store, NULL), TUTTI_OK);
    tti_store_release(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_a_world_of_one),
        cmocka_unit_test(tutti_family),
        cmocka_unit_test(torchrun_family),
        cmocka_unit_test(torchrun_on_several_hosts),
        cmocka_unit_test(slurm_on_several_hosts),
        cmocka_unit_test(openmpi_family),
        cmocka_unit_test(hydra_family),
        cmocka_unit_test(pmix_family),
        cmocka_unit_test(slurm_family),
        cmocka_unit_test(malformed_values_are_named),
        cmocka_unit_test(incomplete_and_contradicting_families_are_named),
        cmocka_unit_test(the_first_family_counts),
        cmocka_unit_test(names_fit_into_a_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
