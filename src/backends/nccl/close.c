/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing a group: the communicators of all lanes end at the same time, then the memory of the device is freed. */
#include "backends/nccl/close.h"

#include <stdlib.h>

#include "backends/nccl/communicator/communicator.h"
#include "backends/nccl/communicator/teardown.h"
#include "backends/nccl/failure.h"
#include "backends/nccl/memory.h"
#include "base/clock.h"

/* The library may still use any memory of such a group: it stays, reachable for leak checkers. */
static void keep_leaked(struct tti_nccl_group *g)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct tti_nccl_group *leaked_groups;
    pthread_mutex_lock(&lock);
    g->next_leaked = leaked_groups;
    leaked_groups = g;
    pthread_mutex_unlock(&lock);
}

static void free_device_memory(const struct tti_nccl_group *g, struct tti_nccl_lane *lane)
{
    const struct tti_device *device = g->device;
    if (lane->event) {
        device->event_destroy(lane->event, NULL);
    }
    if (lane->stream) {
        device->stream_destroy(lane->stream, NULL);
    }
    tti_device_release(device, g->index, lane->barrier_word, false);
    tti_device_release(device, g->index, lane->scratch, false);
    for (int32_t i = 0; i < lane->outgrown_count; i++) {
        tti_device_release(device, g->index, lane->outgrown[i], false);
    }
}

void tti_nccl_close(void *state)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    const bool failed = tti_nccl_has_failed(g);
    const bool entered = g->device->enter(g->index, &scope, NULL) == TUTTI_OK;
    bool ended = true;
    tti_nccl_heap_leave(g);
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_nccl_comm_end(g, &g->lane[i], !failed);
    }
    const int64_t deadline_ns = tti_now_ns() + 2 * TTI_NCCL_TEARDOWN_NS; /* to finalise, and to abort */
    for (int32_t i = 0; i < g->lanes; i++) {
        ended = tti_nccl_comm_await_end(&g->lane[i], deadline_ns) && ended;
    }
    if (!ended) {
        keep_leaked(g);
    } else {
        for (int32_t i = 0; i < g->lanes; i++) {
            if (entered) {
                free_device_memory(g, &g->lane[i]);
            }
            tti_nccl_lane_destroy(&g->lane[i]);
        }
        tti_nccl_heap_close(g);
        pthread_mutex_destroy(&g->lock);
    }
    if (entered) {
        g->device->leave(&scope);
    }
    if (ended) {
        free(g);
    }
}
