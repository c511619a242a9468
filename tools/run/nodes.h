/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on several nodes (`--nnodes`): each has a launcher of its own, and the launchers agree through the store that
 * the one of node 0 serves.
 *
 *   meet.c      they find one another, and each learns which ranks are its own
 *   link.c      mail between two launchers, with signs of life
 *   council.c   how all of them end together, and whom they name
 */
#ifndef TTI_TOOLS_RUN_NODES_H
#define TTI_TOOLS_RUN_NODES_H

#include "job.h"
#include "store/store.h"

/* What one launcher says of itself. */
struct tti_node_card {
    uint32_t magic;
    uint32_t protocol;
    char version[32];
    int32_t node;
    int32_t nodes;
    int32_t ranks;
    int32_t pid;
    int32_t torch_port; /* node 0: what its ranks find as MASTER_PORT */
    int32_t silence_ms; /* --node-timeout */
    int32_t code;       /* the exit code if it cannot start its ranks, with the reason in `why` */
    char host[64];
    char why[200];
};

/* A text that another launcher has sent, and that is going to be shown on this one's terminal: ends it, and puts a question
 * mark in the place of each control character. */
void tti_nodes_tame(char *text, size_t capacity);

/* An exit code that another launcher has sent: never 0, which would say that all went well. */
int tti_nodes_failure(int code);

struct tti_nodes {
    struct tti_store *store;
    int node;
    int count;
    int64_t silence_ms;          /* the shortest --node-timeout of all */
    struct tti_node_card *cards; /* of all nodes */
};

/* Meets the others and fills in who this node is. `code` is 0, or the exit code of a launcher that cannot start its
 * ranks, with its reason: then all of them give up. Returns 0 or the exit code; the reason has been told. */
int tti_nodes_meet(struct tti_nodes *nodes, const struct tti_run_options *options, struct tti_job_identity *identity,
                   int code, const char *why);
void tti_nodes_part(struct tti_nodes *nodes);

/* How the ranks of one node, or all of them, came to an end. */
enum tti_fate {
    TTI_FATE_WELL,     /* nothing bad is known */
    TTI_FATE_RANK,     /* a rank has failed */
    TTI_FATE_TIMEOUT,  /* --timeout */
    TTI_FATE_LAUNCHER, /* the launcher has ended them, and has said why */
    TTI_FATE_LOST,     /* nothing is heard of the node any more */
};

struct tti_report {
    int32_t fate;
    int32_t node;
    int32_t rank;   /* of the whole job */
    int32_t status; /* of a rank: as waitpid gives it; else the exit code */
    int32_t pid;
    int32_t milliseconds;
    char text[200]; /* LOST: what is known about it; RANK: what it has done last */
};

enum tti_mail_kind {
    TTI_MAIL_BEAT = 1, /* nothing but a sign of life */
    TTI_MAIL_FAILED, /* to node 0: something has gone wrong here, an answer will follow. `fate` says TIMEOUT if it is that */
    TTI_MAIL_STOP,    /* from node 0: end your ranks and answer. `fate` likewise */
    TTI_MAIL_ANSWER,  /* to node 0: what went wrong here, if anything */
    TTI_MAIL_DONE,    /* to node 0: all ranks have ended well */
    TTI_MAIL_VERDICT, /* from node 0: how the job has ended; the last mail */
    TTI_MAIL_BYE,     /* to node 0: the verdict has come; the last mail */
    TTI_MAIL_LOST,    /* made by the link itself; the last mail */
};

struct tti_mail {
    int32_t kind;
    int32_t from;
    struct tti_report report;
};

/* Where the mail of all links arrives. Readable through `fd` while there is some. */
struct tti_mailbox {
    pthread_mutex_t lock;
    struct tti_letter *first;
    struct tti_letter **last;
    int fd;
};

bool tti_mailbox_open(struct tti_mailbox *box);
bool tti_mailbox_take(struct tti_mailbox *box, struct tti_mail *mail);
void tti_mailbox_close(struct tti_mailbox *box);

struct tti_link;

/* Mail between node `own` and node `peer`, one of which is 0. Either hears of the other at least every `silence_ms`, or
 * gets a LOST mail. NULL without memory or threads. */
struct tti_link *tti_link_open(struct tti_store *store, struct tti_mailbox *box, int own, int peer, int64_t silence_ms);
/* Never blocks. */
void tti_link_send(struct tti_link *link, enum tti_mail_kind kind, const struct tti_report *report);
/* Sends what is left, and waits for the last mail of the other side. */
void tti_link_close(struct tti_link *link);

/* The part of a running job that concerns the other nodes. NULL without memory. */
struct tti_council *tti_council_open(const struct tti_nodes *nodes);
int tti_council_fd(const struct tti_council *council);
/* Tells what has happened here, hears what has happened elsewhere, and ends the ranks if that is bad. `own_over`: nothing
 * of the job runs on this node any more. */
void tti_council_step(struct tti_council *council, struct tti_job *job, bool own_over);
/* Tells that the job's time is over here, before the ranks are ended: the others look then what theirs do. */
void tti_council_warn(struct tti_council *council);
/* Whether all has been said. */
bool tti_council_is_over(const struct tti_council *council);
int tti_council_exit_code(const struct tti_council *council);
void tti_council_close(struct tti_council *council);

#endif
