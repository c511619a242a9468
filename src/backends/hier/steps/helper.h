/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread of a lane: it runs one job at a time. */
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
    bool busy; /* a job is posted or runs */
    tutti_status (*job)(void *user, tutti_error *error);
    void *user;
    tutti_status status; /* of the last job */
    tutti_error error;
};

void tti_helper_init(struct tti_helper *h);
void tti_helper_end(struct tti_helper *h);

/* Posts a job to the thread. NO_RESOURCE: no thread can be started. */
tutti_status tti_helper_post(struct tti_helper *h, tutti_status (*job)(void *user, tutti_error *error), void *user,
                             tutti_error *error);

/* Waits for the end of the job. */
tutti_status tti_helper_wait(struct tti_helper *h, tutti_error *error);

#endif
