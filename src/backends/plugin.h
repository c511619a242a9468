/* SPDX-License-Identifier: BSD-3-Clause */
/* Plug-in files that belong to Tutti: finding and opening them. */
#ifndef TTI_BACKENDS_PLUGIN_H
#define TTI_BACKENDS_PLUGIN_H

#include <stdbool.h>
#include <tutti/backend.h>

/*
 * Finds the file `name` in the folders of TUTTI_PLUGIN_PATH (separated by colons). If that is not set, the folders are
 * beside the library or program that contains this code: tutti/plugins (installed library), lib/tutti/plugins (build
 * tree), and the library folder of an installed program. False: there is no such file, and `searched` lists the
 * folders.
 */
bool tti_plugin_find(const char *name, char *path, size_t capacity, char *searched, size_t searched_capacity);

/* Opens the file for the life of the process, and checks that it was built for this ABI. NULL with the reason. */
const tutti_backend *tti_plugin_open(const char *path, char *why, size_t capacity);

/* Returns *plugin; the first call sets it with `load`. NULL with the reason. One lock serves all plug-ins, since
 * loading one changes the dynamic loader's list of libraries, and loading another reads it. */
typedef const tutti_backend *(*tti_plugin_load)(char *why, size_t capacity);
const tutti_backend *tti_plugin_get(const tutti_backend **plugin, tti_plugin_load load, char *why, size_t capacity);

/* The stubs in the table of a backend in front of a plug-in, until the plug-in is open. There is no group yet to call
 * them. */
const char *tti_plugin_stub_supports(void *state, const tutti_op *op);
tutti_status tti_plugin_stub_run(void *state, tutti_op *op, tutti_error *error);
void tti_plugin_stub_close(void *state);

/* Replaces the stubs by the functions of the plug-in. `available` and `open` stay those of the front: other threads may
 * be about to call them. All other functions are called only after one of these two has returned. */
void tti_plugin_install_ops(tutti_backend_ops *front, const tutti_backend_ops *plugin);

#endif
