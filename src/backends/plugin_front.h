/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend that a plug-in file carries out. */
#ifndef TTI_BACKENDS_PLUGIN_FRONT_H
#define TTI_BACKENDS_PLUGIN_FRONT_H

#include <limits.h>
#include <stdbool.h>
#include <tutti/backend.h>

struct tti_plugin_front {
    const char *backend;    /* "gloo" */
    tutti_backend_ops *ops; /* its table: stubs until the plug-in is open, then the functions of the plug-in */
    /* Writes the file's path, once all that the file needs is loaded. False with the reason. */
    bool (*find)(char path[PATH_MAX], char *why, size_t capacity);
    const tutti_backend *plugin; /* written by tti_plugin_get */
};

/* Returns front->plugin. The first call opens the file for the life of the process, checks that it was built for this
 * ABI, and replaces the stubs. NULL with the reason. One lock serves the plug-ins of all backends, since loading one
 * changes the dynamic loader's list of libraries, and a search for another reads it. A fork waits for that lock. The
 * plug-in for PMIx, which is no backend, has a lock of its own (core/launchers/pmix.c). */
const tutti_backend *tti_plugin_get(struct tti_plugin_front *front, char *why, size_t capacity);

/* tutti_backend_ops.open of the front. */
tutti_status tti_plugin_open_group(struct tti_plugin_front *front, const tutti_open_info *info, void **state,
                                   tutti_error *error);

/* The stubs until the plug-in is open. There is no group yet to call them. */
const char *tti_plugin_stub_supports(void *state, const tutti_op *op);
tutti_status tti_plugin_stub_run(void *state, tutti_op *op, tutti_error *error);
void tti_plugin_stub_close(void *state);

/* The table of a backend in front of a plug-in. Loading the plug-in, before the first group, replaces all functions but
 * these two. */
#define TTI_PLUGIN_FRONT_OPS(AVAILABLE, OPEN)                                                                          \
    {                                                                                                                  \
        .size = sizeof(tutti_backend_ops), .available = (AVAILABLE), .open = (OPEN), .close = tti_plugin_stub_close,   \
        .supports = tti_plugin_stub_supports, .run = tti_plugin_stub_run,                                              \
    }

#endif
