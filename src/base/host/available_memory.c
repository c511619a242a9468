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

#include "base/hash.h"
#include "base/host/boot_id.h"
#include "base/host/cgroup.h"
#include "base/host/text_file.h"

#define TEXT_MOST 4096
#define NO_LIMIT  (UINT64_C(1) << 62) /* version 1 has a number for it, the largest multiple of a page in an int64_t */

/* The number that a file consists of. False for "max" and for a missing file. */
static bool read_number(const char *directory, const char *file, uint64_t *value)
{
    char text[32];
    tti_read_text(text, sizeof(text), "%s/%s", directory, file);
    return sscanf(text, "%" SCNu64, value) == 1;
}

/* The number behind a key; 0: there is none. */
static uint64_t number_of(const char *text, const char *key)
{
    char value[32];
    uint64_t number = 0;
    return tti_find_value(text, key, value, sizeof(value)) && sscanf(value, "%" SCNu64, &number) == 1 ? number : 0;
}

/* A control group leaves its limit less its use, without caches that the kernel can drop. */
static void take_group(void *user, const char *directory, bool unified)
{
    struct tti_available_memory *room = user;
    uint64_t limit = 0;
    uint64_t used = 0;
    char text[TEXT_MOST];
    if (!read_number(directory, unified ? "memory.max" : "memory.limit_in_bytes", &limit) || limit >= NO_LIMIT ||
        !read_number(directory, unified ? "memory.current" : "memory.usage_in_bytes", &used)) {
        return;
    }
    tti_read_text(text, sizeof(text), "%s/memory.stat", directory);
    const uint64_t cache = number_of(text, unified ? "inactive_file" : "total_inactive_file") +
                           number_of(text, unified ? "active_file" : "total_active_file");
    used -= cache < used ? cache : used;
    const uint64_t left = limit > used ? limit - used : 0;
    room->limit = left < room->limit ? left : room->limit;
    room->cgroup = room->cgroup != 0 ? room->cgroup : tti_cgroup_id(directory, unified);
}

struct tti_available_memory tti_available_memory_read(const char *root)
{
    struct tti_available_memory room = {.host = UINT64_MAX, .limit = UINT64_MAX};
    char boot[TTI_BOOT_ID];
    char text[TEXT_MOST];
    char value[32];
    tti_boot_id(boot, NULL); /* without one, all ranks count as ranks of one host */
    room.machine = tti_hash_text(TTI_HASH_EMPTY, boot);
    tti_read_text(text, sizeof(text), "%s/proc/meminfo", root);
    if (tti_find_value(text, "MemAvailable", value, sizeof(value))) {
        room.host = (number_of(text, "MemAvailable") + number_of(text, "SwapFree")) * 1024;
    }
    tti_cgroup_visit(root, "memory", take_group, &room);
    return room;
}
