/* SPDX-License-Identifier: BSD-3-Clause */
/* Removes the directory of a file: store. */
#ifndef TESTS_API_GROUP_REMOVE_FOLDER_H
#define TESTS_API_GROUP_REMOVE_FOLDER_H

#include <dirent.h>
#include <unistd.h>

#include "api/check.h"

/* The directory holds values only: no drafts, no folders. */
static inline void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    int values = 0;
    for (struct dirent *d = folder ? readdir(folder) : NULL; d; d = readdir(folder)) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            EXPECT(d->d_name[0] != '.');
            EXPECT(unlinkat(dirfd(folder), d->d_name, 0) == 0);
            values++;
        }
    }
    EXPECT(folder && values > 0);
    if (folder) {
        closedir(folder);
    }
    EXPECT(rmdir(path) == 0);
}

#endif
