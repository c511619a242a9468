/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups without a backend; the test ends their operations. */
#ifndef TESTS_UNIT_CORE_ASYNC_EVENTS_SUPPORT_H
#define TESTS_UNIT_CORE_ASYNC_EVENTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "core/async/events.h"
#include "core/group/group_table.h"

static inline struct tti_group *group_make(void)
{
    struct tti_group *g = calloc(1, sizeof(*g));
    if (!g) {
        abort();
    }
    g->size = 1;
    pthread_mutex_init(&g->callback_lock, NULL);
    tti_events_list_init(&g->events);
    if (tti_handles_insert(&tti_groups, g, (void **)&g->handle, NULL) != TUTTI_OK) {
        abort();
    }
    return g;
}

/* BUSY if the group has other users; then it lives on. */
static inline tutti_status group_free(struct tti_group *g)
{
    tutti_status status = TUTTI_OK;
    if (!tti_group_acquire(g->handle, &status)) {
        return status;
    }
    status = tti_handles_retire(&tti_groups, g->handle);
    if (status != TUTTI_OK) {
        tti_group_release(g);
        return status;
    }
    tti_events_list_free(&g->events);
    pthread_mutex_destroy(&g->callback_lock);
    free(g);
    return TUTTI_OK;
}

/* What the end of an operation does. */
static inline void notify_end(struct tti_group *g, int64_t operation_id, tutti_status status)
{
    tutti_error error;
    tti_error_clear(&error);
    error.status = status;
    tutti_event event = {.size = (uint32_t)sizeof(event),
                         .status = status,
                         .operation = TUTTI_OP_BARRIER,
                         .operation_id = operation_id,
                         .error = &error};
    pthread_mutex_lock(&g->callback_lock);
    if (tti_events_newest(g) > 0) {
        tti_events_notify(g, &event, INT64_MAX, false);
    }
    pthread_mutex_unlock(&g->callback_lock);
}

#endif
