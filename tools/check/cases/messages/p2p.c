/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: each has a number, see operation/messages.h. */
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/completion.h"
#include "check/operation/messages.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

/* Before each round: a receive from any rank takes no message of the next round. */
static void keep_apart(struct tti_check *c)
{
    tti_check_ok(c, "barrier", tutti_barrier(c->group, TUTTI_CALL(.error = &c->error)));
}

static int next_of(const struct tti_check *c, int distance)
{
    return (c->rank + distance) % c->size;
}

static int previous_of(const struct tti_check *c, int distance)
{
    return (c->rank + c->size - distance % c->size) % c->size;
}

/* Each rank sends to the rank at some distance (0 = itself) and receives from the one on the other side. */
static void ring(struct tti_check *c, tutti_dtype dtype, int ndim, const int64_t *shape, enum tti_check_layout sent,
                 enum tti_check_layout received, int distance)
{
    const int destination = next_of(c, distance);
    const int source = previous_of(c, distance);
    struct tti_check_tensor out;
    struct tti_check_tensor in;
    tti_check_outgoing(c, &out, dtype, ndim, shape, sent, 1);
    tti_check_tensor_make(c, &in, dtype, ndim, shape, received);
    tutti_message m = TUTTI_MESSAGE_INIT;
    if (tti_check_ok(c, "sendrecv", tti_check_sendrecv(c, &out.t, destination, &in.t, source, 3, &m))) {
        tti_check_expect_message(c, &m, source, 3, dtype, in.count);
        tti_check_incoming(c, &in, in.count, source, 1);
    }
    tti_check_tensor_unchanged(c, &out, "the message that was sent");
    tti_check_tensor_free(&out);
    tti_check_tensor_free(&in);
}

static void rings(struct tti_check *c)
{
    static const int64_t bytes[] = {0,    1,     7,     64,    100,   200,    232,    233,     1000,    4096,
                                    4097, 32767, 32768, 32769, 65537, 131072, 131073, 1000003, 8000001, 33554432};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        if (c->quick && bytes[i] > 140000) {
            break;
        }
        TTI_CHECK_ROUNDS(c, bytes[i], "sendrecv/ring/%lld", (long long)bytes[i]) {
            keep_apart(c);
            ring(c, TUTTI_U8, 1, &bytes[i], TTI_CHECK_COMPACT, TTI_CHECK_COMPACT, 1);
        }
        TTI_CHECK_ROUNDS(c, bytes[i], "sendrecv/self/%lld", (long long)bytes[i]) {
            keep_apart(c);
            ring(c, TUTTI_U8, 1, &bytes[i], TTI_CHECK_COMPACT, TTI_CHECK_UNALIGNED, 0);
        }
    }
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        const int64_t shape[3] = {5, 3, 41};
        TTI_CHECK_ROUNDS(c, 0, "sendrecv/types/%s", tutti_dtype_name(dtype)) {
            keep_apart(c);
            ring(c, dtype, 3, shape, TTI_CHECK_COMPACT, TTI_CHECK_COMPACT, c->size - 1);
        }
        TTI_CHECK_ROUNDS(c, 0, "sendrecv/strided/%s", tutti_dtype_name(dtype)) {
            keep_apart(c);
            ring(c, dtype, 3, shape, TTI_CHECK_TRANSPOSED, TTI_CHECK_STRIDED, 1);
            ring(c, dtype, 3, shape, TTI_CHECK_FLIPPED, TTI_CHECK_BACKWARDS, c->size - 1);
        }
    }
}

/* Ranks 0 and 1, 2 and 3, ... : the partner, or -1 for the one that is left over. */
static int partner_of(const struct tti_check *c)
{
    const int partner = c->rank ^ 1;
    return partner < c->size ? partner : -1;
}

/* Sends a message, with a number for its data. */
static void send_one(struct tti_check *c, tutti_dtype dtype, int ndim, const int64_t *shape, int number, int peer,
                     int tag)
{
    struct tti_check_tensor x;
    tti_check_outgoing(c, &x, dtype, ndim, shape, TTI_CHECK_COMPACT, number);
    tti_check_ok(c, "send", tti_check_send(c, &x.t, peer, tag));
    tti_check_tensor_unchanged(c, &x, "the message that was sent");
    tti_check_tensor_free(&x);
}

static void ping_pong(struct tti_check *c, int64_t count, int rounds)
{
    const int partner = partner_of(c);
    for (int i = 0; i < rounds && partner >= 0; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (c->rank % 2 == turn) {
                send_one(c, TUTTI_F32, 1, &count, i, partner, i);
            } else {
                tti_check_receive(c, count, partner, i, i);
            }
        }
    }
}

