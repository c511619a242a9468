/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the ranks come from. Inside a launcher's job every process is one rank. Alone, `tutti check` makes its ranks
 * itself: as threads for the backend `local`, else by becoming `tutti run` on itself, which then starts the ranks.
 */
#include "check/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/devices.h"
#include "common/launcher.h"

/* Set for the ranks of our own `tutti run`: "terminal" if rank 0 may draw a progress line, else "pipe". */
#define STARTED "TUTTI_CHECK_STARTED"

static bool run_thread(tutti_group *group, const void *options)
{
    return tti_check_rank(options, group);
}

int tti_check_run_threads(const struct tti_check_options *options)
{
    return tti_run_as_threads("tutti check", options->ranks, run_thread, options);
}

int tti_check_join(const struct tti_check_options *options)
{
    tutti_group *world = NULL;
    tutti_error error;
    char text[32];
    const char *settings[2];
    tti_device_settings(options->device, text, settings);
    if (tutti_init(TUTTI_CONFIG(.backend = options->backend, .timeout_ms = options->timeout_ms, .settings = settings),
                   &world, &error) != TUTTI_OK) {
        fprintf(stderr, "tutti check: cannot join the job: %s\n", error.message);
        return 1;
    }
    if (options->ranks > 0 && options->ranks != tutti_group_size(world)) {
        fprintf(stderr, "tutti check: -n %d, but the launcher has started %d ranks: leave out -n\n", options->ranks,
                tutti_group_size(world));
        tutti_finalize(NULL);
        return 2;
    }
    const bool passed = tti_check_rank(options, world);
    tutti_group_destroy(world, NULL);
    tutti_finalize(NULL);
    return passed ? 0 : 1;
}

int tti_check_launch(const struct tti_check_options *options, char **words)
{
    if (getenv(STARTED)) {
        fprintf(stderr, "tutti check: %s is set, but nothing says which rank this is: unset it\n", STARTED);
        return 2;
    }
    setenv(STARTED, isatty(STDOUT_FILENO) == 1 ? "terminal" : "pipe", 1);
    return tti_launch_self("check", options->ranks, (const char *const *)words);
}
