/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters in Prometheus' text format, for its collector of text files: no port, no thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "record.h"

/* One family of counters: all its lines stand together. */
static void family(FILE *out, const struct tti_record *records, size_t count, const char *name, const char *help,
                   size_t member)
{
    fprintf(out, "# HELP tutti_%s %s\n# TYPE tutti_%s counter\n", name, help, name);
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        for (int kind = 0; records[i].has_snapshot && kind < TTI_FLIGHT_KINDS; kind++) {
            const uint64_t *value = (const uint64_t *)(const void *)((const char *)&s->counters[kind] + member);
            if (s->counters[kind].calls > 0 && kind <= TUTTI_OP_RECV) {
                fprintf(out, "tutti_%s{job=\"%s\",host=\"%s\",rank=\"%d\",operation=\"%s\"} %" PRIu64 "\n", name,
                        s->job, s->host, s->rank, tutti_operation_name(kind), *value);
            }
        }
    }
}

void tti_record_metrics(FILE *out, const struct tti_record *records, size_t count)
{
    family(out, records, count, "operations_total", "Operations that have ended, failed ones included.",
           offsetof(struct tti_snapshot_counter, calls));
    family(out, records, count, "operation_bytes_total", "Bytes of the tensors of these operations.",
           offsetof(struct tti_snapshot_counter, bytes));
    family(out, records, count, "operation_failures_total", "Operations that have ended with an error.",
           offsetof(struct tti_snapshot_counter, failures));
}

bool tti_record_metrics_file(const char *path, const struct tti_record *records, size_t count)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.%d", path, (int)getpid()) < 0) {
        errno = ENOMEM;
        return false;
    }
    unlink(beside); /* of an earlier process of the same number; what comes in its place meanwhile is not written to */
    FILE *out = fopen(beside, "wxe");
    bool good = out != NULL;
    if (out) {
        tti_record_metrics(out, records, count);
        good = !ferror(out);
        good = fclose(out) == 0 && good && rename(beside, path) == 0;
    }
    if (!good) {
        const int code = errno;
        unlink(beside);
        errno = code;
    }
    free(beside);
    return good;
}
