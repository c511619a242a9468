/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plug-in's table of functions. C calls them, so none lets an exception out. An exception that arrives here has
 * interrupted an operation that other ranks wait in, so it fails the group.
 */
#include <gloo/config.h>

#include <cstdio>
#include <new>

#include "backends/gloo/plugin/collectives/data_movement.h"
#include "backends/gloo/plugin/collectives/reductions.h"
#include "backends/gloo/plugin/messages/messages.h"

using tti::Call;
using tti::Failure;
using tti::Group;
using tti::Messages;
using tti::Posting;

namespace
{

/* The exception as a status with its sentence. Only for catch blocks. */
tutti_status caught(tutti_error *error, int rank, const char *what) noexcept
{
    try {
        throw;
    } catch (const Failure &e) {
        if (error) {
            *error = e.error();
        }
        return e.error().status;
    } catch (const std::bad_alloc &) {
        const tutti_status status =
            tti_error_set(error, TUTTI_NO_MEMORY, "gloo: rank %d has no memory for %s", rank, what);
        if (error) {
            error->suspect = rank;
        }
        return status;
    } catch (const std::exception &e) {
        return tti_error_set(error, TUTTI_BACKEND, "gloo: %s: %.300s", what, e.what());
    } catch (...) {
        return tti_error_set(error, TUTTI_BACKEND, "gloo: %s: an exception of an unknown kind", what);
    }
}

/* Runs the function. An exception fails the group. */
template <class Function>
tutti_status guarded(Group *g, const char *what, tutti_error *error, Function function) noexcept
{
    try {
        return function();
    } catch (...) {
        const tutti_status status = caught(error, g->rank, what);
        error->scope = TUTTI_SCOPE_GROUP;
        g->fail(*error);
        return status;
    }
}

/* An open group and its messages. */
struct State {
    State(const tutti_open_info *info, int64_t deadline_ns) : group(info, deadline_ns)
    {
        messages = std::make_unique<Messages>(group);
        if (group.size > 1) {
            messages->begin();
            tti::handshake(group, deadline_ns);
        }
    }

    std::unique_ptr<Messages>
        messages; /* before the group: it is destroyed after the connections, which use its memory */
    Group group;
};

Group *group_of(void *state)
{
    return &static_cast<State *>(state)->group;
}

Messages &messages_of(void *state)
{
    return *static_cast<State *>(state)->messages;
}

extern "C" {

static int32_t gloo_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "Gloo %d.%d.%d over TCP", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    return 1;
}

static tutti_status gloo_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    try {
        *state = new State(info, tti_deadline_ns(tti_now_ns(), info->timeout_ms));
        return TUTTI_OK;
    } catch (...) {
        return caught(error, info->rank, "the connections of a group");
    }
}

static void gloo_close(void *state)
{
    try {
        delete static_cast<State *>(state);
    } catch (...) {
        fprintf(stderr, "tutti: gloo: closing a group failed\n");
    }
}

/* A list of its own, as in each backend: what runs an operation is the backend's to say. */
static const char *gloo_supports(void *state, const tutti_op *op)
{
    (void)state;
    if (op->on_device) {
        return nullptr;
    }
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_REDUCE_SCATTER:
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
    case TUTTI_OP_BARRIER:
        return "composed of Gloo's sends and receives";
    case TUTTI_OP_SEND:
    case TUTTI_OP_RECV:
        return "native";
    default:
        return nullptr;
    }
}

static tutti_status gloo_run(void *state, tutti_op *op, tutti_error *error)
{
    Group *g = group_of(state);
    return guarded(g, tutti_operation_name(op->kind), error, [&]() -> tutti_status {
        tti::Lane &lane = g->lane[static_cast<size_t>(op->lane)];
        op->sequence = lane.calls.fetch_add(1, std::memory_order_relaxed) + 1;
        const tutti_status status = g->check(error);
        if (status != TUTTI_OK) {
            return status;
        }
        if (g->size == 1) {
            if (op->failed == TUTTI_OK) {
                tti_run_solo(op);
            }
            return op->failed;
        }
        Call c(*g, op, error);
        const bool reduces =
            op->kind == TUTTI_OP_ALL_REDUCE || op->kind == TUTTI_OP_REDUCE || op->kind == TUTTI_OP_REDUCE_SCATTER;
        const tutti_status result = reduces ? tti::run_reduction(c) : tti::run_data_movement(c);
        c.close();
        return result;
    });
}

static tutti_status gloo_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 tutti_error *error)
{
    Group *g = group_of(state);
    return guarded(g, "messages", error, [&] { return messages_of(state).run(ops, count, timeout_ms, error); });
}

