/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on several nodes (`--nnodes`): each has a launcher of its own, and the launchers agree through the store that
 * the one of node 0 serves.
 *
 *   rendezvous.c      they find one another, and each learns which ranks are its own
 *   link.c      mail between two launchers, with signs of life
 *   shutdown.c   how all of them end together, and whom they name
 */
#ifndef TTI_TOOLS_RUN_NODES_H
#define TTI_TOOLS_RUN_NODES_H

#include "job.h"
#include "store/store.h"

/* What one launcher says of itself. */
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

/* A text that another launcher has sent, and that is going to be shown on this one's terminal: ends it, and puts a question
 * mark in the place of each control character. */
void tti_nodes_sanitize_text(char *text, size_t capacity);

/* An exit code that another launcher has sent: never 0, which would say that all went well. */
int tti_nodes_failure_code(int code);

struct tti_nodes {
    struct tti_store *store;
    int node;
    int count;
    int64_t heartbeat_timeout_ms; /* the shortest --node-timeout of all */
    struct tti_node_info *infos;  /* of all nodes */
};

/* Meets the others and fills in who this node is. `code` is 0, or the exit code of a launcher that cannot start its
 * ranks, with its reason: then all of them give up. Returns 0 or the exit code; the reason has been told. */
int tti_nodes_rendezvous(struct tti_nodes *nodes, const struct tti_run_options *options,
                         struct tti_job_identity *identity, int code, const char *why);
void tti_nodes_close(struct tti_nodes *nodes);

/* How the ranks of one node, or all of them, came to an end. */
enum tti_node_outcome {
    TTI_OUTCOME_OK,          /* nothing bad is known */
    TTI_OUTCOME_RANK_FAILED, /* a rank has failed */
    TTI_OUTCOME_TIMEOUT,     /* --timeout */
    TTI_OUTCOME_LAUNCHER,    /* the launcher has ended them, and has said why */
    TTI_OUTCOME_NODE_LOST,   /* nothing is heard of the node any more */
};

struct tti_node_report {
    int32_t outcome;
    int32_t node;
    int32_t rank;   /* of the whole job */
    int32_t status; /* of a rank: as waitpid gives it; else the exit code */
    int32_t pid;
    int32_t milliseconds;
    char text[200]; /* LOST: what is known about it; RANK: what it has done last */
};

enum tti_node_message_kind {
    TTI_NODE_HEARTBEAT = 1, /* nothing but a sign of life */
    TTI_NODE_FAILED, /* to node 0: something has gone wrong here, an answer will follow. `fate` says TIMEOUT if it is that */
    TTI_NODE_STOP,     /* from node 0: end your ranks and answer. `fate` likewise */
    TTI_NODE_REPORT,   /* to node 0: what went wrong here, if anything */
    TTI_NODE_DONE,     /* to node 0: all ranks have ended well */
    TTI_NODE_DECISION, /* from node 0: how the job has ended; the last mail */
    TTI_NODE_ACK,      /* to node 0: the verdict has come; the last mail */
    TTI_NODE_LOST,     /* made by the link itself; the last mail */
};

struct tti_node_message {
    int32_t kind;
    int32_t from;
    struct tti_node_report report;
};

/* Where the mail of all links arrives. Readable through `fd` while there is some. */
struct tti_message_queue {
    pthread_mutex_t lock;
    struct tti_queued_message *first;
    struct tti_queued_message **last;
    int fd;
};

bool tti_message_queue_open(struct tti_message_queue *queue);
bool tti_message_queue_pop(struct tti_message_queue *queue, struct tti_node_message *message);
void tti_message_queue_close(struct tti_message_queue *queue);

struct tti_link;

/* Mail between node `own` and node `peer`, one of which is 0. Either hears of the other at least every `heartbeat_timeout_ms`, or
 * gets a LOST mail. NULL without memory or threads. */
struct tti_link *tti_link_open(struct tti_store *store, struct tti_message_queue *queue, int own, int peer,
                               int64_t heartbeat_timeout_ms);
/* Never blocks. */
void tti_link_send(struct tti_link *link, enum tti_node_message_kind kind, const struct tti_node_report *report);
/* Sends what is left, and waits for the last mail of the other side. */
void tti_link_close(struct tti_link *link);

/* The part of a running job that concerns the other nodes. NULL without memory. */
struct tti_shutdown *tti_shutdown_open(const struct tti_nodes *nodes);
int tti_shutdown_fd(const struct tti_shutdown *shutdown);
/* Tells what has happened here, hears what has happened elsewhere, and ends the ranks if that is bad. `local_done`: nothing
 * of the job runs on this node any more. */
void tti_shutdown_step(struct tti_shutdown *shutdown, struct tti_job *job, bool local_done);
/* Tells that the job's time is over here, before the ranks are ended: the others look then what theirs do. */
void tti_shutdown_announce_timeout(struct tti_shutdown *shutdown);
/* Whether all has been said. */
bool tti_shutdown_is_done(const struct tti_shutdown *shutdown);
int tti_shutdown_exit_code(const struct tti_shutdown *shutdown);
void tti_shutdown_close(struct tti_shutdown *shutdown);

#endif
