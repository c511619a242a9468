/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling messages: on one rank alone, at once, and never by halves. A receive that was withdrawn takes no message
 * away; a send that was withdrawn is never received, and one that was not is.
 */
#include "check/cases/cases.h"
#include "check/operation/completion.h"
#include "check/operation/messages.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

enum { TAG = 40, DECISION = 42 };

/* Sends to the next rank, and takes what the one before sends: the message that the withdrawn receive has left. */
static void pass_on(struct tti_check *c, int64_t count, int tag, int number)
{
    struct tti_check_tensor out;
    struct tti_check_tensor in;
    tti_check_vector_message(c, &out, count, number);
    tti_check_vector(c, &in, count);
    if (tti_check_ok(c, "sendrecv",
                     tti_check_sendrecv(c, &out.t, tti_check_next(c), &in.t, tti_check_previous(c), tag, NULL))) {
        tti_check_incoming(c, &in, in.count, tti_check_previous(c), number);
    }
    tti_check_tensor_free(&out);
    tti_check_tensor_free(&in);
}

static void expect_withdrawn(struct tti_check *c, struct tti_check_pending *f, struct tti_check_tensor *x)
{
    tti_check_ok(c, "work_cancel", tutti_work_cancel(f->work, &c->error));
    tti_check_ok(c, "the second work_cancel", tutti_work_cancel(f->work, &c->error));
    tti_check_status(c, "a withdrawn message", tti_check_pending_finish(c, f), TUTTI_CANCELLED);
    tti_check_tensor_untouched(c, x, 0, x->count);
}

/* Nothing has been sent to it yet: the barrier comes first. */
static void recv_unmatched(struct tti_check *c, int64_t count, bool any)
{
    struct tti_check_tensor x;
    struct tti_check_pending f;
    tti_check_vector(c, &x, count);
    tti_check_start_recv(c, &f, &x, any ? TUTTI_ANY_SOURCE : tti_check_previous(c), any ? TUTTI_ANY_TAG : TAG,
                         tti_check_random_completion(c, 1, 0));
    expect_withdrawn(c, &f, &x);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    pass_on(c, count, TAG, 1);
    tti_check_tensor_free(&x);
}

static void recv_specific(struct tti_check *c, int64_t count)
{
    recv_unmatched(c, count, false);
}

static void recv_from_anybody(struct tti_check *c, int64_t count)
{
    recv_unmatched(c, count, true);
}

/* One of two receives for the same messages is withdrawn: the other one gets the first message. */
static void recv_one_of_two(struct tti_check *c, int64_t count)
{
    struct tti_check_tensor x[2];
    struct tti_check_pending f[2];
    struct tti_check_tensor out;
    for (int i = 0; i < 2; i++) {
        tti_check_vector(c, &x[i], count);
        tti_check_start_recv(c, &f[i], &x[i], tti_check_previous(c), TAG,
                             tti_check_random_completion(c, (uint64_t)i, 0));
    }
    expect_withdrawn(c, &f[0], &x[0]);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    tti_check_vector_message(c, &out, count, 2);
    tti_check_ok(c, "send", tti_check_send(c, &out.t, tti_check_next(c), TAG));
    if (tti_check_ok(c, "the other receive", tti_check_pending_finish(c, &f[1]))) {
        tti_check_incoming(c, &x[1], x[1].count, tti_check_previous(c), 2);
    }
    tti_check_tensor_free(&out);
    tti_check_tensor_free(&x[0]);
    tti_check_tensor_free(&x[1]);
}

static void recv_too_late(struct tti_check *c, int64_t count)
{
    struct tti_check_tensor out;
    struct tti_check_tensor x;
    struct tti_check_pending f;
    tti_check_vector_message(c, &out, count, 3);
    tti_check_vector(c, &x, count);
    tti_check_start_recv(c, &f, &x, tti_check_previous(c), TAG, TTI_CHECK_WAIT);
    tti_check_ok(c, "send", tti_check_send(c, &out.t, tti_check_next(c), TAG));
    tti_check_ok(c, "the wait", tutti_work_wait(f.work, TUTTI_FOREVER));
    tti_check_status(c, "work_cancel behind the end", tutti_work_cancel(f.work, &c->error), TUTTI_TOO_LATE);
    if (tti_check_ok(c, "recv", tti_check_pending_finish(c, &f))) {
        tti_check_incoming(c, &x, x.count, tti_check_previous(c), 3);
    }
    tti_check_tensor_free(&out);
    tti_check_tensor_free(&x);
}

