/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/p2p/message_rules.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

void tti_message_describe(const tutti_op *op, char *text, size_t capacity)
{
    char peer[32] = "any rank";
    char tag[32] = "any tag";
    if (op->root != TUTTI_ANY_SOURCE) {
        snprintf(peer, sizeof(peer), "rank %d", op->root);
    }
    if (op->p2p_tag != TUTTI_ANY_TAG) {
        snprintf(tag, sizeof(tag), "tag %d", op->p2p_tag);
    }
    const char *const verb = op->kind == TUTTI_OP_SEND    ? "send to"
                             : op->kind == TUTTI_OP_PROBE ? "probe of"
                                                          : "recv from";
    snprintf(text, capacity, "%s %s, %s", verb, peer, tag);
}

tutti_status tti_message_failure(tutti_error *error, const tutti_op *op, tutti_status status,
                                 const tutti_message *matched, int rank)
{
    char what[96];
    tti_message_describe(op, what, sizeof(what));
    if (status == TUTTI_MISMATCH) {
        tti_error_set(error, status,
                      "%s: the message from rank %d has %lld elements of %s, the tensor holds %zu of %s; the message "
                      "stays receivable",
                      what, matched->source, (long long)matched->count, tutti_dtype_name(matched->dtype), op->count,
                      tutti_dtype_name(op->dtype));
    } else if (status == TUTTI_CANCELLED) {
        tti_error_set(error, status, "%s: cancelled by rank %d before it began", what, rank);
    } else if (status == TUTTI_PEER_LEFT) {
        tti_error_set(error, status, "%s: the peer has destroyed its group, or its process has ended", what);
    } else {
        tti_error_set(error, status, "%s: %s", what, tutti_status_string(status));
    }
    error->suspect = matched->size != 0 ? matched->source : op->root;
    return status;
}

tutti_status tti_message_late(tutti_error *error, const tutti_op *op, int rank, int64_t begun_ns, int64_t timeout_ms)
{
    char what[96];
    const int64_t elapsed = (tti_now_ns() - begun_ns) / 1000000;
    tti_message_describe(op, what, sizeof(what));
    tti_error_set(error, TUTTI_TIMEOUT, "%s: rank %d waited %lld ms, the deadline was %lld ms", what, rank,
                  (long long)elapsed, (long long)timeout_ms);
    error->suspect = op->root;
    error->elapsed_ms = elapsed;
    error->scope = TUTTI_SCOPE_GROUP;
    return TUTTI_TIMEOUT;
}
