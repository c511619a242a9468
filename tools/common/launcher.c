/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the ranks of a sub-command come from. Inside a launcher's job every process is one rank. Alone, a sub-command
 * makes its ranks itself: as threads for backends of that kind, else by becoming `tutti run` on itself.
 */
#include "common/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <tutti/backend.h>
#include <unistd.h>

#include "base/host/cpu.h"
#include "common/devices.h"
#include "common/program.h"
#include "tools.h"

bool tti_in_launcher(void)
{
    /* A rank number, and a variable that a rank has beside it: a shell that is no rank may have one of them. The
     * library reads other variables (core/launchers/world.c) in two families. PMIx may set no size: the library then
     * says so, but a tool that took this process for none of PMIx's ranks would start new ranks in each of them. Slurm
     * may set rank number and size in a batch script, too, which is no rank and has no step. */
    static const char *const pairs[][2] = {
        {"TUTTI_RANK", "TUTTI_WORLD_SIZE"}, {"RANK", "WORLD_SIZE"},
        {"WORLD_RANK", "WORLD_SIZE"},       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},           {"PMIX_RANK", "PMIX_NAMESPACE"},
        {"SLURM_PROCID", "SLURM_STEP_ID"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (getenv(pairs[i][0]) && getenv(pairs[i][1])) {
            return true;
        }
    }
    return false;
}

int tti_default_ranks(void)
{
    const int cpus = (int)tti_cpu_count();
    return cpus < 2 ? 2 : cpus;
}

bool tti_backend_usable(const char *tool, const char *name)
{
    char why[256] = "";
    if (!name || strchr(name, ':') || strcmp(name, "auto") == 0) {
        return true;
    }
    const tutti_backend *backend = tutti_backend_find(name);
    if (!backend) {
        fprintf(stderr, "%s: there is no backend '%s'; known are", tool, name);
        for (size_t i = 0; (backend = tutti_backend_at(i)) != NULL; i++) {
            fprintf(stderr, "%s%s", i == 0 ? " " : ", ", backend->name);
        }
        fprintf(stderr, "\n");
        return false;
    }
    if (!tutti_backend_available(backend, why, sizeof(why))) {
        fprintf(stderr, "%s: the backend '%s' is not available here: %s\n", tool, name, why);
        return false;
    }
    return true;
}

bool tti_backend_has_threads(const char *name)
{
    const tutti_backend *backend = name ? tutti_backend_find(name) : NULL;
    return backend && (backend->capabilities & TUTTI_CAP_ONE_PROCESS) != 0;
}

/* The file of this program; not to be freed. Without /proc it is searched for by the argument that started it. NULL:
 * not found. */
static const char *self_path(void)
{
    static char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[length > 0 ? length : 0] = '\0';
    if (length > 0) {
        if (access(self, X_OK) != 0) {
            snprintf(self, sizeof(self), "/proc/self/exe"); /* replaced while it runs: start the old one */
        }
        return self;
    }
    const char *executed = (const char *)getauxval(AT_EXECFN); /* what the kernel was asked to start */
    char *found = NULL;
    char why[512];
    const bool good = (executed && tti_find_program(executed, &found, why, sizeof(why)) == 0) ||
                      tti_find_program(program_invocation_name, &found, why, sizeof(why)) == 0;
    return good ? found : NULL;
}

struct threads {
    tti_rank_function *run;
    const void *options;
    atomic_int failed; /* relaxed: read after the threads were joined */
};

static tutti_status run_thread(tutti_group *group, void *user)
{
    struct threads *threads = user;
    if (threads->run(group, threads->options) != 0) {
        atomic_store_explicit(&threads->failed, 1, memory_order_relaxed);
    }
    return TUTTI_OK;
}

int tti_run_as_threads(const char *tool, int ranks, tti_rank_function *run, const void *options)
{
    struct threads threads = {.run = run, .options = options};
    tutti_error error;
    if (tutti_run_threads(ranks, run_thread, &threads, &error) != TUTTI_OK) {
        fprintf(stderr, "%s: cannot run %d ranks as threads: %s\n", tool, ranks, error.message);
        return 1;
    }
    return atomic_load_explicit(&threads.failed, memory_order_relaxed) != 0;
}

int tti_run_as_rank(const char *tool, int ranks, tutti_config config, const char *device, tti_rank_function *run,
                    const void *options)
{
    tutti_group *world = NULL;
    tutti_error error;
    char text[32];
    const char *settings[2];
    tti_device_settings(device, text, settings);
    config.settings = settings;
    if (tutti_init(&config, &world, &error) != TUTTI_OK) {
        fprintf(stderr, "%s: cannot join the job: %s\n", tool, error.message);
        return 1;
    }
    const int size = tutti_group_size(world);
    int code = TTI_EXIT_USAGE;
    if (ranks == 0 || ranks == size) {
        code = run(world, options);
    } else if (tutti_group_rank(world) == 0) {
        fprintf(stderr, "%s: -n %d, but the launcher has started %d ranks: leave out -n\n", tool, ranks, size);
    }
    if (code == TTI_EXIT_USAGE) {
        tutti_barrier(world, NULL); /* a launcher ends a job when its first rank fails: rank 0 has to speak before */
    }
    tutti_group_destroy(world, NULL);
    tutti_finalize(NULL);
    return code;
}

int tti_launch_self(const char *command, int ranks, const char *const *arguments)
{
    const char *const self = self_path();
    char number[16];
    if (!self) {
        fprintf(stderr,
                "tutti %s: cannot find the program tutti, which starts the ranks (`tutti run`): there is no "
                "/proc/self/exe, and '%s', as this one was started, leads to no program; start it by its full path\n",
                command, program_invocation_name);
        return 1;
    }
    snprintf(number, sizeof(number), "%d", ranks);
    const char *const first[] = {self, "run", "-n", number, "--no-prefix", "--", self, command};
    const size_t ours = sizeof(first) / sizeof(first[0]);
    size_t count = 0;
    while (arguments[count]) {
        count++;
    }
    const char **all = calloc(ours + count + 1, sizeof(*all));
    if (!all) {
        fprintf(stderr, "tutti %s: out of memory\n", command);
        return 1;
    }
    memcpy(all, first, sizeof(first));
    memcpy(all + ours, arguments, count * sizeof(*all));
    unsetenv("TUTTI_STORE"); /* of another job: `tutti run` would refuse it */
    execv(self, (char *const *)all);
    fprintf(stderr, "tutti %s: cannot start %s run: %s\n", command, self, strerror(errno));
    free(all);
    return 1;
}
