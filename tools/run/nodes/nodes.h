/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on several nodes (`--nnodes`). Each node has a launcher of its own. The launchers agree through the store that
 * the launcher of node 0 serves.
 *
 *   rendezvous.c  each launcher learns which ranks are its own
 *   link.c        messages and heartbeats between two launchers
 *   shutdown.c    how all launchers end together, and which rank they name
 */
#ifndef TOOLS_RUN_NODES_NODES_H
#define TOOLS_RUN_NODES_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* The info of one launcher. */
struct tti_node_info {
    uint32_t magic;
    uint32_t protocol;
    char version[32];
    int32_t node;
    int32_t nodes;
    int32_t ranks;
    int32_t pid;
    int32_t torch_port;           /* node 0: what its ranks find as MASTER_PORT */
    int32_t heartbeat_timeout_ms; /* --node-timeout */
    int32_t code;                 /* the exit code if it cannot start its ranks, with the reason in `why` */
    char host[64];
    char why[200];
};

struct tti_nodes {
    struct tti_store *store;
    int node;
    int count;
    int64_t heartbeat_timeout_ms; /* the shortest --node-timeout of all */
    struct tti_node_info *infos;  /* of all nodes */
};

#endif
