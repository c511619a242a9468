/* SPDX-License-Identifier: BSD-3-Clause */
/* Plug-in files that belong to Tutti: where they are, and how they are opened. */
#ifndef TTI_BACKENDS_PLUGIN_H
#define TTI_BACKENDS_PLUGIN_H

#include <stdbool.h>
#include <tutti/backend.h>

/*
 * Finds the file `name`: in the folders of TUTTI_PLUGIN_PATH (separated by colons), and if that is not set beside the library or
 * program that this code is part of: tutti/plugins (installed library), lib/tutti/plugins (build tree) and the folder of
 * libraries of an installed program. False: `looked` says in which folders it is not.
 */
bool tti_plugin_find(const char *name, char *path, size_t capacity, char *searched, size_t searched_capacity);

/* Opens the file, which stays open for the life of the process, and checks that it was built for this interface. NULL with
 * the reason. */
const tutti_backend *tti_plugin_open(const char *path, char *why, size_t capacity);

/* *plugin, which `load` finds if nobody has found it before; NULL with the reason. All plug-ins go through one lock: what a
 * plug-in brings along is the dynamic loader's, which others look through meanwhile. */
typedef const tutti_backend *(*tti_plugin_load)(char *why, size_t capacity);
const tutti_backend *tti_plugin_get(const tutti_backend **plugin, tti_plugin_load load, char *why, size_t capacity);

/* What stands in the table of a backend in front of a plug-in until that is there. Nobody has a group to call them with. */
const char *tti_plugin_stub_supports(void *state, const tutti_op *op);
tutti_status tti_plugin_stub_run(void *state, tutti_op *op, tutti_error *error);
void tti_plugin_stub_close(void *state);

/* Fills the table of a backend in front of a plug-in with the functions of that, but for `available` and `open`: they are its own,
 * and other threads may be on the way into them. All others are called after one of these two has returned. */
void tti_plugin_install_ops(tutti_backend_ops *front, const tutti_backend_ops *plugin);

#endif