/* All pairs of ranks exchange messages in one batch, oneself included. */
static void batch_all(struct tti_check *c, int64_t count, bool receive_first)
{
    const size_t n = (size_t)c->size;
    struct tti_check_tensor *out = tti_check_memory(n * sizeof(*out));
    struct tti_check_tensor *in = tti_check_memory(n * sizeof(*in));
    tutti_message *messages = tti_check_memory(n * sizeof(*messages));
    for (int r = 0; r < c->size; r++) {
        const int64_t length = count + r; /* by receiver, so that a mix-up shows */
        const int64_t own = count + c->rank;
        tti_check_outgoing(c, &out[r], TUTTI_F32, 1, &length, TTI_CHECK_COMPACT, r);
        tti_check_tensor_make(c, &in[r], TUTTI_F32, 1, &own, TTI_CHECK_COMPACT);
        messages[r] = (tutti_message)TUTTI_MESSAGE_INIT;
    }
    tti_check_ok(c, "batch_begin", tutti_batch_begin(c->group, &c->error));
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->size; r++) {
            if ((pass == 0) == receive_first) {
                tti_check_ok(c, "recv in a batch",
                             tutti_recv(c->group, &in[r].t, r, 9, TUTTI_CALL(.error = &c->error), &messages[r]));
            } else {
                tti_check_ok(c, "send in a batch",
                             tutti_send(c->group, &out[r].t, r, 9, TUTTI_CALL(.error = &c->error)));
            }
        }
    }
    const bool ok =
        tti_check_ok(c, "batch_end", tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_BATCH_END}));
    for (int r = 0; r < c->size; r++) {
        if (ok) {
            tti_check_expect_message(c, &messages[r], r, 9, TUTTI_F32, in[r].count);
            tti_check_incoming(c, &in[r], in[r].count, r, c->rank);
        }
        tti_check_tensor_unchanged(c, &out[r], "the message that was sent");
        tti_check_tensor_free(&out[r]);
        tti_check_tensor_free(&in[r]);
    }
    free(out);
    free(in);
    free(messages);
}

/* Several messages to the next rank at once: by tag in another order than sent, or all with one tag in their order. */
static void several(struct tti_check *c, bool one_tag, int64_t count)
{
    enum { MESSAGES = 12 };
    struct tti_check_tensor out[MESSAGES];
    struct tti_check_tensor in[MESSAGES];
    const int destination = next_of(c, 1);
    const int source = previous_of(c, 1);
    tti_check_ok(c, "batch_begin", tutti_batch_begin(c->group, &c->error));
    for (int i = 0; i < MESSAGES; i++) {
        tti_check_outgoing(c, &out[i], TUTTI_I16, 1, &count, TTI_CHECK_COMPACT, i);
        tti_check_ok(c, "send in a batch", tutti_send(c->group, &out[i].t, destination, one_tag ? 4 : 100 + i, NULL));
    }
    for (int i = 0; i < MESSAGES; i++) {
        const int number = one_tag ? i : (i * 5 + 7) % MESSAGES;
        tti_check_tensor_make(c, &in[number], TUTTI_I16, 1, &count, TTI_CHECK_COMPACT);
        tti_check_ok(c, "recv in a batch",
                     tutti_recv(c->group, &in[number].t, source, one_tag ? 4 : 100 + number, NULL, NULL));
    }
    const bool ok =
        tti_check_ok(c, "batch_end", tti_check_do(c, &(struct tti_check_operation){.kind = TTI_CHECK_BATCH_END}));
    for (int i = 0; i < MESSAGES; i++) {
        if (ok) {
            tti_check_incoming(c, &in[i], in[i].count, source, i);
        }
        tti_check_tensor_free(&out[i]);
        tti_check_tensor_free(&in[i]);
    }
}

/* A tensor that the library has made for what came. */
static void expect_allocated(struct tti_check *c, const DLTensor *t, tutti_dtype dtype, size_t count, int source,
                             int number)
{
    const DLDevice where = tti_check_device(c);
    unsigned char *elements = tti_check_tensor_fetch(c, t, count * tutti_dtype_size(dtype));
    tti_check_expect_i64(c, "kind of the device that the tensor lies on", t->device.device_type, where.device_type);
    tti_check_expect_i64(c, "the device that the tensor lies on", t->device.device_id, where.device_id);
    tti_check_expect_copy(c, elements, dtype, 0, count, source, TTI_CHECK_RAW, tti_check_first_of(number));
    free(elements);
}

