/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: fault injection. A group of this backend passes every call on to a group of another backend, the inner one,
 * and rules delay, slow down or fail the operations on the way. See docs/fault.md.
 *
 * The table has no start, poll and finish, so that every collective is a call of run, which may sleep.
 */
#include "backends/fault/fault.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/inject.h"
#include "backends/fault/inner.h"
#include "base/error.h"
#include "base/text.h"

static int32_t available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", "always (fault.backend names the backend that it wraps)");
    return 1;
}

static tutti_status prepare(const tutti_open_info *info, struct tti_fault_group *s, tutti_error *error)
{
    const char *rules = info->setting(info->settings, "fault.rules");
    rules = rules ? rules : "";
    tutti_status status = tti_inner_find(info, &tti_backend_fault, &s->backend, error);
    if (status == TUTTI_OK && strlen(rules) >= sizeof(s->text)) {
        status =
            tti_error_set(error, TUTTI_INVALID_ARGUMENT, "fault.rules is longer than %zu bytes", sizeof(s->text) - 1);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    s->rank = info->rank;
    s->size = info->world_size;
    snprintf(s->text, sizeof(s->text), "%s", rules);
    return tti_rules_parse(rules, &s->rules, error);
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    tutti_error details;
    struct tti_fault_group *s = calloc(1, sizeof(*s));
    tutti_status status = s ? prepare(info, s, &details) : tti_error_set(&details, TUTTI_NO_MEMORY, "no memory");
    status = tti_inner_agree(info, s ? s->backend : NULL, status, &details);
    if (s && status == TUTTI_OK) {
        const struct tti_fault_group *parent = info->parent_state;
        tutti_open_info inner = *info;
        inner.parent_state = parent && parent->backend == s->backend ? parent->inner : NULL;
        status = s->backend->ops->open(&inner, &s->inner, &details);
    }
    if (!s || status != TUTTI_OK) {
        if (error) {
            *error = details;
        }
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    *state = s;
    return TUTTI_OK;
}

static void close_group(void *state)
{
    struct tti_fault_group *s = state;
    s->backend->ops->close(s->inner);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const char *supports(void *state, const tutti_op *op)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->supports(s->inner, op);
}

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    return tti_inject_run(state, op, error);
}

static tutti_status no_messages(const struct tti_fault_group *s, const char *what, tutti_error *error)
{
    return tti_error_set(error, TUTTI_UNSUPPORTED, "backend %s, which fault wraps, has no %s", s->backend->name, what);
}

static tutti_status run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    struct tti_fault_group *s = state;
    if (!s->backend->ops->run_p2p) {
        return no_messages(s, "messages between ranks", error);
    }
    tutti_status status = tti_inject_messages(s, ops, count, timeout_ms, error);
    return status == TUTTI_OK ? s->backend->ops->run_p2p(s->inner, ops, count, timeout_ms, error) : status;
}

static tutti_status probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                          tutti_error *error)
{
    struct tti_fault_group *s = state;
    if (!s->backend->ops->probe) {
        return no_messages(s, "probe for messages", error);
    }
    tutti_status status = tti_fault_group_check(s, error);
    return status == TUTTI_OK ? s->backend->ops->probe(s->inner, peer, tag, found, message, error) : status;
}

static size_t describe(void *state, char *text, size_t capacity)
{
    struct tti_fault_group *s = state;
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t, "  fault: over %s; rules: %s\n", s->backend->name, s->rules.count > 0 ? s->text : "none");
    if (s->backend->ops->describe) {
        t.length += s->backend->ops->describe(s->inner, tti_text_end(&t), tti_text_room(&t));
    }
    return t.length;
}

static tutti_status failure(void *state, tutti_error *error)
{
    return tti_fault_group_failure(state, error);
}

static uint32_t capabilities(void *state)
{
    return tti_fault_group_capabilities(state);
}

static void abort_group(void *state, int32_t lane, const tutti_error *cause)
{
    tti_fault_group_abort(state, lane, cause);
}

/* ---- messages in two steps: the rules apply when messages are posted --------------------------------------------- */

static tutti_status post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                             tutti_error *error)
{
    struct tti_fault_group *s = state;
    if (!s->backend->ops->post_p2p) {
        return no_messages(s, "asynchronous messages", error);
    }
    tutti_status status = ops[0]->kind == TUTTI_OP_PROBE
                              ? tti_fault_group_check(s, error) /* a probe is never posted with others */
                              : tti_inject_messages(s, ops, count, timeout_ms, error);
    return status == TUTTI_OK ? s->backend->ops->post_p2p(s->inner, ops, count, timeout_ms, batch, error) : status;
}

static int32_t test_p2p(void *state, void *batch)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->test_p2p(s->inner, batch);
}

static void attend_p2p(void *state, void *batch, int64_t until_ns)
{
    struct tti_fault_group *s = state;
    if (s->backend->ops->attend_p2p) {
        s->backend->ops->attend_p2p(s->inner, batch, until_ns);
    }
}

static void wake_p2p(void *state)
{
    struct tti_fault_group *s = state;
    if (s->backend->ops->wake_p2p) {
        s->backend->ops->wake_p2p(s->inner);
    }
}

static int32_t cancel_p2p(void *state, void *batch)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->cancel_p2p(s->inner, batch);
}

static tutti_status end_p2p(void *state, void *batch, tutti_error *error)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->end_p2p(s->inner, batch, error);
}

static const char *algorithm(void *state, int32_t lane)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->algorithm ? s->backend->ops->algorithm(s->inner, lane) : NULL;
}

/* ---- the heap: the core checks the capabilities first, which are the inner backend's ----------------------------- */

static tutti_status alloc_memory(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                                 tutti_error *error)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->alloc(s->inner, bytes, exchange, memory, error);
}

static tutti_status release_memory(void *state, void *memory, tutti_error *error)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->release(s->inner, memory, error);
}

static tutti_status register_memory(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                                    tutti_error *error)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->register_memory(s->inner, memory, bytes, exchange, error);
}

static tutti_status unregister_memory(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error)
{
    struct tti_fault_group *s = state;
    return s->backend->ops->unregister_memory(s->inner, memory, exchange, error);
}

static const tutti_backend_ops ops = {
    .size = sizeof(tutti_backend_ops),
    .available = available,
    .open = open_group,
    .close = close_group,
    .supports = supports,
    .run = run,
    .run_p2p = run_p2p,
    .probe = probe,
    .describe = describe,
    .failure = failure,
    .capabilities = capabilities,
    .abort = abort_group,
    .post_p2p = post_p2p,
    .test_p2p = test_p2p,
    .attend_p2p = attend_p2p,
    .wake_p2p = wake_p2p,
    .cancel_p2p = cancel_p2p,
    .end_p2p = end_p2p,
    .alloc = alloc_memory,
    .release = release_memory,
    .register_memory = register_memory,
    .unregister_memory = unregister_memory,
    .algorithm = algorithm,
};

/* No static capabilities: they depend on the inner backend. `capabilities` returns a group's, and tti_inner_agree
 * checks hosts and processes. */
const tutti_backend tti_backend_fault = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "fault",
    .priority = -2, /* "auto" never chooses it */
    .ops = &ops,
};
