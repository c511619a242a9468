/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for MPI. MPI makes progress only inside its calls and offers no event to sleep on, so a wait is a loop of
 * tests. The first tests follow one another at once. Later ones yield the CPU in between. A wait in the background,
 * beside the application, also sleeps for 50 us after about a millisecond.
 */
#include "backends/mpi/plugin/poll_loop.h"

#include <sched.h>
#include <time.h>

#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/library/library.h"
#include "base/clock.h"

#define POLLS_BEFORE_YIELD 512u  /* if every rank can have a CPU, else 1; a power of two */
#define POLLS_BACKGROUND   64u   /* the same for a wait beside the application */
#define POLLS_BEFORE_SLEEP 4096u /* about a millisecond */
#define SLEEP_NS           50000
#define NOTICES_NS         1000000 /* between two polls for failure notices, which are rare */

/* A power of two. */
static uint32_t polls_between_yields(int size, bool background)
{
    if (size > tti_mpi_library.cpus) {
        return 1; /* a peer may need this CPU */
    }
    return background ? POLLS_BACKGROUND : POLLS_BEFORE_YIELD;
}

void tti_mpi_poll_loop_init(struct tti_mpi_poll_loop *loop, struct tti_mpi_group *g, int64_t begun_ns,
                            int64_t timeout_ms, bool background)
{
    *loop = (struct tti_mpi_poll_loop){.group = g,
                                       .timeout_ms = timeout_ms,
                                       .started_ns = begun_ns,
                                       .mask = polls_between_yields(g->size, background) - 1,
                                       .background = background};
}

int64_t tti_mpi_elapsed_ms(const struct tti_mpi_poll_loop *loop)
{
    return (tti_now_ns() - loop->started_ns) / 1000000;
}

/* For failures that another rank reports, and for ranks that have closed the group or left this call, from time to
 * time. */
static tutti_status poll_notices(struct tti_mpi_poll_loop *loop, int64_t now, tutti_error *error)
{
    if (now < loop->next_poll_ns) {
        return TUTTI_OK;
    }
    loop->next_poll_ns = now + NOTICES_NS;
    tutti_status status = tti_mpi_check(loop->group, true, error);
    if (status == TUTTI_OK && loop->lane) {
        status = tti_mpi_poll_closed(loop->group, loop->lane, error);
    }
    const bool can_miss_ranks = loop->lane && !loop->lane->ends_at_entry; /* the call goes on after its entry */
    return status == TUTTI_OK && can_miss_ranks ? tti_mpi_poll_left(loop->group, loop->lane, error) : status;
}

tutti_status tti_mpi_poll_step(struct tti_mpi_poll_loop *loop, tutti_error *error)
{
    if ((++loop->polls & loop->mask) != 0 && loop->polls < POLLS_BEFORE_SLEEP) {
        return TUTTI_OK;
    }
    if (tti_mpi_has_failed(loop->group)) {
        return tti_mpi_check(loop->group, false, error);
    }
    const int64_t now = tti_now_ns();
    if (loop->deadline_ns == 0) {
        loop->started_ns = loop->started_ns != 0 ? loop->started_ns : now;
        loop->deadline_ns = tti_deadline_ns(loop->started_ns, loop->timeout_ms);
        loop->next_poll_ns = now + NOTICES_NS;
    }
    const tutti_status status = poll_notices(loop, now, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (now >= loop->deadline_ns) {
        return TUTTI_TIMEOUT;
    }
    if (loop->background && loop->polls >= POLLS_BEFORE_SLEEP) {
        const struct timespec pause = {.tv_nsec = SLEEP_NS};
        nanosleep(&pause, NULL);
    } else {
        sched_yield();
    }
    return TUTTI_OK;
}
