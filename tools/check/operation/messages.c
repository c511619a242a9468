/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with numbers. */
#include "check/operation/messages.h"

#include "check/data/data.h"
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

void tti_check_expect_message(struct tti_check *c, const tutti_message *m, int source, int tag, tutti_dtype dtype,
                              size_t count)
{
    tti_check_expect_i64(c, "source of the message", m->source, source);
    tti_check_expect_i64(c, "tag of the message", m->tag, tag);
    tti_check_expect_i64(c, "dtype of the message", m->dtype, dtype);
    tti_check_expect_i64(c, "count of the message", m->count, (int64_t)count);
    tti_check_expect_i64(c, "bytes of the message", m->bytes, (int64_t)(count * tutti_dtype_size(dtype)));
}
