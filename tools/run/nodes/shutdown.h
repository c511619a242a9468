/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_RUN_NODES_SHUTDOWN_H
#define TTI_RUN_NODES_SHUTDOWN_H

#include "run/job/job.h"
#include "run/nodes/nodes.h"

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