/* All receives of a batch are withdrawn together. */
static void batch_unmatched(struct tti_check *c, int64_t count)
{
    enum { MEMBERS = 5 };
    struct tti_check_tensor x[MEMBERS];
    struct tti_check_pending f;
    tti_check_ok(c, "batch_begin", tutti_batch_begin(c->group, &c->error));
    for (int i = 0; i < MEMBERS; i++) {
        tti_check_vector(c, &x[i], count);
        tti_check_ok(c, "recv in a batch",
                     tutti_recv(c->group, &x[i].t, tti_check_previous(c), TAG + 10 + i, NULL, NULL));
    }
    tti_check_pending_init(c, &f, tti_check_random_completion(c, 1, 0));
    tti_check_pending_start(c, &f, &(struct tti_check_operation){.kind = TTI_CHECK_BATCH_END});
    expect_withdrawn(c, &f, &x[0]);
    tti_check_ok(c, "barrier", tti_check_barrier(c));
    for (int i = 0; i < MEMBERS; i++) {
        tti_check_tensor_untouched(c, &x[i], 0, x[i].count);
        pass_on(c, count, TAG + 10 + i, 4 + i);
        tti_check_tensor_free(&x[i]);
    }
}

/* Whether a send can still be withdrawn is a race; but if it was, the next message is the first that comes, and if it
 * was not, it comes and is complete. The sender sends the receiver which of the two to expect. */
static void send(struct tti_check *c, int64_t count)
{
    struct tti_check_tensor out;
    struct tti_check_tensor mark;
    struct tti_check_pending f;
    struct tti_check_pending marked;
    tti_check_vector_message(c, &out, count, 20);
    tti_check_vector_message(c, &mark, count, 21);
    tti_check_start_send(c, &f, &out, TAG, tti_check_random_completion(c, 1, 0));
    const tutti_status answer = tutti_work_cancel(f.work, &c->error);
    tti_check_expect_i64(c, "work_cancel of a send gives OK or TOO_LATE",
                         answer == TUTTI_OK || answer == TUTTI_TOO_LATE, 1);
    tti_check_start_send(c, &marked, &mark, TAG, tti_check_random_completion(c, 2, 0));
    int64_t withdrawn = answer == TUTTI_OK;
    int64_t theirs = -1;
    tti_check_ok(c, "sendrecv",
                 tti_check_sendrecv_values(c, &withdrawn, tti_check_next(c), &theirs, tti_check_previous(c), DECISION));
    for (int number = theirs ? 21 : 20; number <= 21; number++) {
        tti_check_receive(c, count, tti_check_previous(c), TAG, number);
    }
    tti_check_status(c, "the send", tti_check_pending_finish(c, &f), withdrawn ? TUTTI_CANCELLED : TUTTI_OK);
    tti_check_ok(c, "the send behind it", tti_check_pending_finish(c, &marked));
    tti_check_tensor_free(&out);
    tti_check_tensor_free(&mark);
}

static void sized(struct tti_check *c, const char *name, void (*run)(struct tti_check *c, int64_t count))
{
    static const int64_t counts[] = {1, 1000, 100003};
    for (int i = 0; i < 3; i++) {
        tti_check_case(c, c->messages && c->size > 1, run, counts[i], "messages/%s/%lld", name, (long long)counts[i]);
    }
}

void tti_check_message_cancel_cases(struct tti_check *c)
{
    sized(c, "recv", recv_specific);
    sized(c, "recv-from-anybody", recv_from_anybody);
    sized(c, "recv-one-of-two", recv_one_of_two);
    sized(c, "recv-too-late", recv_too_late);
    sized(c, "batch", batch_unmatched);
    sized(c, "send", send);
}
