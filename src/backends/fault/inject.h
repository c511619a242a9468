/* SPDX-License-Identifier: BSD-3-Clause */
/* Doing what the rules say: waiting, failing, not taking part. */
#ifndef TTI_BACKENDS_FAULT_INJECT_H
#define TTI_BACKENDS_FAULT_INJECT_H

#include <pthread.h>

#include "backends/fault/rules.h"

/* The state of a group. */
struct tti_fault_group {
    const tutti_backend *backend; /* the inner one */
    void *inner;                  /* its state     */
    int32_t rank;
    int32_t size;
    struct tti_rules rules;
    char text[400]; /* the rules as they were written */

    /* What this rank's rules have failed the group with, or what the inner backend could not be told. */
    pthread_mutex_t lock;
    _Atomic int32_t failed; /* 1: `failure` is written and stays as it is */
    tutti_error failure;
};

uint32_t tti_fault_group_capabilities(const struct tti_fault_group *s);

/* As tutti_backend_ops.abort. */
void tti_fault_group_abort(struct tti_fault_group *s, int32_t lane, const tutti_error *cause);

/* As tutti_backend_ops.failure; *error is written in any case, NULL allowed. */
tutti_status tti_fault_group_failure(struct tti_fault_group *s, tutti_error *error);

/* REVOKED if the group has failed by what is remembered here. */
tutti_status tti_fault_group_check(struct tti_fault_group *s, tutti_error *error);

/* Runs a collective as the rules want it. */
tutti_status tti_inject_run(struct tti_fault_group *s, tutti_op *op, tutti_error *error);

/* What comes before messages are posted together. OK: go on and post them; else nothing is to be posted, and the status
 * of each op is written. */
tutti_status tti_inject_messages(struct tti_fault_group *s, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 tutti_error *error);

#endif
