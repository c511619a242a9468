/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads MemAvailable and SwapFree of /proc/meminfo, and the limits of the control group of this process and of all
 * above it, for cgroup v2 and v1; the smallest rest counts. Page cache of a control group counts as available, because
 * the kernel drops it under pressure. A file that is missing or says "max" is no limit. The result is a snapshot: other
 * processes may take the memory before the caller does.
 */
#include "base/host/available_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/host/boot_id.h"

#define PATH_BYTES 1024

/* The number behind `key` in a file of lines "key number [kB]"; false if it is not there. */
static bool read_field(const char *path, const char *key, uint64_t *value)
{
    char line[200];
    size_t length = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");
    if (!f) {
        return false;
    }
    while (!found && fgets(line, sizeof(line), f)) {
        found = strncmp(line, key, length) == 0 && sscanf(line + length, " %" SCNu64, value) == 1;
    }
    fclose(f);
    return found;
}

/* The number that a file consists of. False for "max" and for a missing file. */
static bool read_number(const char *directory, const char *file, uint64_t *value)
{
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/%s", directory, file);
    FILE *f = fopen(path, "re");
    bool found = f && fscanf(f, "%" SCNu64, value) == 1;
    if (f) {
        fclose(f);
    }
    return found;
}

/* What one control group leaves: its limit less its use, without caches that the kernel can drop. */
static uint64_t left_in(const char *directory, bool unified)
{
    uint64_t limit = 0;
    uint64_t used = 0;
    uint64_t cache = 0;
    uint64_t part = 0;
    char path[PATH_BYTES + 64];
    if (!read_number(directory, unified ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !read_number(directory, unified ? "memory.current" : "memory.usage_in_bytes", &used)) {
        return UINT64_MAX;
    }
    snprintf(path, sizeof(path), "%s/memory.stat", directory);
    const char *const droppable[] = {unified ? "inactive_file" : "total_inactive_file",
                                     unified ? "active_file" : "total_active_file"};
    for (int i = 0; i < 2; i++) {
        cache += read_field(path, droppable[i], &part) ? part : 0;
    }
    used -= cache < used ? cache : used;
    return limit > used ? limit - used : 0;
}

/* The minimum that the own control group and those above it leave. */
static uint64_t left_above(const char *mount, char *group, bool unified)
{
    uint64_t least = UINT64_MAX;
    char directory[PATH_BYTES];
    for (;;) {
        snprintf(directory, sizeof(directory), "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
        uint64_t here = left_in(directory, unified);
        least = here < least ? here : least;
        char *slash = strrchr(group, '/');
        if (!slash) {
            return least;
        }
        *slash = '\0';
    }
}

/* In a container with a namespace of its own every path is "/"; the inode number of the directory is the same in all of
 * them. */
static void mix_in_directory(const char *mount, const char *group, uint64_t *hash)
{
    char directory[PATH_BYTES];
    struct stat st;
    snprintf(directory, sizeof(directory), "%s%s", mount, group);
    if (stat(directory, &st) == 0) {
        *hash = tti_hash_number(*hash, (uint64_t)st.st_ino);
    }
}

struct tti_available_memory tti_available_memory_read(void)
{
    struct tti_available_memory room = {.host = UINT64_MAX, .limit = UINT64_MAX, .cgroup = TTI_HASH_EMPTY};
    uint64_t available = 0;
    uint64_t swap = 0;
    char boot[TTI_BOOT_ID];
    tti_boot_id(boot, NULL); /* without one, all ranks count as ranks of one host */
    room.machine = tti_hash_text(TTI_HASH_EMPTY, boot);
    if (read_field("/proc/meminfo", "MemAvailable:", &available)) {
        read_field("/proc/meminfo", "SwapFree:", &swap);
        room.host = (available + swap) * 1024;
    }
    char line[PATH_BYTES / 2];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        char *first = strchr(line, ':');
        char *group = first ? strchr(first + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        *group++ = '\0';
        room.cgroup = tti_hash_text(room.cgroup, group);
        bool unified = strcmp(line, "0:") == 0;
        if (unified || strcmp(first + 1, "memory") == 0) {
            mix_in_directory(unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", group, &room.cgroup);
            uint64_t left = left_above(unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", group, unified);
            room.limit = left < room.limit ? left : room.limit;
        }
    }
    if (f) {
        fclose(f);
    }
    return room;
}
