/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_NODES_SHUTDOWN_H
#define TOOLS_RUN_NODES_SHUTDOWN_H

#include "run/job/job.h"
#include "run/nodes/nodes.h"

/* The part of a running job that concerns the other nodes. NULL without memory. */
struct tti_shutdown *tti_shutdown_open(const struct tti_nodes *nodes);
int tti_shutdown_fd(const struct tti_shutdown *shutdown);
/* Reports the outcome here, reads the messages of the other nodes, and ends the ranks after a failure. `local_done`: no
 * rank runs on this node any more. */
void tti_shutdown_step(struct tti_shutdown *shutdown, struct tti_job *job, bool local_done);
/* Reports that --timeout has passed here, before the ranks are ended: the others then print what their ranks are
 * doing. */
void tti_shutdown_announce_timeout(struct tti_shutdown *shutdown);
/* Whether the decision is known and no message is missing. */
bool tti_shutdown_is_done(const struct tti_shutdown *shutdown);
int tti_shutdown_exit_code(const struct tti_shutdown *shutdown);
void tti_shutdown_close(struct tti_shutdown *shutdown);

#endif
