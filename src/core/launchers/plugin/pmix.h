/* SPDX-License-Identifier: BSD-3-Clause */
/* What the plug-in file tutti-pmix.so exports. */
#ifndef TTI_CORE_LAUNCHERS_PLUGIN_PMIX_H
#define TTI_CORE_LAUNCHERS_PLUGIN_PMIX_H

#include <stddef.h>

#define TTI_PMIX_FIRST_HOST "tutti_pmix_first_host"

/* Writes the name of the host of rank 0; 0, or else the reason. */
typedef int (*tti_pmix_first_host_function)(char *host, size_t capacity, char *why, size_t why_capacity);

#endif
