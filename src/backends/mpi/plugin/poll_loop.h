/* SPDX-License-Identifier: BSD-3-Clause */
/* One wait as a loop of polls: when to test, to yield, to sleep and to end. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_POLL_LOOP_H
#define TTI_BACKENDS_MPI_PLUGIN_POLL_LOOP_H

#include "backends/mpi/plugin/types.h"

struct tti_mpi_poll_loop {
    struct tti_mpi_group *group;
    const struct tti_mpi_lane *lane; /* of a collective; NULL for messages */
    int64_t timeout_ms;
    int64_t started_ns;  /* 0: the first time that the clock is read */
    int64_t deadline_ns; /* 0: not computed yet, as next_poll_ns; a short wait reads no clock */
    int64_t next_poll_ns;
    uint32_t polls;
    uint32_t mask; /* of `polls`: all bits are 0 before each yield */
    bool background;
};

void tti_mpi_poll_loop_init(struct tti_mpi_poll_loop *loop, struct tti_mpi_group *g, int64_t begun_ns,
                            int64_t timeout_ms, bool background);
/* After a poll that found nothing. OK: poll again. TIMEOUT: the deadline has passed, and the caller writes the
 * sentence. Any other status: the group has failed, and the error is complete. */
tutti_status tti_mpi_poll_step(struct tti_mpi_poll_loop *loop, tutti_error *error);
int64_t tti_mpi_elapsed_ms(const struct tti_mpi_poll_loop *loop);

#endif
