/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is in one group of each hierarchy: /proc/self/cgroup has its path inside the hierarchy.
 * /proc/self/mountinfo says where the hierarchy is mounted, and which of its directories is visible there (in a
 * container perhaps only its own part). A limit of a group holds for all groups below it.
 */
#include "base/host/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/host/text_file.h"

#define FIELD_ROOT  3 /* of a line of mountinfo, from 0: the directory of the hierarchy that is mounted ... */
#define FIELD_POINT 4 /* ... and where */
#define MOST        1000000000u

struct hierarchy {
    char group[PATH_MAX]; /* of this process; "" until it is known */
    char root[PATH_MAX];
    char point[PATH_MAX]; /* "" until it is known */
};

struct hierarchies {
    const char *controller; /* which that of version 1 has */
    struct hierarchy unified;
    struct hierarchy older;
};

/* Whether `word` is one of those in a list with commas. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Paths in mountinfo have blanks and the like as three octal digits. */
static void copy_path(char path[PATH_MAX], const char *text)
{
    size_t n = 0;
    while (*text != '\0' && n < PATH_MAX - 1) {
        unsigned value;
        const bool escaped = *text == '\\' && strspn(text + 1, "01234567") >= 3 && sscanf(text + 1, "%3o", &value) == 1;
        path[n++] = escaped ? (char)value : *text;
        text += escaped ? 4 : 1;
    }
    path[n] = '\0';
    if (*text != '\0') {
        path[0] = '\0'; /* too long: no path is better than a wrong one */
    }
}

/* Lines "NUMBER:CONTROLLERS:PATH"; the unified hierarchy has number 0 and no controllers. */
static void read_group(char *line, struct hierarchies *all)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) {
        return;
    }
    *controllers++ = '\0';
    *path++ = '\0';
    const bool unified = strcmp(line, "0") == 0 && controllers[0] == '\0';
    struct hierarchy *h = unified ? &all->unified : &all->older;
    if ((unified || has_word(controllers, all->controller)) && strlen(path) < sizeof(h->group)) {
        memcpy(h->group, path, strlen(path) + 1);
    }
}

/* Lines "ID PARENT DEVICE ROOT POINT OPTIONS [MORE ...] - TYPE SOURCE OPTIONS". The last one counts: it may hide
 * another. */
static void read_mount(char *line, struct hierarchies *all)
{
    line[strcspn(line, "\n")] = '\0';
    char *behind = strstr(line, " - ");
    if (!behind) {
        return;
    }
    *behind = '\0';
    char *rest;
    const char *type = strtok_r(behind + 3, " ", &rest);
    const char *options = type && strtok_r(NULL, " ", &rest) ? strtok_r(NULL, " ", &rest) : NULL;
    const bool unified = options && strcmp(type, "cgroup2") == 0;
    if (!options || (!unified && (strcmp(type, "cgroup") != 0 || !has_word(options, all->controller)))) {
        return;
    }
    struct hierarchy *h = unified ? &all->unified : &all->older;
    const char *field = strtok_r(line, " ", &rest);
    for (int i = 0; field && i <= FIELD_POINT; i++) {
        if (i >= FIELD_ROOT) {
            copy_path(i == FIELD_ROOT ? h->root : h->point, field);
        }
        field = strtok_r(NULL, " ", &rest);
    }
}

static void read_lines(const char *root, const char *name, void (*take)(char *line, struct hierarchies *all),
                       struct hierarchies *all)
{
    char path[PATH_MAX];
    FILE *file = snprintf(path, sizeof(path), "%s%s", root, name) < PATH_MAX ? fopen(path, "re") : NULL;
    if (!file) {
        return;
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        take(line, all);
    }
    free(line);
    fclose(file);
}

/* The group's path below the mount point: groups above that are not visible. */
static const char *below_mount(const struct hierarchy *h)
{
    const size_t length = strcmp(h->root, "/") == 0 ? 0 : strlen(h->root);
    const bool inside =
        strncmp(h->group, h->root, length) == 0 && (h->group[length] == '/' || h->group[length] == '\0');
    return inside && !strstr(h->group, "/..") ? h->group + length : "";
}

static void visit_above(const char *root, const struct hierarchy *h, bool unified, tti_cgroup_visitor visit, void *user)
{
    char directory[PATH_MAX];
    const int n = snprintf(directory, sizeof(directory), "%s%s%s", root, h->point, below_mount(h));
    const size_t top = strlen(root) + strlen(h->point);
    if (h->point[0] == '\0' || h->group[0] == '\0' || n >= PATH_MAX) {
        return;
    }
    for (;;) {
        visit(user, directory, unified);
        char *slash = strrchr(directory, '/');
        if (strlen(directory) <= top || !slash) {
            return;
        }
        *slash = '\0';
    }
}

void tti_cgroup_visit(const char *root, const char *controller, tti_cgroup_visitor visit, void *user)
{
    struct hierarchies all = {.controller = controller};
    read_lines(root, "/proc/self/cgroup", read_group, &all);
    read_lines(root, "/proc/self/mountinfo", read_mount, &all);
    visit_above(root, &all.unified, true, visit, user);
    visit_above(root, &all.older, false, visit, user);
}

/* The inode number is the group's for every process. The device number is not: containers have their own. */
uint64_t tti_cgroup_id(const char *directory, bool unified)
{
    struct stat status;
    return stat(directory, &status) == 0 ? (uint64_t)status.st_ino * 2 + unified : UINT64_MAX;
}

/* ---- CPU time ---------------------------------------------------------------------------------------------------- */

/* The number in a file of a group's directory; 0: there is none. */
static long long read_number(const char *directory, const char *name)
{
    char text[64];
    long long number = 0;
    tti_read_text(text, sizeof(text), "%s/%s", directory, name);
    return sscanf(text, "%lld", &number) == 1 ? number : 0;
}

/* Version 2: "QUOTA PERIOD", or "max PERIOD"; version 1: a file for each, and -1. Microseconds. */
static uint32_t limit_of(const char *directory, bool unified)
{
    char text[64];
    long long quota = 0;
    long long period = 0;
    if (unified) {
        tti_read_text(text, sizeof(text), "%s/cpu.max", directory);
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) {
            return 0;
        }
    } else {
        quota = read_number(directory, "cpu.cfs_quota_us");
        period = read_number(directory, "cpu.cfs_period_us");
    }
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    const double thousandths = 1000.0 * (double)quota / (double)period;
    return thousandths < 1 ? 1 : thousandths < MOST ? (uint32_t)(thousandths + 0.5) : MOST;
}

static void take_least(void *user, const char *directory, bool unified)
{
    struct tti_cgroup_cpus *least = user;
    const uint32_t here = limit_of(directory, unified);
    if (here != 0 && (least->thousandths == 0 || here < least->thousandths)) {
        *least = (struct tti_cgroup_cpus){.thousandths = here, .group = tti_cgroup_id(directory, unified)};
    }
}

struct tti_cgroup_cpus tti_cgroup_cpus(const char *root)
{
    struct tti_cgroup_cpus least = {0};
    tti_cgroup_visit(root, "cpu", take_least, &least);
    return least;
}
