/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.profiling: calls, bytes and time of each operation of a group. The time runs from the call to its end, so it
 * includes Tutti's own work and the wait for other ranks. These are Tutti's counters: MPI's profiling interface is
 * reserved for tools, and sees neither operations nor groups.
 */
#include "backends/mpi/plugin/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"

#define KINDS (TUTTI_OP_RECV + 1)

struct row {
    int64_t calls;
    uint64_t bytes;
    int64_t total_ns;
    int64_t longest_ns;
};

struct tti_mpi_profile {
    pthread_mutex_t lock; /* lanes and messages write from their own threads */
    struct row rows[KINDS];
};

struct tti_mpi_profile *tti_mpi_profile_make(void)
{
    struct tti_mpi_profile *p = calloc(1, sizeof(*p));
    if (p) {
        pthread_mutex_init(&p->lock, NULL);
    }
    return p;
}

void tti_mpi_profile_free(struct tti_mpi_profile *p)
{
    if (p) {
        pthread_mutex_destroy(&p->lock);
        free(p);
    }
}

/* Of this rank's part; of all_to_all the bytes that it sends. */
uint64_t tti_mpi_op_bytes(const tutti_op *op, int size)
{
    return op->kind == TUTTI_OP_ALL_TO_ALL ? tti_parts_total(&op->send_parts, size)
                                           : op->count * tti_dtype_size(op->dtype);
}

void tti_mpi_profile_add(struct tti_mpi_profile *p, tutti_operation kind, uint64_t bytes, int64_t begun_ns)
{
    const int64_t took = tti_now_ns() - begun_ns;
    struct row *row = &p->rows[kind];
    pthread_mutex_lock(&p->lock);
    row->calls++;
    row->bytes += bytes;
    row->total_ns += took;
    row->longest_ns = took > row->longest_ns ? took : row->longest_ns;
    pthread_mutex_unlock(&p->lock);
}

void tti_mpi_profile_append(struct tti_mpi_profile *p, struct tti_text *t)
{
    tti_append(t, "  %-14s %12s %16s %14s %14s\n", "profile", "calls", "bytes", "total ms", "longest ms");
    pthread_mutex_lock(&p->lock);
    for (tutti_operation kind = 1; kind < KINDS; kind++) {
        const struct row *row = &p->rows[kind];
        if (row->calls > 0) {
            tti_append(t, "  %-14s %12lld %16llu %14.3f %14.3f\n", tutti_operation_name(kind), (long long)row->calls,
                       (unsigned long long)row->bytes, (double)row->total_ns * 1e-6, (double)row->longest_ns * 1e-6);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void tti_mpi_profile_print(const struct tti_mpi_group *g)
{
    char text[2048]; /* one write, so that lines of several ranks do not mix */
    struct tti_text t = {.at = text, .capacity = sizeof(text)};
    tti_mpi_profile_append(g->profile, &t);
    fprintf(stderr, "tutti: mpi.profiling: rank %d of %d, rank %d of the world\n%s", g->rank, g->size, g->world_rank,
            text);
}
