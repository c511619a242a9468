/* SPDX-License-Identifier: BSD-3-Clause */
/* all_to_all, and its form with parts of different length, whose matrix of counts is not symmetric. */
#include "check/data.h"

static tutti_status call(struct tti_check *c, const struct tti_check_plan *p, bool variable, const DLTensor *input,
                         DLTensor *output, const struct tti_check_parts *sent, const struct tti_check_parts *received)
{
    const tutti_call *options = TUTTI_CALL(.lane = c->lane, .error = &c->error);
    if (variable) {
        return tutti_all_to_all_v(c->group, input, output, p->dim, sent->counts, sent->displaced ? sent->at : NULL,
                                  received->counts, received->displaced ? received->at : NULL, options);
    }
    return tutti_all_to_all(c->group, input, output, p->dim, options);
}

/* What came from every rank is what that rank had for this one. */
static void expect(struct tti_check *c, const struct tti_check_plan *p, struct tti_check_tensor *output,
                   const struct tti_check_parts *received)
{
    const unsigned char *result = tti_check_tensor_result(c, output);
    for (int s = 0; s < c->size; s++) {
        struct tti_check_parts theirs;
        tti_check_parts_make_pairwise(&theirs, c->size, p, s, true);
        for (size_t o = 0; o < received->outer; o++) {
            tti_check_expect_copy(c, result, p->dtype, tti_check_parts_first(received, s, o),
                                  tti_check_parts_run(received, s), s, p->pattern,
                                  tti_check_parts_first(&theirs, c->rank, o));
        }
        tti_check_parts_free(&theirs);
    }
    tti_check_parts_gaps(c, output, received);
}

static void run(struct tti_check *c, const struct tti_check_plan *p, bool variable)
{
    struct tti_check_parts sent;
    struct tti_check_parts received;
    tti_check_parts_make_pairwise(&sent, c->size, p, c->rank, true);
    tti_check_parts_make_pairwise(&received, c->size, p, c->rank, false);
    int64_t input_shape[3];
    int64_t output_shape[3];
    tti_check_parts_shape(p, sent.rows, input_shape);
    tti_check_parts_shape(p, received.rows, output_shape);

    struct tti_check_tensor input;
    struct tti_check_tensor output;
    tti_check_tensor_make(&input, p->dtype, p->ndim, input_shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim, output_shape, p->layout);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&input);
    if (tti_check_ok(c, "all_to_all", call(c, p, variable, &input.t, &output.t, &sent, &received))) {
        expect(c, p, &output, &received);
    }
    tti_check_tensor_unchanged(c, &input, "the input");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
    tti_check_parts_free(&sent);
    tti_check_parts_free(&received);
}

void tti_check_all_to_all_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, false);
}

void tti_check_all_to_all_v_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, true);
}
