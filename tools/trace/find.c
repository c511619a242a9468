/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding records: in files, in the descriptors of a process, or in those of all processes of a job. A process keeps
 * its recorder open; /proc/PID/fd opens it once more for processes of the same user. `tutti run` also keeps the
 * recorders of its ranks open, so the records of dead ranks are found while the job runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process.h"
#include "diag/file.h"
#include "trace/find.h"

/* Whether that record was added already: a launcher and its ranks hold the same ones. */
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

static void query_process(struct tti_rank_record *r)
{
    char here[64] = "";
    gethostname(here, sizeof(here) - 1);
    r->proc = (struct tti_proc){.state = TTI_PROC_UNKNOWN};
    if (r->process.pid != 0 && strcmp(here, r->snapshot.host) == 0) {
        r->proc = tti_proc_query(&r->process);
    }
}

/* `job`: of that one only; NULL = of any. True also if it is there already. */
static bool add(struct tti_found *found, int fd, const char *job, const char **why)
{
    struct tti_rank_record r = {.rank = -1, .ended_with = -1, .fd = -1};
    if (!tti_snapshot_read(fd, &r.snapshot, why)) {
        return false;
    }
    r.has_snapshot = true;
    r.rank = r.snapshot.rank;
    r.process = r.snapshot.process;
    const bool known = r.process.pid != 0 && has(found, &r.process);
    const bool wanted = !job || strcmp(job, r.snapshot.job) == 0;
    struct tti_rank_record *grown =
        known || !wanted ? NULL : realloc(found->records, (found->count + 1) * sizeof(*grown));
    if (!grown) {
        *why = wanted ? "there is no memory for it" : "it belongs to another job";
        tti_snapshot_free(&r.snapshot);
        return known;
    }
    query_process(&r);
    if (r.proc.state != TTI_PROC_UNKNOWN && r.proc.state < TTI_PROC_ZOMBIE) {
        r.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
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
    good = good && add(found, fd, NULL, why);
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

/* Checks sizes before it opens anything: opening other files of the process could have side effects. */
bool tti_find_in_process(struct tti_found *found, int32_t pid, const char *job, const char **why)
{
    char path[320];
    bool any = false;
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
        if (fd >= 0 && tti_flight_is(fd)) {
            any = add(found, fd, job, &ignored) || any;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    closedir(folder);
    return any;
}

bool tti_find_in_job(struct tti_found *found, const char *job, const char **why)
{
    DIR *folder = opendir("/proc");
    pid_t launcher = 0; /* of the last record that was found: ranks have neighbouring process numbers */
    bool any = false;
    *why = "no process here belongs to it";
    for (pid_t pid = folder ? tti_process_next(folder) : 0; pid != 0; pid = tti_process_next(folder)) {
        if (!tti_process_is_of_job(pid, job, false)) {
            continue;
        }
        any = tti_find_in_process(found, pid, job, why) || any;
        const pid_t parent = tti_process_parent(pid);
        if (parent > 1 && parent != launcher) {
            const char *ignored;
            launcher = parent;
            any = tti_find_in_process(found, parent, job, &ignored) || any;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return any;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct tti_rank_record *x = a;
    const struct tti_rank_record *y = b;
    if (x->snapshot.rank != y->snapshot.rank) {
        return (x->snapshot.rank > y->snapshot.rank) - (x->snapshot.rank < y->snapshot.rank);
    }
    const int64_t s = tti_record_wall_ns(&x->snapshot, x->snapshot.begun_ns);
    const int64_t t = tti_record_wall_ns(&y->snapshot, y->snapshot.begun_ns);
    return (s > t) - (s < t);
}

void tti_found_sort(struct tti_found *found)
{
    if (found->count > 0) {
        qsort(found->records, found->count, sizeof(*found->records), compare_ranks);
    }
}

/* Whether a later record is of the same rank in another job, and not of another program of the rank. */
static bool is_superseded(const struct tti_found *found, size_t which)
{
    const struct tti_rank_record *r = &found->records[which];
    const struct tti_rank_record *next = which + 1 < found->count ? r + 1 : NULL;
    return next && r->rank >= 0 && next->rank == r->rank &&
           (r->snapshot.job[0] == '\0' || strcmp(next->snapshot.job, r->snapshot.job) != 0);
}

/* All records of a job are dropped together: it may have had more ranks than the later job. */
static bool is_outdated(const struct tti_found *found, const bool *superseded, size_t which)
{
    const char *job = found->records[which].snapshot.job;
    for (size_t i = 0; i < found->count && job[0] != '\0'; i++) {
        if (superseded[i] && strcmp(found->records[i].snapshot.job, job) == 0) {
            return true;
        }
    }
    return superseded[which];
}

size_t tti_found_keep_latest(struct tti_found *found)
{
    const size_t count = found->count;
    bool *superseded = calloc(2 * count + 1, sizeof(*superseded));
    if (!superseded || !found->records) {
        free(superseded);
        return 0;
    }
    bool *outdated = superseded + count;
    for (size_t i = 0; i < count; i++) {
        superseded[i] = is_superseded(found, i);
    }
    for (size_t i = 0; i < count; i++) {
        outdated[i] = is_outdated(found, superseded, i);
    }
    found->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (outdated[i]) {
            tti_record_clear(&found->records[i]);
        } else {
            found->records[found->count++] = found->records[i];
        }
    }
    free(superseded);
    return count - found->count;
}

void tti_found_refresh(struct tti_found *found)
{
    bool any = false;
    for (size_t i = 0; i < found->count; i++) {
        any = any || found->records[i].fd >= 0;
    }
    poll(NULL, 0, any ? TTI_RECORD_INTERVAL_MS : 0);
    for (size_t i = 0; i < found->count; i++) {
        struct tti_rank_record *r = &found->records[i];
        struct tti_snapshot now;
        const char *ignored;
        if (r->fd >= 0 && tti_snapshot_read(r->fd, &now, &ignored)) {
            r->before = r->snapshot;
            r->has_before = true;
            r->snapshot = now;
            query_process(r);
        }
    }
}

void tti_found_free(struct tti_found *found)
{
    tti_record_free(found->records, found->count);
    *found = (struct tti_found){.count = 0};
}
