/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Profiles in files, one for each kind of machine. The name is a digest of the processor's model, the number of CPUs
 * online, the kernel's release and the instruction set of the kernels; the file has them, too. The boot and the
 * affinity mask do not count: ranks that are bound to one CPU each use what a process with two CPUs has measured.
 *
 * The first usable folder counts: only $TUTTI_CACHE_DIR if it is set; else $XDG_CACHE_HOME/tutti or ~/.cache/tutti;
 * then /tmp/tutti-UID. Security: a folder or file counts only if it belongs to this user, no other user may write it,
 * and it is no symbolic link. A set-user-ID program uses no files, because it cannot trust its environment.
 *
 * A file is written under a temporary name and then renamed, so a reader sees a complete file. Of several writers the
 * last one wins; their figures are equally good. A damaged file counts as no file.
 */
#include "engine/tuning/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/host/text_file.h"
#include "base/text.h"
#include "kernels/kernels.h"

#define FORMAT     "4"
#define TEXT_MOST  4096
#define DAY_S      (INT64_C(24) * 3600)
#define OLD_S      (60 * DAY_S) /* hypervisors and firmware change while the kernel stays */
#define CANDIDATES 2
#define PATH_MOST  512

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define BUILD "slow" /* optimised builds have other figures */
#else
#define BUILD "fast"
#endif

/* ---- the machine --------------------------------------------------------------------------------------------- */

/* Appends the value of the first "key : value" line with this key. */
static void append_value(const char *text, const char *key, char *value, size_t capacity)
{
    char found[128];
    if (tti_find_value(text, key, found, sizeof(found))) {
        const size_t used = strlen(value);
        snprintf(value + used, capacity - used, "%s%s", used ? " " : "", found);
    }
}

void tti_machine_find(struct tti_machine *machine)
{
    memset(machine, 0, sizeof(*machine));
    char text[2048]; /* the first processor */
    tti_read_text(text, sizeof(text), "/proc/cpuinfo");
    static const char *const keys[] = {"model name", "model", "stepping", "CPU implementer", "CPU part", "CPU variant"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        append_value(text, keys[i], machine->cpu, sizeof(machine->cpu));
    }
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(machine->kernel, sizeof(machine->kernel), "%.63s %.60s", name.release, name.machine);
    }
    snprintf(machine->isa, sizeof(machine->isa), "%s", tti_kernels_isa());
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine->cpus = online > 0 && online < INT32_MAX ? (int)online : 1;
}

/* ---- the text ------------------------------------------------------------------------------------------------ */

static const char remark[] =
    "# What Tutti has measured on this machine, to choose its algorithms by. May be deleted at "
    "any time; `tutti info --calibrate` measures again.\n";

/* The lines that identify the machine. */
static void append_head(struct tti_text *t, const struct tti_machine *machine)
{
    tti_append(t, "%sformat=" FORMAT "\nbuild=" BUILD "\ncpu=%s\nkernel=%s\nisa=%s\ncpus=%d\n", remark, machine->cpu,
               machine->kernel, machine->isa, machine->cpus);
}

size_t tti_profile_format(const struct tti_machine *machine, const struct tti_profile *profile, char *text,
                          size_t capacity)
{
    struct tti_text t = {.at = text, .capacity = capacity};
    append_head(&t, machine);
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        tti_append(&t, "%s=%lld\n", tti_profile_fields[i].name, (long long)tti_profile_value(profile, i));
    }
    tti_append(&t, "end\n");
    return t.length < capacity ? t.length : 0;
}

/* Exactly "name=number\n". */
static const char *parse_line(const char *text, const char *name, int64_t *value)
{
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != '=' || text[length + 1] < '0' || text[length + 1] > '9') {
        return NULL;
    }
    char *end;
    errno = 0;
    const long long number = strtoll(text + length + 1, &end, 10);
    *value = number;
    return errno == 0 && *end == '\n' ? end + 1 : NULL;
}

