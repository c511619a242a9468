/* SPDX-License-Identifier: BSD-3-Clause */
/* Environment variables TUTTI_... that no part of Tutti reads: see variables.c. */
#ifndef TTI_CORE_SETTINGS_VARIABLES_H
#define TTI_CORE_SETTINGS_VARIABLES_H

#include <stddef.h>

/* Appends the name in NAME=VALUE to the list in `text`, if it is unknown, with the nearest known name. */
void tti_add_unknown_variable(const char *assignment, char *text, size_t capacity);

/* The list of this process's environment; "" if all are known. What does not fit is cut off. */
void tti_unknown_variables(char *text, size_t capacity);

#endif
