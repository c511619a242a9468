/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/program.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/exit_codes.h"

int tti_check_program(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0) {
        return errno;
    }
    if (S_ISDIR(facts.st_mode)) {
        return EISDIR;
    }
    return access(path, X_OK) == 0 ? 0 : errno;
}

int tti_explain_program(const char *name, int errnum, char *why, size_t capacity)
{
    const char *dot = strrchr(name, '.');
    bool python = dot && strcmp(dot, ".py") == 0;
    if (errnum == ENOENT || errnum == ENOTDIR) {
        if (!strchr(name, '/') && *name != '\0' && tti_check_program(name) == 0) {
            snprintf(why, capacity, "cannot find %s in PATH; to run the one in this directory, write ./%s", name, name);
        } else {
            snprintf(why, capacity, "cannot find the program '%s'", name);
        }
        return TTI_EXIT_NOT_FOUND;
    }
    if (errnum == EISDIR) {
        snprintf(why, capacity, "%s is a directory, not a program", name);
    } else if (python) {
        snprintf(why, capacity, "%s is not executable; a Python script is started with: python3 %s", name, name);
    } else {
        snprintf(why, capacity, "cannot execute %s: %s", name, strerror(errnum));
    }
    return TTI_EXIT_NOT_EXECUTABLE;
}

int tti_find_program(const char *name, char **path, char *why, size_t capacity)
{
    if (strchr(name, '/')) {
        int errnum = tti_check_program(name);
        if (errnum == 0 && (*path = strdup(name)) == NULL) {
            errnum = ENOMEM;
        }
        return errnum == 0 ? 0 : tti_explain_program(name, errnum, why, capacity);
    }
    const char *search = getenv("PATH");
    if (!search) {
        search = "/usr/local/bin:/usr/bin:/bin";
    }
    int found = ENOENT;
    for (const char *at = search; *name != '\0';) {
        int length = (int)strcspn(at, ":");
        char *candidate = NULL;
        /* An empty entry of PATH means the current directory. */
        if (asprintf(&candidate, "%.*s/%s", length ? length : 1, length ? at : ".", name) < 0) {
            snprintf(why, capacity, "out of memory");
            return TTI_EXIT_FAILED;
        }
        int errnum = tti_check_program(candidate);
        if (errnum == 0) {
            *path = candidate;
            return 0;
        }
        free(candidate);
        if (errnum == EACCES) {
            found = EACCES;
        }
        at += length;
        if (*at == '\0') {
            break;
        }
        at++;
    }
    return tti_explain_program(name, found, why, capacity);
}
