/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi: the front of the plug-in. The library itself is not linked to MPI. When a group wants MPI, this file chooses the
 * library (choose.c), opens the plug-in file for its binary interface, and takes over the plug-in's functions. So a
 * call costs no more than one of a built-in backend.
 */
#include "backends/mpi/mpi.h"

#include <stdio.h>

#include "backends/mpi/choose.h"
#include "backends/plugin_file.h"
#include "backends/plugin_front.h"

static int32_t available(char *why, size_t capacity);
static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error);

static tutti_backend_ops ops = TTI_PLUGIN_FRONT_OPS(available, open_group);

const tutti_backend tti_backend_mpi = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "mpi",
    .priority = 50,
    .capabilities = TUTTI_CAP_ASK_LATE,
    .ops = &ops,
};

static struct tti_mpi_choice choice;

static bool find_file(char path[PATH_MAX], char *why, size_t capacity)
{
    if (!tti_mpi_choose(&choice)) {
        snprintf(why, capacity, "%s", choice.reason);
        return false;
    }
    char name[64];
    char searched[512];
    snprintf(name, sizeof(name), "tutti-mpi-%s.so", choice.flavour);
    if (!tti_plugin_find(name, path, PATH_MAX, searched, sizeof(searched))) {
        snprintf(why, capacity, "%s, but there is no file %s in %s", choice.reason, name, searched);
        return false;
    }
    return tti_mpi_open_library(&choice, why, capacity);
}

static struct tti_plugin_front front = {.backend = "mpi", .ops = &ops, .find = find_file};

static int32_t available(char *why, size_t capacity)
{
    char text[1024] = "";
    const tutti_backend *found = tti_plugin_get(&front, text, sizeof(text));
    if (!found) {
        snprintf(why, capacity, "%s", text);
        return 0;
    }
    int32_t yes = found->ops->available(text, sizeof(text));
    if (yes == 1 && !choice.launched && !tti_mpi_is_running()) {
        /* MPI_Init could end the process, since the library finds no daemon of the launcher */
        snprintf(why, capacity,
                 "%s, but it is not initialised, and no launcher of MPI jobs has started this process; use mpirun or "
                 "mpiexec",
                 choice.reason);
        return 0;
    }
    snprintf(why, capacity, yes == 1 ? "%s; %s" : "%s", text, choice.reason);
    return yes == 1;
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    return tti_plugin_open_group(&front, info, state, error);
}
