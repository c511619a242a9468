/* SPDX-License-Identifier: BSD-3-Clause */
/* A group of the backend fault: the group of the inner backend, the rules, and a failure that the rules cause. */
#ifndef TTI_BACKENDS_FAULT_GROUP_H
#define TTI_BACKENDS_FAULT_GROUP_H

#include <pthread.h>

#include "backends/fault/rules.h"

struct tti_fault_group {
    const tutti_backend *backend; /* the inner one */
    void *inner;                  /* its state     */
    int32_t rank;
    int32_t size;
    struct tti_rules rules;
    char text[400]; /* the rules as the user wrote them */

    /* The failure that this rank's rules caused, or that the inner backend cannot be given. */
    pthread_mutex_t lock;
    _Atomic int32_t failed; /* 1: `failure` is complete and never changes */
    tutti_error failure;
};

uint32_t tti_fault_group_capabilities(const struct tti_fault_group *s);

/* As tutti_backend_ops.abort. */
void tti_fault_group_abort(struct tti_fault_group *s, int32_t lane, const tutti_error *cause);

/* As tutti_backend_ops.failure; *error is written in any case, NULL allowed. */
tutti_status tti_fault_group_failure(struct tti_fault_group *s, tutti_error *error);

/* Records the cause on this rank, unless the group has failed already. */
void tti_fault_group_record(struct tti_fault_group *s, const tutti_error *cause);

/* REVOKED if a failure is recorded on this rank. */
tutti_status tti_fault_group_check(struct tti_fault_group *s, tutti_error *error);

#endif
