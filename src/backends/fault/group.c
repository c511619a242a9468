/* SPDX-License-Identifier: BSD-3-Clause */
/* The failure of a group: what this rank's rules have recorded, else what the inner backend reports. */
#include "backends/fault/group.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

uint32_t tti_fault_group_capabilities(const struct tti_fault_group *s)
{
    const uint32_t inner =
        s->backend->ops->capabilities ? s->backend->ops->capabilities(s->inner) : s->backend->capabilities;
    return inner & ~(uint32_t)(TUTTI_CAP_RECOVER | TUTTI_CAP_GROW); /* rules do not cover them */
}

static bool has_failed_here(const struct tti_fault_group *s)
{
    /* acquire: pairs with the release in tti_fault_group_record, the cause is complete */
    return atomic_load_explicit(&s->failed, memory_order_acquire) != 0;
}

tutti_status tti_fault_group_failure(struct tti_fault_group *s, tutti_error *error)
{
    if (!has_failed_here(s)) {
        return s->backend->ops->failure ? s->backend->ops->failure(s->inner, error) : tti_error_clear(error);
    }
    if (error) {
        *error = s->failure;
    }
    return s->failure.status;
}

void tti_fault_group_record(struct tti_fault_group *s, const tutti_error *cause)
{
    pthread_mutex_lock(&s->lock);
    if (tti_fault_group_failure(s, NULL) == TUTTI_OK) {
        s->failure = *cause;
        /* release: pairs with the acquire in has_failed_here */
        atomic_store_explicit(&s->failed, 1, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
}

void tti_fault_group_abort(struct tti_fault_group *s, int32_t lane, const tutti_error *cause)
{
    if (s->backend->ops->abort) {
        s->backend->ops->abort(s->inner, lane, cause); /* its cause also names the missing ranks */
    } else {
        tti_fault_group_record(s, cause);
    }
}

tutti_status tti_fault_group_check(struct tti_fault_group *s, tutti_error *error)
{
    if (!has_failed_here(s)) {
        return TUTTI_OK;
    }
    tutti_error cause;
    tti_fault_group_failure(s, &cause);
    return tti_error_revoked(error, &cause);
}
