/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread of a lane. It runs the steps between hosts while the lane's own thread runs those inside the host.
 * It is started when a lane first has a tensor of several chunks, and sleeps on a condition variable between jobs: a
 * job takes a network's time, so the wake-up does not count. For an engine that no other thread may enter there is no
 * thread: a job runs when it is posted.
 */
#include "backends/hier/steps/helper.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/process/thread.h"

void tti_helper_init(struct tti_helper *h)
{
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
}

static void *serve(void *argument)
{
    struct tti_helper *h = argument;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (h->ended == h->posted && !h->stop) {
            pthread_cond_wait(&h->changed, &h->lock);
        }
        if (h->ended == h->posted) {
            break;
        }
        if (h->status == TUTTI_OK) {
            pthread_mutex_unlock(&h->lock);
            const tutti_status status = h->job(h->user, &h->error);
            pthread_mutex_lock(&h->lock);
            h->status = status;
        }
        h->ended++;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static tutti_status start(struct tti_helper *h, tutti_error *error)
{
    const int code = tti_thread_create(&h->thread, NULL, serve, h);
    h->started = code == 0;
    return code == 0 ? TUTTI_OK : tti_error_system(error, code, "no thread for the steps between hosts can be started");
}

void tti_helper_end(struct tti_helper *h)
{
    if (h->started) {
        pthread_mutex_lock(&h->lock);
        h->stop = true;
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->thread, NULL);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

tutti_status tti_helper_post(struct tti_helper *h, tutti_status (*job)(void *user, tutti_error *error), void *user,
                             tutti_error *error)
{
    pthread_mutex_lock(&h->lock);
    const tutti_status status = h->started || h->runs_inline ? TUTTI_OK : start(h, error);
    if (status == TUTTI_OK) {
        if (h->posted == h->awaited) { /* the thread is idle */
            tti_error_clear(&h->error);
            h->status = TUTTI_OK;
            h->job = job;
            h->user = user;
        }
        h->posted++;
        if (h->runs_inline) {
            h->status = h->status == TUTTI_OK ? job(user, &h->error) : h->status;
            h->ended++;
        }
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

tutti_status tti_helper_wait(struct tti_helper *h, tutti_error *error)
{
    pthread_mutex_lock(&h->lock);
    while (h->ended == h->awaited) {
        pthread_cond_wait(&h->changed, &h->lock);
    }
    h->awaited++;
    /* perhaps of a later job that has failed meanwhile: the call fails in any case */
    const tutti_status status = h->status;
    if (status != TUTTI_OK) {
        *error = h->error;
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}
