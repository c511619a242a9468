/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a program as the shell does, and why it cannot be executed. */
#ifndef TOOLS_COMMON_PROGRAM_H
#define TOOLS_COMMON_PROGRAM_H

#include <stddef.h>

/* Finds the program in PATH. Returns 0 and an allocated path, or the exit code and a sentence in `why`. */
int tti_find_program(const char *name, char **path, char *why, size_t capacity);

/* 0 if the file can be executed, else an errno: ENOENT, EACCES, EISDIR, ... */
int tti_check_program(const char *path);

/* Why the program cannot be executed, from an errno: the exit code, and a sentence in `why`. */
int tti_explain_program(const char *name, int errnum, char *why, size_t capacity);

#endif
