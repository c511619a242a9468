/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend's functions for messages: posting, polling, waiting, cancelling. */
#include <algorithm>
#include <new>

#include "backends/gloo/plugin/messages/messages.h"

namespace tti
{

static std::string text_of(const tutti_op &op)
{
    char text[96];
    tti_message_describe(&op, text, sizeof(text));
    return text;
}

/* Under the lock. The group has failed with p.error: ends all open requests. */
void Messages::end_all(Posting &p, tutti_status status)
{
    p.status = status;
    for (Request &r : p.requests) {
        withdraw(r, status);
    }
}

/* Under the lock. The deadline has passed while a request was open: fails the group. */
void Messages::end_late(Posting &p)
{
    const auto late = std::find_if(p.requests.begin(), p.requests.end(), [](const Request &r) { return !r.done; });
    tti_message_late(&p.error, late->op, group_.rank, p.begun_ns, p.timeout_ms);
    group_.fail(p.error);
    end_all(p, TUTTI_TIMEOUT);
}

/* Under the lock. An exception has interrupted the posting. A message of another one may be lost, too, so the group
 * fails. No list keeps a request of this posting, which may go out of scope. */
void Messages::end_by_exception(const std::exception &e, Posting &p)
{
    if (dynamic_cast<const std::bad_alloc *>(&e)) {
        tti_error_set(&p.error, TUTTI_NO_MEMORY, "gloo: rank %d has no memory for messages", group_.rank);
    } else {
        tti_error_set(&p.error, TUTTI_BACKEND, "gloo: messages: %.300s", e.what());
    }
    p.error.suspect = group_.rank;
    p.error.scope = TUTTI_SCOPE_GROUP;
    group_.fail(p.error);
    end_all(p, p.error.status);
}

/* The rank whose lost connection ends a receive from `from`, or a send to it; -1: none. Another rank may still send
 * what any rank may send, unless all have left. */
int Messages::lost_peer(int from) const
{
    int left = -1;
    int others = group_.size - 1;
    for (int peer = 0; peer < group_.size; peer++) {
        const bool is_wanted = from == peer || from == TUTTI_ANY_SOURCE;
        if (!is_wanted || peer == group_.rank || !group_.mesh->is_lost(peer)) {
            continue;
        }
        if (from != TUTTI_ANY_SOURCE || group_.has_failed() || !group_.has_left(peer)) {
            return peer;
        }
        left = peer;
        others--;
    }
    return others == 0 ? left : -1;
}

/* The same, after the notifications of which ranks have left, and with all messages that arrived before the loss. */
int Messages::settled_lost_peer(int from)
{
    if (!group_.mesh || lost_peer(from) < 0) {
        return -1;
    }
    group_.poll_notifications();
    const int lost = lost_peer(from);
    if (lost >= 0) {
        progress();
    }
    return lost;
}

/* Under the lock. Ends the posting if it waits for a rank whose connection is lost. Messages that arrived before are
 * delivered. */
void Messages::end_lost(Posting &p)
{
    for (size_t i = 0; i < p.requests.size() && p.open > 0; i++) {
        const Request &r = p.requests[i];
        if (r.done) {
            continue;
        }
        const int lost = settled_lost_peer(r.received.size != 0 ? r.received.source : r.op->root);
        if (lost >= 0 && !r.done) {
            end_all(p, group_.fail_by_lost_peer(lost, text_of(*r.op), &p.error));
        }
    }
}

/* Under the lock. One poll; true if the posting has ended. */
bool Messages::poll(Posting &p)
{
    if (p.open > 0) {
        progress();
    }
    if (p.open > 0) {
        group_.poll_notifications();
        const tutti_status status = group_.check(&p.error);
        if (status != TUTTI_OK) {
            end_all(p, status);
        }
    }
    end_lost(p);
    if (p.open > 0 && p.deadline_ns != TTI_NEVER && tti_now_ns() >= p.deadline_ns) {
        end_late(p);
    }
    return p.open == 0;
}

tutti_status Messages::start(Posting &p, tutti_op *const *ops, size_t count, int64_t timeout_ms)
{
    const tutti_status status = group_.check(&p.error);
    if (status != TUTTI_OK) {
        return status;
    }
    p.requests.resize(count);
    p.open = count;
    p.begun_ns = ops[0]->begun_ns != 0 ? ops[0]->begun_ns : tti_now_ns();
    p.timeout_ms = timeout_ms;
    p.deadline_ns = tti_deadline_ns(p.begun_ns, timeout_ms);
    for (size_t i = 0; i < count; i++) {
        p.requests[i].op = ops[i];
        p.requests[i].posting = &p;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    try {
        for (Request &r : p.requests) {
            r.op->sequence = ++sequence_;
            if (r.op->kind == TUTTI_OP_SEND) {
                post_send(r);
            } else {
                post_recv(r);
            }
        }
        if (p.open > 0) {
            progress();
        }
    } catch (const std::exception &e) {
        end_by_exception(e, p);
    }
    return p.status;
}

/* Writes all statuses. The error is that of the first operation that failed. */
tutti_status Messages::result(Posting &p, tutti_error *error)
{
    tutti_status status = p.status;
    for (Request &r : p.requests) {
        r.op->status = r.status;
        if (status != TUTTI_OK || r.status == TUTTI_OK) {
            continue;
        }
        status = tti_message_failure(&p.error, r.op, r.status, &r.received, group_.rank);
    }
    if (status != TUTTI_OK) {
        *error = p.error;
    }
    return status;
}

tutti_status Messages::run(tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    Posting p;
    const tutti_status status = start(p, ops, count, timeout_ms);
    if (status != TUTTI_OK) {
        *error = p.error;
        return status;
    }
    try {
        attend(&p, TTI_NEVER);
    } catch (const std::exception &e) {
        const std::lock_guard<std::mutex> guard(lock_);
        end_by_exception(e, p);
    }
    return result(p, error);
}

tutti_status Messages::post(tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch, tutti_error *error)
{
    auto p = std::make_unique<Posting>();
    const tutti_status status = start(*p, ops, count, timeout_ms);
    if (status != TUTTI_OK) {
        *error = p->error;
        return status;
    }
    *batch = p.release();
    return TUTTI_OK;
}

bool Messages::test(Posting &p)
{
    const std::lock_guard<std::mutex> guard(lock_);
    return poll(p);
}

void Messages::attend(Posting *p, int64_t until_ns)
{
    for (;;) {
        const uint32_t seen = group_.doorbell().value();
        int64_t until = until_ns;
        if (p) {
            if (test(*p)) {
                return;
            }
            until = std::min(until, p->deadline_ns);
        } else {
            {
                const std::lock_guard<std::mutex> guard(lock_);
                progress();
            }
            group_.poll_notifications();
            /* acquire: pairs with the release in finish and wake. A change since the last return may be newer than the
             * worker's last poll, so it ends this wait, too. */
            const uint32_t changes = changes_.load(std::memory_order_acquire);
            const bool changed = changes != changes_seen_;
            changes_seen_ = changes;
            const uint32_t losses = group_.losses();
            const bool lost = losses != losses_seen_;
            losses_seen_ = losses;
            if (changed || lost || group_.has_failed()) {
                return;
            }
        }
        if (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) {
            return;
        }
        group_.doorbell().wait(seen, until);
    }
}

void Messages::wake()
{
    changes_.fetch_add(1, std::memory_order_release);
    group_.doorbell().ring();
}

bool Messages::cancel(Posting &p)
{
    bool before = true;
    bool begun = false;
    const std::lock_guard<std::mutex> guard(lock_);
    for (const Request &r : p.requests) {
        before = before && r.done && r.status == TUTTI_CANCELLED;
        begun = begun || r.done || has_begun(r);
    }
    for (Request &r : p.requests) {
        if (!begun) {
            withdraw(r, TUTTI_CANCELLED);
        }
    }
    return !begun || before;
}

tutti_status Messages::end(Posting *p, tutti_error *error)
{
    const std::unique_ptr<Posting> owner(p);
    return result(*p, error);
}

/* Under the lock. The oldest message that matches and has no receive; NULL: none. */
const IncomingMessage *Messages::find_unexpected(const tutti_op &wanted) const
{
    const auto i = std::find_if(unexpected_.begin(), unexpected_.end(),
                                [&wanted](const IncomingMessage &incoming) { return matches(wanted, incoming); });
    return i == unexpected_.end() ? nullptr : &*i;
}

/* A rank that probes in a loop learns of a death, as a rank that waits does. A peer that has left is no error, as on
 * every backend. */
tutti_status Messages::probe(int32_t peer, int32_t tag, int32_t *found, tutti_message *message, tutti_error *error)
{
    tutti_op wanted{};
    wanted.kind = TUTTI_OP_PROBE;
    wanted.root = peer;
    wanted.p2p_tag = tag;
    group_.poll_notifications();
    const tutti_status status = group_.check(error);
    if (status != TUTTI_OK) {
        return status;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    progress();
    const IncomingMessage *incoming = find_unexpected(wanted);
    if (!incoming) {
        const int lost = settled_lost_peer(peer);
        incoming = find_unexpected(wanted);
        if (!incoming && lost >= 0 && !group_.has_left(lost)) {
            return group_.fail_by_lost_peer(lost, text_of(wanted), error);
        }
    }
    if (incoming && message) {
        fill_message(*incoming, message);
    }
    *found = incoming ? 1 : 0;
    return TUTTI_OK;
}

} // namespace tti
