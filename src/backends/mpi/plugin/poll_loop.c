/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting. MPI moves data only while somebody calls it, and has nothing to sleep on, so a wait is a loop of tests:
 * some at once, then each after giving the CPU to whoever wants it, and for what runs beside the application, with a
 * nap in between.
 */
#include <sched.h>
#include <time.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/clock.h"
#include "base/error.h"

#define POLLS_BEFORE_YIELD 512u  /* if every rank can have a CPU, else one; a power of two */
#define POLLS_BACKGROUND   64u   /* the same for what runs beside the application */
#define POLLS_BEFORE_NAP   4096u /* about a millisecond */
#define NAP_NS             50000
#define POLL_NS            1000000 /* between two looks for news from the others, which are rare */

void tti_mpi_poll_loop(struct tti_mpi_poll_loop *v, struct tti_mpi_group *g, int64_t begun_ns, int64_t timeout_ms,
                       bool background)
{
    *v = (struct tti_mpi_poll_loop){.group = g,
                                    .timeout_ms = timeout_ms,
                                    .started_ns = begun_ns,
                                    .mask = (g->size > tti_mpi_library.cpus ? 1
                                             : background                   ? POLLS_BACKGROUND
                                                                            : POLLS_BEFORE_YIELD) -
                                            1,
                                    .background = background};
}

int64_t tti_mpi_elapsed_ms(const struct tti_mpi_poll_loop *v)
{
    return (tti_now_ns() - v->started_ns) / 1000000;
}

tutti_status tti_mpi_poll_step(struct tti_mpi_poll_loop *v, tutti_error *error)
{
    if ((++v->polls & v->mask) != 0 && v->polls < POLLS_BEFORE_NAP) {
        return TUTTI_OK;
    }
    if (tti_mpi_has_failed(v->group)) {
        return tti_mpi_check(v->group, false, error);
    }
    const int64_t now = tti_now_ns();
    if (v->deadline_ns == 0) {
        v->started_ns = v->started_ns != 0 ? v->started_ns : now;
        v->deadline_ns = tti_deadline_ns(v->started_ns, v->timeout_ms);
        v->next_poll_ns = now + POLL_NS;
    }
    if (now >= v->next_poll_ns) {
        v->next_poll_ns = now + POLL_NS;
        tutti_status status = tti_mpi_check(v->group, true, error);
        if (status == TUTTI_OK && v->lane && !v->lane->ends_at_entry) {
            status = tti_mpi_poll_left(v->group, v->lane, error);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (now >= v->deadline_ns) {
        return TUTTI_TIMEOUT;
    }
    if (v->background && v->polls >= POLLS_BEFORE_NAP) {
        const struct timespec nap = {.tv_nsec = NAP_NS};
        nanosleep(&nap, NULL);
    } else {
        sched_yield();
    }
    return TUTTI_OK;
}
