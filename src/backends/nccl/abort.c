/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group fails. A communicator that has lost a rank, or whose ranks are out of step, cannot be used again, and its
 * kernels wait for ever. So the first rank to detect a failure records the cause and aborts every lane's communicator,
 * which ends the kernels. The other ranks get an error from the library if a connection breaks, or reach their
 * deadlines.
 */
#include "backends/nccl/abort.h"

#include <stdio.h>
#include <string.h>

#include "backends/nccl/communicator/backoff.h"
#include "backends/nccl/communicator/teardown.h"
#include "backends/nccl/failure.h"
#include "base/clock.h"

void tti_nccl_fail(struct tti_nccl_group *g, const tutti_error *cause)
{
    if (tti_nccl_record_cause(g, cause)) {
        for (int32_t i = 0; i < g->lanes; i++) {
            tti_nccl_comm_end(g, &g->lane[i], false);
        }
    }
}

void tti_nccl_abort(void *state, int32_t lane, const tutti_error *cause)
{
    (void)lane; /* the library does not say which rank is late in it */
    tti_nccl_fail(state, cause);
}

static void append(tutti_error *error, const char *text)
{
    const size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof(error->message) - used, "%s", text);
}

/* Whether the device has ended all work on the lane's stream by the deadline. */
static bool await_stream(struct tti_nccl_call *c, int64_t deadline_ns)
{
    const struct tti_device *device = c->group->device;
    struct tti_nccl_backoff backoff = {.background = true};
    int32_t done = 0;
    if (device->event_record(c->lane->event, c->lane->stream, NULL) != TUTTI_OK) {
        return true; /* the device has failed: it runs nothing any more */
    }
    while (device->event_query(c->lane->event, &done, NULL) == TUTTI_OK && !done) {
        if (tti_nccl_backoff_step(&backoff) && tti_now_ns() >= deadline_ns) {
            return false;
        }
    }
    return true;
}

void tti_nccl_abort_call(struct tti_nccl_call *c, tutti_status status)
{
    struct tti_nccl_group *g = c->group;
    struct tti_nccl_lane *lane = c->lane;
    c->error->scope = TUTTI_SCOPE_GROUP;
    if (status != TUTTI_TIMEOUT && g->wait_registry) { /* after a TIMEOUT find_missing has reported already */
        g->wait_registry->report(g->wait_registry->self, c->op, c->error);
    }
    if (status != TUTTI_REVOKED) {
        tti_nccl_fail(g, c->error);
    }
    const int64_t deadline_ns = tti_now_ns() + TTI_NCCL_TEARDOWN_NS;
    const bool ended = tti_nccl_comm_await_end(lane, deadline_ns);
    const bool idle = await_stream(c, ended ? tti_now_ns() + TTI_NCCL_TEARDOWN_NS : tti_now_ns());
    if (!ended) {
        append(c->error, "; ncclCommAbort has not returned, so the communicator is left behind");
    }
    if (!idle) {
        c->op->in_use = 1;
        tti_device_note_late(g->device, g->index, lane->event, lane->stream);
        lane->event = lane->stream = NULL; /* no call follows: the group has failed */
        append(c->error, "; the device may still use the tensors");
    }
}
