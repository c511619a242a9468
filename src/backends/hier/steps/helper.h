/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread of a lane: it runs its jobs in the order in which they were posted. */
#ifndef TTI_BACKENDS_HIER_STEPS_HELPER_H
#define TTI_BACKENDS_HIER_STEPS_HELPER_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/tutti.h>

struct tti_helper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    bool stop;
    bool runs_inline; /* jobs run when they are posted, on the caller's thread; written before the first one */
    tutti_status (*job)(void *user, tutti_error *error);
    void *user;
    unsigned posted; /* jobs; the numbers wrap */
    unsigned ended;
    unsigned awaited;
    tutti_status status; /* of the first job that failed since the caller awaited all */
    tutti_error error;
};

void tti_helper_init(struct tti_helper *h);
void tti_helper_end(struct tti_helper *h);

/* Posts a job to the thread, or runs it here (runs_inline): a call of `job`, which is the same for all jobs that have
 * not been awaited. If a job fails, those behind it do not run, and have its status. NO_RESOURCE: no thread can be
 * started. */
tutti_status tti_helper_post(struct tti_helper *h, tutti_status (*job)(void *user, tutti_error *error), void *user,
                             tutti_error *error);

/* Waits for the end of the first job that has not been awaited. */
tutti_status tti_helper_wait(struct tti_helper *h, tutti_error *error);

#endif
