/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_NODES_RENDEZVOUS_H
#define TOOLS_RUN_NODES_RENDEZVOUS_H

#include "run/identity.h"
#include "run/nodes/nodes.h"
#include "run/options.h"

/* Exchanges records with the launchers of the other nodes and fills in `nodes` and `identity`. `code` is 0, or the exit
 * code of a launcher that cannot start its ranks, with its reason: then all of them give up. Returns 0, or the exit
 * code after printing the reason. */
int tti_nodes_rendezvous(struct tti_nodes *nodes, const struct tti_run_options *options,
                         struct tti_job_identity *identity, int code, const char *why);
void tti_nodes_close(struct tti_nodes *nodes);

/* A text that another launcher has sent, and that is going to be shown on this one's terminal: ends it, and puts a
 * question mark in the place of each control character. */
void tti_nodes_sanitize_text(char *text, size_t capacity);

/* An exit code that another launcher has sent: never 0, which would mean success. */
int tti_nodes_failure_code(int code);

#endif
