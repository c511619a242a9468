/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_IDENTITY_H
#define TOOLS_RUN_IDENTITY_H

#include <stdint.h>

/* What all ranks of one job share. */
struct tti_job_identity {
    char name[80];       /* run-PID-RANDOM, plus .N after restart N */
    char job_prefix[64]; /* run-PID-RANDOM: begins the name of every job of this launcher */
    int restart;
    int port;        /* MASTER_PORT for torch: free, and held by the launcher of node 0 (bound, not listening) */
    int first_rank;  /* of this node */
    int world_size;  /* of all nodes */
    char store[320]; /* the rendezvous store of the ranks */
};

#endif
