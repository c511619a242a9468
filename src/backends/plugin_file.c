/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a plug-in file. */
#include "backends/plugin_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef TTI_LIBRARY_FOLDER
#define TTI_LIBRARY_FOLDER "lib"
#endif

/* The folder of the file with this code: libtutti.so, or the program that the static library is linked into. */
static bool own_folder(char *path, size_t capacity)
{
    static const char here;
    Dl_info info;
    char file[PATH_MAX];
    if (dladdr(&here, &info) == 0 || !info.dli_fname || !realpath(info.dli_fname, file)) {
        ssize_t length = readlink("/proc/self/exe", file, sizeof(file) - 1);
        file[length > 0 ? length : 0] = '\0';
    }
    char *slash = strrchr(file, '/');
    int length = slash ? snprintf(path, capacity, "%.*s", (int)(slash - file), file) : 0;
    return length > 0 && (size_t)length < capacity;
}

static bool is_in_folder(const char *folder, size_t length, const char *name, char *path, size_t capacity,
                         char *searched, size_t searched_capacity)
{
    int n = snprintf(path, capacity, "%.*s/%s", (int)length, folder, name);
    if (length > 0 && n > 0 && (size_t)n < capacity && access(path, R_OK) == 0) {
        return true;
    }
    size_t used = strlen(searched);
    snprintf(searched + used, searched_capacity - used, "%s%.*s", used ? ", " : "", (int)length, folder);
    return false;
}

bool tti_plugin_find(const char *name, char *path, size_t capacity, char *searched, size_t searched_capacity)
{
    static const char *const relative[] = {"tutti/plugins", "lib/tutti/plugins",
                                           "../" TTI_LIBRARY_FOLDER "/tutti/plugins"};
    searched[0] = '\0';
    const char *folders = getenv("TUTTI_PLUGIN_PATH");
    for (const char *folder = folders; folder && *folder;) {
        size_t length = strcspn(folder, ":");
        if (is_in_folder(folder, length, name, path, capacity, searched, searched_capacity)) {
            return true;
        }
        folder += length + (folder[length] == ':');
    }
    char own[PATH_MAX];
    if ((folders && *folders) || !own_folder(own, sizeof(own))) {
        return false;
    }
    for (size_t i = 0; i < sizeof(relative) / sizeof(relative[0]); i++) {
        char folder[PATH_MAX];
        int length = snprintf(folder, sizeof(folder), "%s/%s", own, relative[i]);
        if (length > 0 && (size_t)length < sizeof(folder) &&
            is_in_folder(folder, (size_t)length, name, path, capacity, searched, searched_capacity)) {
            return true;
        }
    }
    return false;
}