/* Every other rank sends EACH messages to rank 0, which takes them as they come. */
static void any_source(struct tti_check *c, int64_t count, bool allocate)
{
    enum { EACH = 5 };
    if (c->rank != 0) {
        for (int i = 0; i < EACH; i++) {
            const int64_t length = count + i;
            send_one(c, TUTTI_F64, 1, &length, i, 0, 20 + i);
        }
        return;
    }
    int *seen = calloc((size_t)c->size, sizeof(int));
    for (int i = 0; seen && i < EACH * (c->size - 1); i++) {
        struct tti_check_tensor x;
        tutti_message m = TUTTI_MESSAGE_INIT;
        DLManagedTensorVersioned *managed = NULL;
        const int64_t longest = count + EACH;
        tti_check_tensor_make(c, &x, TUTTI_F64, 1, &longest, TTI_CHECK_COMPACT);
        const struct tti_check_operation o = {.kind = allocate ? TTI_CHECK_RECV_ALLOC : TTI_CHECK_RECV,
                                              .output = &x.t,
                                              .source = TUTTI_ANY_SOURCE,
                                              .tag = TUTTI_ANY_TAG,
                                              .message = &m,
                                              .managed = &managed};
        if (tti_check_ok(c, "recv from anybody", tti_check_do(c, &o)) && m.source > 0 && m.source < c->size) {
            /* messages of one sender do not overtake one another, even without a tag */
            const int number = seen[m.source]++;
            tti_check_expect_message(c, &m, m.source, 20 + number, TUTTI_F64, (size_t)(count + number));
            if (m.count == count + number && allocate) {
                expect_allocated(c, &managed->dl_tensor, TUTTI_F64, (size_t)m.count, m.source, number);
            } else if (m.count == count + number) {
                tti_check_incoming(c, &x, (size_t)m.count, m.source, number);
            }
            if (!allocate) {
                tti_check_tensor_untouched(c, &x, (size_t)m.count, x.count - (size_t)m.count);
            }
        }
        if (managed) {
            managed->deleter(managed);
        }
        tti_check_tensor_free(&x);
    }
    for (int r = 1; seen && r < c->size; r++) {
        tti_check_expect_i64(c, "messages from one rank", seen[r], EACH);
    }
    free(seen);
}

/* Looks until the message is there; the deadline is only for a library that never shows it. */
static bool probe_until_found(struct tti_check *c, int peer, int tag, tutti_message *m)
{
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), c->options->timeout_ms);
    int32_t found = 0;
    while (!found && tti_now_ns() <= deadline) {
        if (!tti_check_ok(c, "probe", tutti_probe(c->group, peer, tag, &found, m, &c->error))) {
            return false;
        }
        sched_yield();
    }
    return tti_check_expect_i64(c, "a message that was sent can be probed", found, 1);
}

static void probing(struct tti_check *c, int64_t count)
{
    const int partner = partner_of(c);
    int32_t found = 1;
    if (c->size > 1 &&
        tti_check_ok(c, "probe", tutti_probe(c->group, TUTTI_ANY_SOURCE, 9999, &found, NULL, &c->error))) {
        tti_check_expect_i64(c, "a message that no rank sent can be probed", found, 0);
    }
    if (partner < 0) {
        return;
    }
    if (c->rank % 2 == 0) {
        send_one(c, TUTTI_U16, 1, &count, 2, partner, 31);
    } else {
        struct tti_check_tensor x;
        tti_check_tensor_make(c, &x, TUTTI_U16, 1, &count, TTI_CHECK_COMPACT);
        for (int i = 0; i < 2; i++) { /* twice: looking takes nothing away */
            tutti_message m = TUTTI_MESSAGE_INIT;
            if (probe_until_found(c, i == 0 ? partner : TUTTI_ANY_SOURCE, 31, &m)) {
                tti_check_expect_message(c, &m, partner, 31, TUTTI_U16, x.count);
            }
        }
        if (tti_check_ok(c, "recv", tti_check_recv(c, &x.t, partner, 31, NULL))) {
            tti_check_incoming(c, &x, x.count, partner, 2);
        }
        found = 1;
        if (tti_check_ok(c, "probe", tutti_probe(c->group, partner, 31, &found, NULL, &c->error))) {
            tti_check_expect_i64(c, "a message that was received can be probed", found, 0);
        }
        tti_check_tensor_free(&x);
    }
}

static void unknown_shape(struct tti_check *c, tutti_dtype dtype, int ndim, const int64_t *shape)
{
    const int partner = partner_of(c);
    if (partner < 0) {
        return;
    }
    if (c->rank % 2 == 0) {
        send_one(c, dtype, ndim, shape, 3, partner, 0);
        return;
    }
    DLManagedTensorVersioned *managed = NULL;
    tutti_message m = TUTTI_MESSAGE_INIT;
    const struct tti_check_operation o = {
        .kind = TTI_CHECK_RECV_ALLOC, .source = partner, .message = &m, .managed = &managed};
    if (!tti_check_ok(c, "recv_alloc", tti_check_do(c, &o))) {
        return;
    }
    const DLTensor *t = &managed->dl_tensor;
    tti_check_expect_i64(c, "dtype of the tensor", tutti_dtype_from_dlpack(t->dtype), dtype);
    if (tti_check_expect_i64(c, "dimensions of the tensor", t->ndim, ndim)) {
        int64_t count = 1;
        for (int d = 0; d < ndim; d++) {
            tti_check_expect_i64(c, "length of a dimension", t->shape[d], shape[d]);
            count *= shape[d];
        }
        tti_check_expect_i64(c, "the tensor is compact", tutti_tensor_is_compact(t), 1);
        tti_check_expect_message(c, &m, partner, 0, dtype, (size_t)count);
        if (!c->failed) {
            expect_allocated(c, t, dtype, (size_t)count, partner, 3);
        }
    }
    managed->deleter(managed);
}

