/* SPDX-License-Identifier: BSD-3-Clause */
/* What a group keeps for the ends that callbacks defer. */
#ifndef TTI_CORE_ASYNC_DEFERRED_ENDS_STATE_H
#define TTI_CORE_ASYNC_DEFERRED_ENDS_STATE_H

#include <pthread.h>

#include "core/async/worker.h"

struct tti_deferred;

struct tti_deferred_ends {
    pthread_mutex_t lock;
    struct tti_deferred *first; /* oldest first; under the lock */
    struct tti_deferred **end;
    struct tti_worker worker; /* started with the first work that has callbacks */
};

#endif
