/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters in Prometheus' text format, for its collector of text files: no port, no thread. The lines of a family stand
 * together, and no two lines have the same labels, or the collector would refuse the whole file. So counters of several
 * programs of one rank are added. Texts of a snapshot hold nothing that would need escaping.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/record.h"

/* Operations with equal labels. */
static bool is_alike(const struct tti_rank_record *a, const struct tti_rank_record *b)
{
    return a->has_snapshot && b->has_snapshot && a->snapshot.rank == b->snapshot.rank &&
           strcmp(a->snapshot.job, b->snapshot.job) == 0 && strcmp(a->snapshot.host, b->snapshot.host) == 0;
}

static bool was_before(const struct tti_rank_record *records, size_t which)
{
    for (size_t i = 0; i < which; i++) {
        if (is_alike(&records[i], &records[which])) {
            return true;
        }
    }
    return false;
}

static uint64_t value_of(const struct tti_snapshot *s, int kind, size_t member)
{
    return *(const uint64_t *)(const void *)((const char *)&s->counters[kind] + member);
}

static void family(FILE *out, const struct tti_rank_record *records, size_t count, const char *name, const char *help,
                   size_t member)
{
    fprintf(out, "# HELP tutti_%s %s\n# TYPE tutti_%s counter\n", name, help, name);
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        const bool first = records[i].has_snapshot && !was_before(records, i);
        for (int kind = TUTTI_OP_ALL_REDUCE; first && kind <= TUTTI_OP_RECV; kind++) {
            uint64_t calls = 0;
            uint64_t value = 0;
            for (size_t j = i; j < count; j++) {
                if (is_alike(&records[i], &records[j])) {
                    calls += records[j].snapshot.counters[kind].calls;
                    value += value_of(&records[j].snapshot, kind, member);
                }
            }
            if (calls > 0) {
                fprintf(out, "tutti_%s{job=\"%s\",host=\"%s\",rank=\"%d\",operation=\"%s\"} %" PRIu64 "\n", name,
                        s->job, s->host, s->rank, tutti_operation_name(kind), value);
            }
        }
    }
}

void tti_record_metrics(FILE *out, const struct tti_rank_record *records, size_t count)
{
    family(out, records, count, "operations_total", "Operations that have ended, failed ones included.",
           offsetof(struct tti_snapshot_counter, calls));
    family(out, records, count, "operation_bytes_total", "Bytes of the tensors of these operations.",
           offsetof(struct tti_snapshot_counter, bytes));
    family(out, records, count, "operation_failures_total", "Operations that have ended with an error.",
           offsetof(struct tti_snapshot_counter, failures));
}

static bool write_to(FILE *out, const struct tti_rank_record *records, size_t count)
{
    if (!out) {
        return false;
    }
    tti_record_metrics(out, records, count);
    const bool good = !ferror(out);
    return fclose(out) == 0 && good;
}

/* For a path that is no regular file: a link, a terminal or a pipe is written to, not replaced. A link such as
 * /dev/stdout may lead to the file of standard output or error. To open that one again would cut off what it holds, so
 * the counters go to where the descriptor stands. */
static FILE *open_in_place(const char *path)
{
    struct stat st;
    struct stat standard;
    const bool regular = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && regular; fd++) {
        if (fstat(fd, &standard) == 0 && standard.st_dev == st.st_dev && standard.st_ino == st.st_ino) {
            const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
            FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
            if (copy >= 0 && !out) {
                close(copy);
            }
            return out;
        }
    }
    return fopen(path, "we");
}

/* Creates the file that later takes the name `path`. NULL with errno, or *beside is its name, to be freed. */
static FILE *create_beside(const char *path, char **beside)
{
    if (asprintf(beside, "%s.%d", path, (int)getpid()) < 0) {
        *beside = NULL;
        errno = ENOMEM;
        return NULL;
    }
    unlink(*beside); /* left by an earlier process of the same number; fopen below never writes to another file there */
    return fopen(*beside, "wxe");
}

bool tti_record_metrics_writable(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        errno = EISDIR; /* links, terminals and pipes are not opened before the end: a pipe may have no reader yet */
        return !(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    }
    char *beside = NULL;
    FILE *out = create_beside(path, &beside);
    const int code = errno;
    if (out) {
        fclose(out);
        unlink(beside);
    }
    free(beside);
    errno = code;
    return out != NULL;
}

bool tti_record_metrics_file(const char *path, const struct tti_rank_record *records, size_t count)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return write_to(open_in_place(path), records, count);
    }
    char *beside = NULL;
    FILE *out = create_beside(path, &beside);
    const bool made = out != NULL;
    const bool good = write_to(out, records, count) && rename(beside, path) == 0;
    if (made && !good) {
        const int code = errno;
        unlink(beside);
        errno = code;
    }
    free(beside);
    return good;
}