/* A receive that does not fit fails, and the message is still there for one that does. */
static void unfit(struct tti_check *c, int64_t count)
{
    const int partner = partner_of(c);
    if (partner < 0) {
        return;
    }
    struct tti_check_tensor x;
    if (c->rank % 2 == 0) {
        send_one(c, TUTTI_F32, 1, &count, 4, partner, 6);
        return;
    }
    const int64_t less = count - 1;
    const tutti_dtype dtypes[3] = {TUTTI_F32, TUTTI_I32, TUTTI_F32};
    const int64_t *const counts[3] = {&less, &count, &count};
    for (int i = 0; i < 3; i++) {
        tti_check_tensor_make(c, &x, dtypes[i], 1, counts[i], TTI_CHECK_COMPACT);
        const tutti_status status = tti_check_recv(c, &x.t, partner, 6, NULL);
        if (i < 2) {
            tti_check_status(c, i == 0 ? "recv into a shorter tensor" : "recv as another dtype", status,
                             TUTTI_MISMATCH);
        } else if (tti_check_ok(c, "recv", status)) {
            tti_check_incoming(c, &x, x.count, partner, 4);
        }
        tti_check_tensor_free(&x);
    }
}

static void pair_cases(struct tti_check *c)
{
    static const int64_t counts[] = {0, 1, 30, 3000, 70000};
    static const int64_t shape[3] = {4, 5, 600};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "send-recv/%lld", (long long)counts[i]) {
            keep_apart(c);
            ping_pong(c, counts[i], c->quick ? 3 : 20);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "probe/%lld", (long long)counts[i]) {
            keep_apart(c);
            c->size > 1 ? probing(c, counts[i]) : tti_check_skip(c);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "any-source/%lld", (long long)counts[i]) {
            keep_apart(c);
            c->size > 1 ? any_source(c, counts[i], false) : tti_check_skip(c);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "any-source-alloc/%lld", (long long)counts[i]) {
            keep_apart(c);
            c->size > 1 ? any_source(c, counts[i], true) : tti_check_skip(c);
        }
    }
    for (size_t i = 1; i < sizeof(counts) / sizeof(counts[0]); i++) {
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "unfit/%lld", (long long)counts[i]) {
            const bool promised = (c->capabilities & TUTTI_CAP_CHECKS_CALLS) != 0;
            keep_apart(c);
            c->size > 1 && promised ? unfit(c, counts[i]) : tti_check_skip(c);
        }
    }
    for (int ndim = 0; ndim <= 3; ndim++) {
        TTI_CHECK_ROUNDS(c, 0, "recv-alloc/%dd", ndim) {
            keep_apart(c);
            c->size > 1 ? unknown_shape(c, ndim % 2 == 0 ? TUTTI_F16 : TUTTI_I64, ndim, shape) : tti_check_skip(c);
        }
    }
}

void tti_check_p2p_cases(struct tti_check *c)
{
    static const int64_t counts[] = {0, 10, 2000, 50000};
    rings(c);
    pair_cases(c);
    tti_check_probe_cases(c);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "batch/receive-first/%lld", (long long)counts[i]) {
            keep_apart(c);
            batch_all(c, counts[i], true);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "batch/send-first/%lld", (long long)counts[i]) {
            keep_apart(c);
            batch_all(c, counts[i], false);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "batch/tags/%lld", (long long)counts[i]) {
            keep_apart(c);
            several(c, false, counts[i]);
        }
        TTI_CHECK_ROUNDS(c, 4 * counts[i], "batch/order/%lld", (long long)counts[i]) {
            keep_apart(c);
            several(c, true, counts[i]);
        }
    }
    TTI_CHECK_ROUNDS(c, 0, "sendrecv/many") {
        keep_apart(c);
        const int64_t count = 3;
        for (int i = 0; i < (c->quick ? 50 : 300); i++) {
            struct tti_check sub = tti_check_sub(c, c->group, (uint64_t)i);
            ring(&sub, TUTTI_I32, 1, &count, TTI_CHECK_COMPACT, TTI_CHECK_COMPACT, 1 + i);
            tti_check_merge(c, &sub);
        }
    }
}
