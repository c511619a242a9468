/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group over several hosts and its engines. The inner engine joins the ranks of one host, a rail engine the ranks
 * with the same local rank of all hosts (hosts.h), and the flat engine all ranks under their own numbers. The flat
 * engine carries messages, data of all_to_all between hosts, and the cause of a failure.
 */
#ifndef TTI_BACKENDS_HIER_TYPES_H
#define TTI_BACKENDS_HIER_TYPES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/hier/hosts.h"
#include "backends/hier/steps/helper.h"

/* The backend's name. In tutti_error.backend it marks an error of this backend: its suspect and its sentence use the
 * ranks of the group. An engine's own error does not have it and uses the ranks of the engine. */
#define TTI_HIER_NAME "hier"

/* Lists of counts for one thread. */
struct tti_lists {
    int64_t *send_counts; /* each list has an entry for every rank of the group */
    int64_t *receive_counts;
    int64_t *send_displacements;
    int64_t *receive_displacements;
};

struct tti_hier_lane {
    struct tti_helper helper;
    struct tti_lists inside;  /* for the thread that makes the steps inside the host */
    struct tti_lists between; /* for the thread that makes the steps between hosts   */
    unsigned char *scratch;
    size_t scratch_bytes;
    /* relaxed: an engine may still use the memory of a step (tutti_op). Stored by the two threads that make steps, read
     * when both have ended. */
    _Atomic int32_t in_use;
    _Atomic int64_t calls; /* relaxed: the lane counts, queries of its algorithm read */
};

struct tti_hier {
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int32_t host; /* of this rank */
    int32_t local_rank;
    struct tti_hosts hosts;
    size_t chunk; /* bytes */
    tutti_engine *flat;
    tutti_engine *inner; /* NULL: there is one host, or each rank has its own; the flat engine does everything */
    tutti_engine *rail;  /* NULL: this rank is in no rail */

    pthread_mutex_t lock;
    _Atomic int32_t failed; /* 1: `cause` is complete and constant */
    tutti_error cause;      /* an error of this backend, see TTI_HIER_NAME */

    struct tti_hier_lane lane[];
};

#endif