/* The format has exactly one text for a profile: any other text is damaged or foreign. */
bool tti_profile_parse(const char *text, const struct tti_machine *machine, struct tti_profile *profile)
{
    char expected[TEXT_MOST];
    struct tti_text head = {.at = expected, .capacity = sizeof(expected)};
    append_head(&head, machine);
    if (head.length >= sizeof(expected) || strncmp(text, expected, head.length) != 0) {
        return false;
    }
    const char *at = text + head.length;
    memset(profile, 0, sizeof(*profile));
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        int64_t value = 0;
        at = parse_line(at, tti_profile_fields[i].name, &value);
        if (!at) {
            return false;
        }
        tti_profile_set(profile, i, value);
    }
    const int64_t now = (int64_t)time(NULL);
    return strcmp(at, "end\n") == 0 && tti_profile_plausible(profile, machine->cpus > 1) &&
           profile->measured_s <= now + DAY_S && profile->measured_s >= now - OLD_S;
}

/* ---- the folder ---------------------------------------------------------------------------------------------- */

static bool is_ours(const struct stat *status)
{
    return status->st_uid == geteuid() && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Folders to try, in order. Returns their number. */
static int candidates(char paths[CANDIDATES][PATH_MOST], bool *anywhere)
{
    const char *own = getenv("TUTTI_CACHE_DIR");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int count = 0;
    int length = -1;
    *anywhere = own && *own;
    if (own && *own) {
        length = snprintf(paths[0], sizeof(paths[0]), "%s", own);
        return *own == '/' && length < (int)sizeof(paths[0]) ? 1 : 0;
    }
    if (cache && *cache == '/') {
        length = snprintf(paths[count], sizeof(paths[0]), "%s/tutti", cache);
    } else if (home && *home == '/') {
        length = snprintf(paths[count], sizeof(paths[0]), "%s/.cache/tutti", home);
    }
    count += length > 0 && length < (int)sizeof(paths[0]);
    snprintf(paths[count], sizeof(paths[0]), "/tmp/tutti-%lu", (unsigned long)geteuid());
    return count + 1;
}

/* Makes the folder and its parent. Makes nothing in a folder of another user, except in /tmp and in
 * $TUTTI_CACHE_DIR. */
static void make_folder(const char *path, bool anywhere)
{
    char above[PATH_MOST];
    struct stat status;
    snprintf(above, sizeof(above), "%.*s", (int)(strrchr(path, '/') - path), path);
    if (anywhere || strcmp(above, "/tmp") == 0) {
        mkdir(path, 0700);
        return;
    }
    if (stat(above, &status) != 0) { /* ~/.cache */
        char *before = strrchr(above, '/');
        if (!before || before == above) {
            return;
        }
        *before = '\0';
        const bool ours = stat(above, &status) == 0 && status.st_uid == geteuid();
        *before = '/';
        if (!ours || mkdir(above, 0700) != 0) {
            return;
        }
    }
    if (stat(above, &status) == 0 && status.st_uid == geteuid()) {
        mkdir(path, 0700);
    }
}

/* A descriptor of the folder. -1: it is not used, and `note` gets the reason, or "" if it does not exist. */
static int open_folder(const char *path, char *note, size_t capacity)
{
    struct stat status;
    note[0] = '\0';
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        if (errno != ENOENT) {
            snprintf(note, capacity, "%.160s: %s", path, strerror(errno));
        }
        return -1;
    }
    if (fstat(folder, &status) != 0 || !is_ours(&status)) {
        snprintf(note, capacity,
                 "%.160s belongs to another user, or other users may write it: chmod 700 it, or set TUTTI_CACHE_DIR",
                 path);
        close(folder);
        return -1;
    }
    return folder;
}

