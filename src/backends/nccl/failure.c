/* SPDX-License-Identifier: BSD-3-Clause */
/* The first failure of a group is its cause: it is recorded once and never changes. Errors of the library become
 * text. */
#include "backends/nccl/failure.h"

#include <stdio.h>

#include "base/error.h"

bool tti_nccl_record_cause(struct tti_nccl_group *g, const tutti_error *cause)
{
    pthread_mutex_lock(&g->lock);
    const bool first = atomic_load_explicit(&g->failed, memory_order_relaxed) == TUTTI_OK;
    if (first) {
        g->cause = *cause;
        g->cause.size = (uint32_t)sizeof(g->cause);
        g->cause.scope = TUTTI_SCOPE_GROUP;
        /* release: pairs with the acquire in tti_nccl_has_failed and tti_nccl_failure */
        atomic_store_explicit(&g->failed, cause->status != TUTTI_OK ? cause->status : TUTTI_INTERNAL,
                              memory_order_release);
    }
    pthread_mutex_unlock(&g->lock);
    return first;
}

bool tti_nccl_has_failed(const struct tti_nccl_group *g)
{
    /* acquire: pairs with the release in tti_nccl_record_cause, the cause is complete */
    return atomic_load_explicit(&g->failed, memory_order_acquire) != TUTTI_OK;
}

tutti_status tti_nccl_check(struct tti_nccl_group *g, tutti_error *error)
{
    if (!tti_nccl_has_failed(g)) {
        return TUTTI_OK;
    }
    tti_error_revoked(error, &g->cause);
    if (error) {
        error->vendor_code = g->cause.vendor_code; /* the library's */
    }
    return TUTTI_REVOKED;
}

tutti_status tti_nccl_failure(void *state, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    /* acquire: as in tti_nccl_has_failed */
    const tutti_status failed = atomic_load_explicit(&g->failed, memory_order_acquire);
    if (failed != TUTTI_OK && error) {
        *error = g->cause;
    }
    return failed;
}

void tti_nccl_error_text(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, char text[256])
{
    const char *name = library->GetErrorString(code);
    const char *last = library->GetLastError ? library->GetLastError(comm) : NULL;
    const bool more = last && last[0] != '\0' && code != TTI_NCCL_SUCCESS;
    snprintf(text, 256, "%.100s (%d)%s%.140s", name ? name : "unknown error", code, more ? ": " : "", more ? last : "");
}

tutti_status tti_nccl_error(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, const char *what,
                            tutti_error *error)
{
    char reason[256];
    tti_nccl_error_text(library, comm, code, reason);
    tti_error_set(error, TUTTI_BACKEND, "%s: nccl%s failed: %s", library->display_name, what, reason);
    if (error) {
        error->vendor_code = code;
    }
    return TUTTI_BACKEND;
}