static tutti_status gloo_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                               tutti_error *error)
{
    Group *g = group_of(state);
    return guarded(g, "probe", error, [&] { return messages_of(state).probe(peer, tag, found, message, error); });
}

static size_t gloo_describe(void *state, char *text, size_t capacity)
{
    const Group *g = group_of(state);
    const int n =
        snprintf(text, capacity, "  gloo: %d.%d.%d over TCP; rank %d is %s\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                 GLOO_VERSION_PATCH, g->rank, g->address.empty() ? "alone, without connections" : g->address.c_str());
    return n > 0 ? static_cast<size_t>(n) : 0;
}

static tutti_status gloo_failure(void *state, tutti_error *error)
{
    Group *g = group_of(state);
    tutti_error own{};
    const tutti_status status = guarded(g, "polling for failures", &own, [&] { return g->failure(&own); });
    if (error && status != TUTTI_OK) {
        *error = own;
    }
    return status;
}

static void gloo_abort(void *state, int32_t lane, const tutti_error *cause)
{
    Group *g = group_of(state);
    tutti_error with = *cause;
    const int32_t awaited = lane >= 0 ? g->lane[static_cast<size_t>(lane)].awaited.load(std::memory_order_relaxed) : -1;
    if (awaited >= 0 && with.suspect < 0) {
        const size_t used = std::char_traits<char>::length(with.message);
        with.suspect = awaited;
        snprintf(with.message + used, sizeof(with.message) - used, "; rank %d has not arrived at the call before it",
                 awaited);
    }
    g->fail(with);
}

static tutti_status gloo_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                                  tutti_error *error)
{
    Group *g = group_of(state);
    tutti_error own{};
    const tutti_status status =
        guarded(g, "messages", &own, [&] { return messages_of(state).post(ops, count, timeout_ms, batch, &own); });
    if (error && status != TUTTI_OK) {
        *error = own;
    }
    return status;
}

static int32_t gloo_test_p2p(void *state, void *batch)
{
    Group *g = group_of(state);
    tutti_error error{};
    bool ended = false;
    guarded(g, "messages", &error, [&]() -> tutti_status {
        ended = messages_of(state).test(*static_cast<Posting *>(batch));
        return TUTTI_OK;
    });
    return ended;
}

static void gloo_attend_p2p(void *state, void *batch, int64_t until_ns)
{
    Group *g = group_of(state);
    tutti_error error{};
    guarded(g, "messages", &error, [&]() -> tutti_status {
        messages_of(state).attend(static_cast<Posting *>(batch), until_ns);
        return TUTTI_OK;
    });
}

static void gloo_wake_p2p(void *state)
{
    messages_of(state).wake();
}

static int32_t gloo_cancel_p2p(void *state, void *batch)
{
    Group *g = group_of(state);
    tutti_error error{};
    bool cancelled = false;
    guarded(g, "messages", &error, [&]() -> tutti_status {
        cancelled = messages_of(state).cancel(*static_cast<Posting *>(batch));
        return TUTTI_OK;
    });
    return cancelled;
}

static tutti_status gloo_end_p2p(void *state, void *batch, tutti_error *error)
{
    Group *g = group_of(state);
    tutti_error own{};
    const tutti_status status =
        guarded(g, "messages", &own, [&] { return messages_of(state).end(static_cast<Posting *>(batch), &own); });
    if (error && status != TUTTI_OK) {
        *error = own;
    }
    return status;
}

TUTTI_API const tutti_backend *tutti_backend_entry(void);

TUTTI_API const tutti_backend *tutti_backend_entry(void)
{
    static const tutti_backend_ops ops = [] {
        tutti_backend_ops o{};
        o.size = sizeof(o);
        o.available = gloo_available;
        o.open = gloo_open;
        o.close = gloo_close;
        o.supports = gloo_supports;
        o.run = gloo_run;
        o.run_p2p = gloo_run_p2p;
        o.probe = gloo_probe;
        o.describe = gloo_describe;
        o.failure = gloo_failure;
        o.abort = gloo_abort;
        o.post_p2p = gloo_post_p2p;
        o.test_p2p = gloo_test_p2p;
        o.attend_p2p = gloo_attend_p2p;
        o.wake_p2p = gloo_wake_p2p;
        o.cancel_p2p = gloo_cancel_p2p;
        o.end_p2p = gloo_end_p2p;
        return o;
    }();
    static const tutti_backend backend = {TUTTI_BACKEND_ABI,
                                          sizeof(backend),
                                          "gloo",
                                          40,
                                          TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE | TUTTI_CAP_SAME_BITS |
                                              TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL,
                                          &ops};
    return &backend;
}

} /* extern "C" */

} // namespace
