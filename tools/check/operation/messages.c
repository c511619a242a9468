/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with numbers. */
#include "check/operation/messages.h"

#include "check/data/data.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

void tti_check_outgoing(struct tti_check *c, struct tti_check_tensor *x, tutti_dtype dtype, int ndim,
                        const int64_t *shape, enum tti_check_layout layout, int number)
{
    tti_check_tensor_make(c, x, dtype, ndim, shape, layout);
    tti_check_tensor_fill(c, x, 0, x->count, c->rank, TTI_CHECK_RAW, tti_check_first_of(number));
    tti_check_tensor_seal(x);
}

void tti_check_incoming(struct tti_check *c, struct tti_check_tensor *x, size_t count, int source, int number)
{
    tti_check_expect_copy(c, tti_check_tensor_result(c, x), x->dtype, 0, count, source, TTI_CHECK_RAW,
                          tti_check_first_of(number));
}

void tti_check_vector(struct tti_check *c, struct tti_check_tensor *x, int64_t count)
{
    tti_check_tensor_make(c, x, TUTTI_F32, 1, &count, TTI_CHECK_COMPACT);
}

void tti_check_vector_message(struct tti_check *c, struct tti_check_tensor *x, int64_t count, int number)
{
    tti_check_outgoing(c, x, TUTTI_F32, 1, &count, TTI_CHECK_COMPACT, number);
}

void tti_check_start_send(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_tensor *x, int tag,
                          enum tti_check_completion completion)
{
    tti_check_pending_init(c, f, completion);
    tti_check_pending_start(c, f,
                            &(struct tti_check_operation){
                                .kind = TTI_CHECK_SEND, .input = &x->t, .destination = tti_check_next(c), .tag = tag});
}

void tti_check_start_recv(struct tti_check *c, struct tti_check_pending *f, struct tti_check_tensor *x, int source,
                          int tag, enum tti_check_completion completion)
{
    tti_check_pending_init(c, f, completion);
    tti_check_pending_start(
        c, f, &(struct tti_check_operation){.kind = TTI_CHECK_RECV, .output = &x->t, .source = source, .tag = tag});
}

void tti_check_receive(struct tti_check *c, int64_t count, int source, int tag, int number)
{
    struct tti_check_tensor x;
    tti_check_vector(c, &x, count);
    if (tti_check_ok(c, "recv", tti_check_recv(c, &x.t, source, tag, NULL))) {
        tti_check_incoming(c, &x, x.count, source, number);
    }
    tti_check_tensor_free(&x);
}

void tti_check_expect_message(struct tti_check *c, const tutti_message *m, int source, int tag, tutti_dtype dtype,
                              size_t count)
{
    tti_check_expect_i64(c, "source of the message", m->source, source);
    tti_check_expect_i64(c, "tag of the message", m->tag, tag);
    tti_check_expect_i64(c, "dtype of the message", m->dtype, dtype);
    tti_check_expect_i64(c, "count of the message", m->count, (int64_t)count);
    tti_check_expect_i64(c, "bytes of the message", m->bytes, (int64_t)(count * tutti_dtype_size(dtype)));
}
