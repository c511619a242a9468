/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two launchers. */
#ifndef TOOLS_RUN_NODES_LINK_H
#define TOOLS_RUN_NODES_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

/* How the ranks of one node, or all of them, came to an end. */
enum tti_node_outcome {
    TTI_OUTCOME_OK,          /* nothing bad is known */
    TTI_OUTCOME_RANK_FAILED, /* a rank has failed */
    TTI_OUTCOME_TIMEOUT,     /* --timeout */
    TTI_OUTCOME_LAUNCHER,    /* the launcher has ended them and has printed the reason */
    TTI_OUTCOME_NODE_LOST,   /* no message of the node arrives any more */
};

struct tti_node_report {
    int32_t outcome;
    int32_t node;
    int32_t rank;   /* of the whole job */
    int32_t status; /* of a rank: as waitpid gives it; else the exit code */
    int32_t pid;
    int32_t milliseconds;
    char text[200]; /* NODE_LOST: the cause; RANK_FAILED: the last operation */
};

enum tti_node_message_kind {
    TTI_NODE_HEARTBEAT = 1, /* no content */
    TTI_NODE_FAILED,        /* to node 0: a failure here, a report follows. The outcome is TIMEOUT after a --timeout */
    TTI_NODE_STOP,          /* from node 0: end your ranks and report. The outcome likewise */
    TTI_NODE_REPORT,        /* to node 0: the outcome here */
    TTI_NODE_DONE,          /* to node 0: all ranks have ended well */
    TTI_NODE_DECISION,      /* from node 0: how the job has ended; its last message */
    TTI_NODE_ACK,           /* to node 0: the decision has arrived; the last message */
    TTI_NODE_LOST,          /* made by the link itself; the last message */
};

struct tti_node_message {
    int32_t kind;
    int32_t from;
    struct tti_node_report report;
};

/* The messages of all links, in a pipe. `fd` is readable while there are some. */
struct tti_message_queue {
    int fd;
    int input; /* where links write */
};

/* The owner closes both ends: `fd` before the links, so that none of them waits for room; `input` behind them. */
bool tti_message_queue_open(struct tti_message_queue *queue);
/* False: there is none. */
bool tti_message_queue_pop(struct tti_message_queue *queue, struct tti_node_message *message);

struct tti_link;

/* Messages between node `own` and node `peer`, one of which is 0. If none arrives for `heartbeat_timeout_ms`, the link
 * delivers LOST. NULL without memory or threads. */
struct tti_link *tti_link_open(struct tti_store *store, struct tti_message_queue *queue, int own, int peer,
                               int64_t heartbeat_timeout_ms);
/* Never blocks. */
void tti_link_send(struct tti_link *link, enum tti_node_message_kind kind, const struct tti_node_report *report);
/* Sends what is queued, and waits for the last message of the other side. */
void tti_link_close(struct tti_link *link);

#endif
