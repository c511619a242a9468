/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a message without receiving it. Every rank probes for what the rank before it sends. A barrier behind the
 * start of an asynchronous probe makes sure that it was there before the message.
 */
#include "check/cases/cases.h"
#include "check/operation/jobs.h"
#include "check/operation/messages.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

enum { TAG = 60 };

static void start_send(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_tensor *x)
{
    tti_check_start_send(c, f, x, TAG, tti_check_random_completion(c, 1, 0));
}

static void start_probe(struct tti_check *c, struct tti_check_pending *f, int peer, int tag, tutti_message *m)
{
    tti_check_pending_init(c, f, tti_check_random_completion(c, 2, 0));
    tti_check_pending_start(
        c, f, &(struct tti_check_operation){.kind = TTI_CHECK_PROBE, .source = peer, .tag = tag, .message = m});
}

static tutti_status probe(struct tti_check *c, int peer, int tag, tutti_message *m)
{
    return tti_check_do(
        c, &(struct tti_check_operation){.kind = TTI_CHECK_PROBE, .source = peer, .tag = tag, .message = m});
}

static void expect_message(struct tti_check *c, const tutti_message *m, int64_t count)
{
    tti_check_expect_message(c, m, tti_check_previous(c), TAG, TUTTI_F32, (size_t)count);
}

/* The message comes to the probe, or is there before; it can be probed again, and is received. */
static void wait_for_one(struct tti_check *c, int64_t count, bool any)
{
    struct tti_check_tensor out;
    struct tti_check_pending sent;
    struct tti_check_pending probed;
    tutti_message m = TUTTI_MESSAGE_INIT;
    const int peer = any ? TUTTI_ANY_SOURCE : tti_check_previous(c);
    const int tag = any ? TUTTI_ANY_TAG : TAG;
    tti_check_vector_message(c, &out, count, 0);
    start_probe(c, &probed, peer, tag, &m);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    start_send(c, &sent, &out);
    if (tti_check_ok(c, "probe_async", tti_check_pending_finish(c, &probed))) {
        expect_message(c, &m, count);
    }
    for (int i = 0; i < 2; i++) {
        m = (tutti_message)TUTTI_MESSAGE_INIT;
        c->completion = i == 0 ? TTI_CHECK_SYNC : c->completion;
        if (tti_check_ok(c, "probe_wait", probe(c, i == 0 ? peer : tti_check_previous(c), tag, i == 0 ? &m : NULL)) &&
            i == 0) {
            expect_message(c, &m, count);
        }
    }
    tti_check_receive(c, count, tti_check_previous(c), TAG, 0);
    tti_check_ok(c, "send", tti_check_pending_finish(c, &sent));
    tti_check_tensor_free(&out);
}

static void from_one(struct tti_check *c, int64_t count)
{
    wait_for_one(c, count, false);
}

static void from_anybody(struct tti_check *c, int64_t count)
{
    wait_for_one(c, count, true);
}

/* A receive that was posted before the probe gets the first message, the probe reports the second. */
static void behind_a_receive(struct tti_check *c, int64_t count)
{
    struct tti_check_tensor in;
    struct tti_check_tensor out[2];
    struct tti_check_pending received;
    struct tti_check_pending probed;
    struct tti_check_pending sent[2];
    tutti_message m = TUTTI_MESSAGE_INIT;
    tti_check_vector(c, &in, count);
    tti_check_start_recv(c, &received, &in, tti_check_previous(c), TAG, tti_check_random_completion(c, 3, 0));
    start_probe(c, &probed, tti_check_previous(c), TAG, &m);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    for (int i = 0; i < 2; i++) {
        tti_check_vector_message(c, &out[i], count + i, 0);
        start_send(c, &sent[i], &out[i]);
    }
    if (tti_check_ok(c, "probe_async", tti_check_pending_finish(c, &probed))) {
        expect_message(c, &m, count + 1);
    }
    if (tti_check_ok(c, "the receive before it", tti_check_pending_finish(c, &received))) {
        tti_check_incoming(c, &in, in.count, tti_check_previous(c), 0);
    }
    tti_check_receive(c, count + 1, tti_check_previous(c), TAG, 0);
    for (int i = 0; i < 2; i++) {
        tti_check_ok(c, "send", tti_check_pending_finish(c, &sent[i]));
        tti_check_tensor_free(&out[i]);
    }
    tti_check_tensor_free(&in);
}

