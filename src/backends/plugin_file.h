/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the plug-in files that belong to Tutti are. */
#ifndef TTI_BACKENDS_PLUGIN_FILE_H
#define TTI_BACKENDS_PLUGIN_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the file `name` in the folders of TUTTI_PLUGIN_PATH (separated by colons). If that is not set, the folders are
 * beside the library or program that contains this code: tutti/plugins (installed library), lib/tutti/plugins (build
 * tree), and the library folder of an installed program. False: there is no such file, and `searched` lists the
 * folders.
 */
bool tti_plugin_find(const char *name, char *path, size_t capacity, char *searched, size_t searched_capacity);

#endif
