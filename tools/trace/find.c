/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding records: in files, in the descriptors of a process, or in those of all processes of a job. A process keeps its
 * recorder open; /proc/PID/fd opens it once more for those who may look into the process, its own user.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/number.h"
#include "find.h"

#define ENVIRON_MOST ((size_t)1 << 20)

static bool add(struct tti_found *found, int fd, const char **why)
{
    struct tti_record r = {.rank = -1, .ended_with = -1};
    if (!tti_snapshot_read(fd, &r.snapshot, why)) {
        return false;
    }
    struct tti_record *grown = realloc(found->records, (found->count + 1) * sizeof(*grown));
    if (!grown) {
        tti_snapshot_free(&r.snapshot);
        *why = "there is no memory for it";
        return false;
    }
    r.has_snapshot = true;
    r.rank = r.snapshot.rank;
    r.process = r.snapshot.process;
    char here[64] = "";
    gethostname(here, sizeof(here) - 1);
    if (r.process.pid == 0 || strcmp(here, r.snapshot.host) != 0) {
        r.look.state = TTI_PROC_UNKNOWN;
    } else {
        r.look = tti_proc_look(&r.process);
    }
    found->records = grown;
    found->records[found->count++] = r;
    return true;
}

bool tti_find_in_file(struct tti_found *found, const char *path, const char **why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        *why = strerror(errno);
        return false;
    }
    struct stat st;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    *why = "it is no record of this version of Tutti";
    good = good && add(found, fd, why);
    close(fd);
    return good;
}

bool tti_find_in_folder(struct tti_found *found, const char *path, const char **why)
{
    static const char ending[] = ".flight";
    struct dirent **names = NULL;
    const size_t before = found->count;
    const int count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        *why = strerror(errno);
        return false;
    }
    *why = "there is no record in it";
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(names[i]->d_name);
        char *file = NULL;
        if (length > sizeof(ending) && strcmp(names[i]->d_name + length - sizeof(ending) + 1, ending) == 0 &&
            asprintf(&file, "%s/%s", path, names[i]->d_name) >= 0) {
            tti_find_in_file(found, file, why);
            free(file);
        }
        free(names[i]);
    }
    free(names);
    return found->count > before;
}

/* Whether that record is there already: a launcher and its ranks hold the same ones. */
static bool has(const struct tti_found *found, const struct tti_proc_id *process)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct tti_proc_id *p = &found->records[i].process;
        if (p->pid == process->pid && p->started == process->started && p->space == process->space) {
            return true;
        }
    }
    return false;
}

/* Looks at sizes before anything is opened: what else a process has open must not notice. */
bool tti_find_in_process(struct tti_found *found, int32_t pid, const char **why)
{
    char path[320];
    const size_t before = found->count;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    if (!folder) {
        *why = errno == ENOENT ? "there is no such process" : strerror(errno);
        return false;
    }
    *why = "it has no flight recorder: it uses no Tutti, has made no group yet, or runs with TUTTI_FLIGHT=off";
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        struct stat st;
        const char *ignored;
        snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)TTI_FLIGHT_BYTES) {
            continue;
        }
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && tti_flight_is(fd) && add(found, fd, &ignored)) {
            struct tti_record *last = &found->records[--found->count];
            if (last->process.pid == 0 || has(found, &last->process)) {
                tti_snapshot_free(&last->snapshot);
            } else {
                found->count++;
            }
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    closedir(folder);
    return found->count > before;
}

static bool is_of_job(int32_t pid, const char *job, char *environ)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, environ, ENVIRON_MOST - 1) : -1;
    bool is = false;
    if (fd >= 0) {
        close(fd);
    }
    environ[length > 0 ? length : 0] = '\0';
    for (ssize_t at = 0; at < length && !is; at += (ssize_t)strlen(environ + at) + 1) {
        is = strncmp(environ + at, "TUTTI_JOB=", 10) == 0 && strcmp(environ + at + 10, job) == 0;
    }
    return is;
}

bool tti_find_in_job(struct tti_found *found, const char *job, const char **why)
{
    const size_t before = found->count;
    char *environ = malloc(ENVIRON_MOST);
    DIR *folder = opendir("/proc");
    *why = "no process here belongs to it";
    for (struct dirent *entry = folder && environ ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        int64_t pid = 0;
        if (tti_parse_integer(entry->d_name, 1, INT32_MAX, &pid) && is_of_job((int32_t)pid, job, environ)) {
            tti_find_in_process(found, (int32_t)pid, why);
        }
    }
    if (folder) {
        closedir(folder);
    }
    free(environ);
    return found->count > before;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct tti_record *x = a;
    const struct tti_record *y = b;
    return x->snapshot.rank != y->snapshot.rank
               ? (x->snapshot.rank > y->snapshot.rank) - (x->snapshot.rank < y->snapshot.rank)
               : (x->process.pid > y->process.pid) - (x->process.pid < y->process.pid);
}

void tti_found_sort(struct tti_found *found)
{
    if (found->count > 0) {
        qsort(found->records, found->count, sizeof(*found->records), compare_ranks);
    }
}