static void name_of(const struct tti_machine *machine, char name[64])
{
    char text[TEXT_MOST];
    struct tti_text head = {.at = text, .capacity = sizeof(text)};
    append_head(&head, machine);
    snprintf(name, 64, "machine-%016llx", (unsigned long long)tti_hash_text(TTI_HASH_EMPTY, text));
}

/* ---- reading and writing ------------------------------------------------------------------------------------- */

static bool read_file(int folder, const char *name, char text[TEXT_MOST])
{
    struct stat status;
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    size_t used = 0;
    bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_ours(&status) && status.st_size < TEXT_MOST;
    while (good && used < TEXT_MOST - 1) {
        const ssize_t n = read(file, text + used, TEXT_MOST - 1 - used);
        if (n <= 0) {
            good = n == 0;
            break;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    close(file);
    return good && strlen(text) == used;
}

static bool write_file(int folder, const char *name, const char *text, size_t length)
{
    char beside[128];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(beside, sizeof(beside), ".%s-%ld-%lx", name, (long)getpid(), (unsigned long)now.tv_nsec);
    const int file = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        return false;
    }
    size_t done = 0;
    while (done < length) {
        const ssize_t n = write(file, text + done, length - done);
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    const bool good = (close(file) == 0) & (done == length) && renameat(folder, beside, folder, name) == 0;
    const int reason = errno;
    if (!good) {
        unlinkat(folder, beside, 0);
    }
    errno = reason;
    return good;
}

static bool may_use_files(char *note, size_t capacity)
{
    if (getauxval(AT_SECURE) != 0) {
        snprintf(note, capacity, "%s", "no file: this program has more rights than its user");
        return false;
    }
    note[0] = '\0';
    return true;
}

bool tti_profile_load(const struct tti_machine *machine, struct tti_profile *profile, char *path, size_t path_capacity,
                      char *note, size_t note_capacity)
{
    char paths[CANDIDATES][PATH_MOST];
    char text[TEXT_MOST];
    char name[64];
    bool anywhere;
    if (!may_use_files(note, note_capacity)) {
        return false;
    }
    name_of(machine, name);
    const int count = candidates(paths, &anywhere);
    for (int i = 0; i < count; i++) {
        const int folder = open_folder(paths[i], note, note_capacity);
        struct tti_profile found;
        const bool good = folder >= 0 && read_file(folder, name, text) && tti_profile_parse(text, machine, &found);
        if (folder >= 0) {
            close(folder);
        }
        if (good) {
            *profile = found;
            snprintf(path, path_capacity, "%s/%s", paths[i], name);
            return true;
        }
    }
    return false;
}

bool tti_profile_save(const struct tti_machine *machine, const struct tti_profile *profile, char *path,
                      size_t path_capacity, char *note, size_t note_capacity)
{
    char paths[CANDIDATES][PATH_MOST];
    char text[TEXT_MOST];
    char name[64];
    bool anywhere;
    const size_t length = tti_profile_format(machine, profile, text, sizeof(text));
    if (length == 0 || !may_use_files(note, note_capacity)) {
        return false;
    }
    name_of(machine, name);
    const int count = candidates(paths, &anywhere);
    snprintf(note, note_capacity, "%s", "TUTTI_CACHE_DIR is no absolute path: set it to one");
    for (int i = 0; i < count; i++) {
        make_folder(paths[i], anywhere);
        const int folder = open_folder(paths[i], note, note_capacity);
        if (folder < 0) {
            if (note[0] == '\0') {
                snprintf(note, note_capacity,
                         "%.160s cannot be created: check its parent's permissions, or set TUTTI_CACHE_DIR", paths[i]);
            }
            continue;
        }
        const bool good = write_file(folder, name, text, length);
        if (!good) {
            snprintf(note, note_capacity, "%.160s: %s", paths[i], strerror(errno));
        }
        close(folder);
        if (good) {
            note[0] = '\0';
            snprintf(path, path_capacity, "%s/%s", paths[i], name);
            return true;
        }
    }
    return false;
}
