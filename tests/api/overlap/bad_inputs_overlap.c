/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the functions of tutti/overlap.h refuse. Each case checks the status and a message that names the argument.
 * Afterwards the group still works.
 */
#include <stdint.h>

#include "api/bad_inputs.h"
#include "api/collectives/bad_tensors.h"

#define RANKS 3

static const int64_t four = 4;
static tutti_bucketer *const untouched = (tutti_bucketer *)(uintptr_t)0x1234;

static tutti_status compute(void *user)
{
    ++*(int *)user;
    return TUTTI_OK;
}

static tutti_status compute_one(size_t index, DLTensor *tensor, void *user)
{
    (void)index;
    (void)tensor;
    return compute(user);
}

static tutti_status overlap_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    float data[4];
    int calls = 0;
    DLTensor out = tutti_tensor_1d(data, &four, TUTTI_F32);
    tutti_status status = tutti_overlap_all_reduce(g, bad, &out, TUTTI_SUM, compute, &calls, call);
    EXPECT(calls == 0);
    return status;
}

static tutti_status overlap_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    float data[4] = {0};
    int calls = 0;
    DLTensor in = tutti_tensor_1d(data, &four, TUTTI_F32);
    tutti_status status = tutti_overlap_all_reduce(g, &in, (DLTensor *)bad, TUTTI_SUM, compute, &calls, call);
    EXPECT(calls == 0);
    return status;
}

static void bad_overlap(tutti_group *g)
{
    tutti_error e;
    float data[4] = {0};
    int calls = 0;
    DLTensor t = tutti_tensor_1d(data, &four, TUTTI_F32);
    try_bad_tensors(g, "overlap_all_reduce: all_reduce_async", "input", &t, overlap_input, READ);
    try_bad_tensors(g, "overlap_all_reduce: all_reduce_async", "output", &t, overlap_output, WRITTEN);
    BAD("compute", tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, NULL, &calls, OPTIONS));
    BAD("op", tutti_overlap_all_reduce(g, &t, &t, 0, compute, &calls, OPTIONS));
    BAD("lane", tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, compute, &calls, TUTTI_CALL(.error = &e, .lane = 1)));
    BAD("timeout_ms",
        tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, compute, &calls, TUTTI_CALL(.error = &e, .timeout_ms = -2)));
    BAD("NULL", tutti_overlap_all_reduce(NULL, &t, &t, TUTTI_SUM, compute, &calls, OPTIONS));
    tutti_call zero = {0};
    EXPECT(tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, compute, &calls, &zero) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_overlap_all_reduce(g, &t, &t, TUTTI_SUM, NULL, &calls, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(calls == 0);
}

static void bad_pipeline(tutti_group *g)
{
    tutti_error e;
    float data[2][4] = {{0}, {0}};
    int calls = 0;
    DLTensor t[2] = {tutti_tensor_1d(data[0], &four, TUTTI_F32), tutti_tensor_1d(data[1], &four, TUTTI_F32)};
    DLTensor *const good[2] = {&t[0], &t[1]};
    DLTensor *const hole[2] = {&t[0], NULL};
    BAD("compute", tutti_overlap_pipeline(g, good, 2, TUTTI_SUM, NULL, &calls, OPTIONS));
    BAD("compute", tutti_overlap_pipeline(g, good, 0, TUTTI_SUM, NULL, &calls, OPTIONS));
    BAD("tensors is NULL", tutti_overlap_pipeline(g, NULL, 2, TUTTI_SUM, compute_one, &calls, OPTIONS));
    BAD("tensors[1]", tutti_overlap_pipeline(g, hole, 2, TUTTI_SUM, compute_one, &calls, OPTIONS));
    BAD("NULL", tutti_overlap_pipeline(NULL, good, 2, TUTTI_SUM, compute_one, &calls, OPTIONS));
    BAD("lane",
        tutti_overlap_pipeline(g, good, 2, TUTTI_SUM, compute_one, &calls, TUTTI_CALL(.error = &e, .lane = -1)));
    EXPECT(calls == 0);
    EXPECT_OK(tutti_overlap_pipeline(g, NULL, 0, TUTTI_SUM, compute_one, &calls, OPTIONS));
    EXPECT(calls == 0 && e.status == TUTTI_OK);
    /* the pipeline checks a tensor only when it reaches it, since a computation may set the tensor up */
    t[1].data = NULL;
    BAD("tensor 1: ", tutti_overlap_pipeline(g, good, 2, TUTTI_SUM, compute_one, &calls, OPTIONS));
    EXPECT(calls == 2);
    BAD("tensor 0: ", tutti_overlap_pipeline(g, good, 2, 99, compute_one, &calls, OPTIONS));
    EXPECT(calls == 3);
}

static tutti_status second_gradient(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    static float data[4];
    DLTensor t = tutti_tensor_1d(data, &four, TUTTI_F32);
    const DLTensor *list[2] = {&t, bad};
    tutti_bucketer *b = untouched;
    tutti_status status = tutti_bucketer_create(g, list, 2, NULL, &b, call->error);
    EXPECT(b == untouched);
    return status;
}

