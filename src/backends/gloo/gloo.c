/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gloo: the backend in front of the plug-in file, since the core contains neither Gloo nor C++. The first group, or the
 * first check whether Gloo is available, opens the file. The plug-in's functions replace those of this table, so a call
 * costs no more than in a built-in backend. Opening the file starts no thread: Gloo's thread starts with the first
 * group.
 */
#include "backends/gloo/gloo.h"

#include <stdio.h>

#include "backends/plugin_file.h"
#include "backends/plugin_front.h"

static int32_t available(char *why, size_t capacity);
static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error);

static tutti_backend_ops ops = TTI_PLUGIN_FRONT_OPS(available, open_group);

const tutti_backend tti_backend_gloo = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "gloo",
    .priority = 40,
    .capabilities = TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE | TUTTI_CAP_SAME_BITS | TUTTI_CAP_CHECKS_CALLS |
                    TUTTI_CAP_CANCEL | TUTTI_CAP_ASK_LATE,
    .ops = &ops,
};

static bool find_file(char path[PATH_MAX], char *why, size_t capacity)
{
    static const char name[] = "tutti-gloo.so";
    char searched[512];
    if (!tti_plugin_find(name, path, PATH_MAX, searched, sizeof(searched))) {
        snprintf(why, capacity, "there is no file %s in %s; it is built where Gloo is installed (Debian: libgloo-dev)",
                 name, searched);
        return false;
    }
    return true;
}

static struct tti_plugin_front front = {.backend = "gloo", .ops = &ops, .find = find_file};

static int32_t available(char *why, size_t capacity)
{
    const tutti_backend *found = tti_plugin_get(&front, why, capacity);
    return found ? found->ops->available(why, capacity) : 0;
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    return tti_plugin_open_group(&front, info, state, error);
}