/* The deadline ends the probe and nothing else. */
static void deadline(struct tti_check *c, int64_t limit_ms)
{
    const int peers[2] = {tti_check_previous(c), TUTTI_ANY_SOURCE};
    for (int i = 0; i < 4; i++) {
        tutti_message m = TUTTI_MESSAGE_INIT;
        const int peer = peers[i % 2];
        const struct tti_check_operation o = {
            .kind = TTI_CHECK_PROBE, .source = peer, .tag = TAG, .message = &m, .timeout_ms = limit_ms};
        c->completion = i < 2 ? TTI_CHECK_SYNC : tti_check_random_completion(c, (uint64_t)i, 0);
        if (tti_check_status(c, "a probe for what no rank sends", tti_check_do(c, &o), TUTTI_TIMEOUT)) {
            tti_check_expect_i64(c, "what is spoilt", c->error.scope, i < 2 ? TUTTI_SCOPE_CALL : TUTTI_SCOPE_WORK);
            tti_check_expect_i64(c, "the suspect", c->error.suspect, peer);
            tti_check_expect_i64(c, "deadline in the details", c->error.deadline_ms, limit_ms);
            tti_check_expect_i64(c, "the time is over", c->error.elapsed_ms >= limit_ms, 1);
        }
        tti_check_expect_i64(c, "a message that was not sent is not reported", m.count, 0);
    }
    tti_check_ok(c, "group_error", tutti_group_error(c->group, &c->error));
    tti_check_expect_i64(c, "the group has failed", c->error.status, TUTTI_OK);
    tti_check_group_works(c);
}

static void cancelled(struct tti_check *c, int64_t count)
{
    struct tti_check_pending f;
    struct tti_check_tensor out;
    struct tti_check_pending sent;
    tutti_cancel_token *token = NULL;
    for (int i = 0; i < 2; i++) {
        start_probe(c, &f, i == 0 ? tti_check_previous(c) : TUTTI_ANY_SOURCE, TAG, NULL);
        tti_check_ok(c, "work_cancel", tutti_work_cancel(f.work, &c->error));
        tti_check_status(c, "a withdrawn probe", tti_check_pending_finish(c, &f), TUTTI_CANCELLED);
    }
    tti_check_ok(c, "cancel_token_create", tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &c->error));
    tti_check_pending_init(c, &f, tti_check_random_completion(c, 2, 0));
    tti_check_pending_start(c, &f,
                            &(struct tti_check_operation){
                                .kind = TTI_CHECK_PROBE, .source = tti_check_previous(c), .tag = TAG, .token = token});
    tti_check_ok(c, "cancel_token_cancel", tutti_cancel_token_cancel(token, NULL, &c->error));
    tti_check_status(c, "a probe whose token has fired", tti_check_pending_finish(c, &f), TUTTI_CANCELLED);
    tti_check_ok(c, "cancel_token_destroy", tutti_cancel_token_destroy(token, &c->error));
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    tti_check_vector_message(c, &out, count, 0);
    start_send(c, &sent, &out);
    tti_check_receive(c, count, tti_check_previous(c), TAG, 0);
    tti_check_ok(c, "send", tti_check_pending_finish(c, &sent));
    tti_check_tensor_free(&out);
}

static void sized(struct tti_check *c, const char *name, void (*run)(struct tti_check *c, int64_t count))
{
    static const int64_t counts[] = {0, 1, 1000, 100003};
    for (int i = 0; i < 4; i++) {
        tti_check_case(c, c->messages && c->size > 1, run, counts[i], "probe-wait/%s/%lld", name, (long long)counts[i]);
    }
}

void tti_check_probe_cases(struct tti_check *c)
{
    sized(c, "one", from_one);
    sized(c, "anybody", from_anybody);
    sized(c, "behind-a-receive", behind_a_receive);
    tti_check_case(c, c->messages && c->size > 1, deadline, 20, "probe-wait/deadline");
    tti_check_case(c, c->messages && c->size > 1, cancelled, 10, "probe-wait/cancelled");
}