static void bad_gradients(tutti_group *g)
{
    tutti_error e;
    float data[16] = {0};
    uint8_t flags[4] = {0};
    int64_t ten = 10;
    int64_t two = 2;
    tutti_bucketer *b = untouched;
    DLTensor t[3] = {tutti_tensor_1d(data, &four, TUTTI_F32), tutti_tensor_1d(data + 4, &four, TUTTI_F32),
                     tutti_tensor_1d(data + 8, &four, TUTTI_F32)};
    const DLTensor *list[3] = {&t[0], &t[1], &t[2]};
#define REFUSED(word, options) BAD(word, tutti_bucketer_create(g, list, 3, options, &b, &e))
    try_bad_tensors(g, "bucketer_create", "gradients[1]", &t[0], second_gradient, WRITTEN);
    t[1].strides = &two;
    t[1].shape = &two;
    REFUSED("gradients[1] is strided", NULL);
    t[1] = tutti_tensor_1d(flags, &four, TUTTI_BOOL);
    REFUSED("gradients[1] has dtype bool, on which op avg", NULL);
    t[1] = t[2];
    REFUSED("gradients[1] and gradients[2] overlap", NULL);
    t[1] = tutti_tensor_1d(data + 11, &four, TUTTI_F32);
    REFUSED("gradients[2] and gradients[1] overlap", NULL);
    t[1] = tutti_tensor_1d(data, &ten, TUTTI_F32);
    REFUSED("overlap", NULL);
    t[1] = tutti_tensor_1d((char *)data + 15, &four, TUTTI_I8); /* by one byte */
    REFUSED("gradients[0] and gradients[1] overlap", NULL);
    t[1] = tutti_tensor_1d(data + 4, &four, TUTTI_F32);
    REFUSED("options.size", (&(tutti_bucketer_options){0}));
    REFUSED("options.size", (&(tutti_bucketer_options){.size = 24}));
    REFUSED("options.op", TUTTI_BUCKETER_OPTIONS(.op = TUTTI_REDUCE_OP_COUNT));
    REFUSED("options.op", TUTTI_BUCKETER_OPTIONS(.op = -1));
    REFUSED("premul_sum", TUTTI_BUCKETER_OPTIONS(.op = TUTTI_PREMUL_SUM));
    REFUSED("gradients[0] has dtype f32, on which op band", TUTTI_BUCKETER_OPTIONS(.op = TUTTI_BAND));
    REFUSED("options.bucket_bytes", TUTTI_BUCKETER_OPTIONS(.bucket_bytes = -1));
    REFUSED("options.timeout_ms", TUTTI_BUCKETER_OPTIONS(.timeout_ms = -2));
    REFUSED("options.lane", TUTTI_BUCKETER_OPTIONS(.lane = 1));
    REFUSED("options.lane", TUTTI_BUCKETER_OPTIONS(.lane = -1));
    REFUSED("call.wire is 7", TUTTI_BUCKETER_OPTIONS(.wire = 7));
#undef REFUSED
    BAD("group", tutti_bucketer_create(NULL, list, 3, NULL, &b, &e));
    BAD("empty", tutti_bucketer_create(g, list, 0, NULL, &b, &e));
    BAD("empty", tutti_bucketer_create(g, NULL, 3, NULL, &b, &e));
    BAD("pointer", tutti_bucketer_create(g, list, 3, NULL, NULL, &e));
    EXPECT(tutti_bucketer_create(g, list, 0, NULL, &b, NULL) == TUTTI_INVALID_ARGUMENT && b == untouched);
    /* the largest numbers are good ones */
    EXPECT_OK(tutti_bucketer_create(
        g, list, 3, TUTTI_BUCKETER_OPTIONS(.op = TUTTI_MIN, .bucket_bytes = INT64_MAX, .timeout_ms = INT64_MAX), &b,
        &e));
    EXPECT_OK(tutti_bucketer_wait(b, &e));
    BAD("index is 3", tutti_bucketer_ready(b, 3, &e));
    BAD("index is", tutti_bucketer_ready(b, SIZE_MAX, &e));
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
}

/* NULL is INVALID_ARGUMENT, everything else that is no bucketer BAD_STATE: stale ones, made-up ones, groups. */
static void bad_handles(tutti_group *g)
{
    tutti_error e;
    float data[4] = {0};
    DLTensor t = tutti_tensor_1d(data, &four, TUTTI_F32);
    const DLTensor *list = &t;
    tutti_bucketer *stale = NULL;
    size_t number = 7;
    EXPECT_OK(tutti_bucketer_create(g, &list, 1, NULL, &stale, &e));
    EXPECT_OK(tutti_bucketer_destroy(stale, &e));
    tutti_bucketer *const handles[] = {NULL, stale, untouched, (tutti_bucketer *)(void *)g,
                                       (tutti_bucketer *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        tutti_status want = i == 0 ? TUTTI_INVALID_ARGUMENT : TUTTI_BAD_STATE;
        EXPECT_ERROR(&e, want, "bucketer_ready: the bucketer", tutti_bucketer_ready(handles[i], 0, &e));
        EXPECT_ERROR(&e, want, "bucketer_wait: the bucketer", tutti_bucketer_wait(handles[i], &e));
        EXPECT_ERROR(&e, want, "bucketer_describe: the bucketer",
                     tutti_bucketer_describe(handles[i], &number, &number, &e));
        EXPECT_ERROR(&e, want, "bucketer_destroy: the bucketer", tutti_bucketer_destroy(handles[i], &e));
        EXPECT(tutti_bucketer_wait(handles[i], NULL) == want);
    }
    EXPECT(number == 7);
    EXPECT_USABLE(g);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    bad_overlap(g);
    bad_pipeline(g);
    bad_gradients(g);
    bad_handles(g);
    return TUTTI_OK;
}

int main(void)
{
    for (int i = 0; i <= TUTTI_MAX_NDIM; i++) {
        bad_numbers[i] = 1;
    }
    test_ranks(RANKS, rank);
    return test_result();
}
