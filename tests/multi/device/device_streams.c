/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=1,2,3 timeout=120 trees=release,debug,address,undefined */
/*
 * Operations on streams on which an application has queued work. An operation begins when the work before it has ended;
 * work behind it sees the result; the host does not wait. The device is slow, so code that does not wait sees old
 * values.
 */
#include "device_support.h"

#define ON(s)      .flags = TUTTI_HAS_STREAM, .stream = (s)
#define IN_LINE(s) .flags = TUTTI_HAS_STREAM | TUTTI_ENQUEUE, .stream = (s)

static int rank;
static int ranks;

static void record(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    *(int *)user = status != TUTTI_OK ? status : -1;
}

/* Copies to the device, reduces and copies back, all in one stream's order; the host fills and checks. */
static void synchronous(tutti_group *g, void *stream, struct device_vector *v)
{
    for (int round = 0; round < 5; round++) {
        vector_fill(v, rank, round);
        vector_send(v, stream);
        EXPECT_OK(tutti_all_reduce(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(ON(stream), .error = &err)));
        vector_fetch(v, stream);
        EXPECT(cuda.synchronize(stream) == 0);
        EXPECT(vector_wrong_sums(v, ranks, round) == 0);
    }
}

/* The same without a wait of the host from the first copy to the last; another stream copies the result back. */
static void asynchronous(tutti_group *g, void *stream, struct device_vector *v)
{
    void *other = NULL;
    EXPECT(cuda.stream_create(&other, 1) == 0);
    for (int round = 0; round < 5; round++) {
        tutti_work *work = NULL;
        vector_fill(v, rank, round);
        vector_send(v, stream);
        EXPECT_OK(
            tutti_all_reduce_async(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(ON(stream), .error = &err), &work));
        EXPECT_OK(tutti_work_wait_stream(work, other, &err));
        vector_fetch(v, other);
        EXPECT_OK(tutti_work_release(work));
        EXPECT(cuda.synchronize(other) == 0);
        EXPECT(vector_wrong_sums(v, ranks, round) == 0);
    }
    EXPECT(cuda.stream_destroy(other) == 0);
}

/* Two operations and the copies around them are queued on a stream that does not start before the host has made all
 * these calls: a call that waited would wait for ever. */
static void enqueued(tutti_group *g, void *stream, struct device_vector *v)
{
    uint32_t *word = NULL;
    EXPECT(cuda.alloc_host((void **)&word, sizeof(*word), 0) == 0);
    for (int round = 0; round < 3; round++) {
        const int32_t dim = 0;
        const int64_t counts[] = {v->count, 0, 0}; /* rank 0 has it all */
        const uint32_t now = (uint32_t)round + 1;
        DLTensor part = v->tensor;
        int64_t none = 0;
        part.shape = rank == 0 ? part.shape : &none;
        vector_fill(v, rank, round);
        EXPECT(cuda.wait_value(stream, word, now, 0) == 0);
        vector_send(v, stream);
        EXPECT_OK(tutti_all_reduce(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(IN_LINE(stream), .error = &err)));
        EXPECT(err.status == TUTTI_OK);
        EXPECT_OK(tutti_all_gather_v(g, &part, &v->tensor, dim, counts, NULL, TUTTI_CALL(IN_LINE(stream))));
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(IN_LINE(stream), .error = &err)));
        vector_fetch(v, stream);
        *(_Atomic uint32_t *)word = now;
        EXPECT(cuda.synchronize(stream) == 0);
        EXPECT(vector_wrong_sums(v, ranks, round) == 0);
    }
    EXPECT(cuda.free_host(word) == 0);
}

/* Once the call has returned, no caller gets the operation's error: the group fails with it, the stream goes on. */
static void enqueued_failure(tutti_group *g, void *stream, struct device_vector *v)
{
    const int32_t all[] = {0, 1, 2};
    tutti_group *child = NULL;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_group_create(g, all, ranks, NULL, &child, &err));
    const uint32_t tag = rank == 0 ? 1 : 0;
    /* a callback does get the error */
    int recorded = 0;
    EXPECT_OK(tutti_all_reduce_async(child, &v->tensor, &v->tensor, TUTTI_SUM,
                                     TUTTI_CALL(IN_LINE(stream), .tag = tag, .callback = record, .user = &recorded),
                                     &work));
    EXPECT(cuda.synchronize(stream) == 0);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == (ranks > 1 ? TUTTI_MISMATCH : TUTTI_OK));
    EXPECT(recorded == (ranks > 1 ? TUTTI_MISMATCH : -1));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_barrier(child, TUTTI_CALL(.error = &err)));
    if (ranks > 1) {
        const tutti_status early = tutti_all_reduce(child, &v->tensor, &v->tensor, TUTTI_SUM,
                                                    TUTTI_CALL(IN_LINE(stream), .tag = tag, .error = &err));
        EXPECT(early == TUTTI_OK || early == TUTTI_MISMATCH || early == TUTTI_REVOKED);
        EXPECT(cuda.synchronize(stream) == 0);
        EXPECT_ERROR(TUTTI_REVOKED, "tag", tutti_barrier(child, TUTTI_CALL(.error = &err)));
    }
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &err))); /* a rank that left would be another error */
    tutti_group_destroy(child, &err);
}

/* A tensor is not ready by the deadline: the call or message gets TIMEOUT and the group fails, whether the tensor is
 * copied as a whole or in chunks. The group's later calls and its end do not wait for the device. */
static void late(tutti_group *g, void *stream, struct device_vector *v)
{
    enum { LATE_MS = 300 };
    const int32_t all[] = {0, 1, 2};
    int64_t shape[] = {100, 10};
    int64_t strides[] = {100, 1};
    uint32_t *word = NULL;
    DLTensor strided = v->tensor;
    strided.ndim = 2;
    strided.shape = shape;
    strided.strides = strides;
    EXPECT(cuda.alloc_host((void **)&word, sizeof(*word), 0) == 0);
    for (uint32_t round = 1; round <= 3; round++) {
        tutti_group *child = NULL;
        EXPECT_OK(tutti_group_create(g, all, ranks, NULL, &child, &err));
        if (rank == 0) {
            EXPECT(cuda.wait_value(stream, word, round, 0) == 0);
            const tutti_call *call = TUTTI_CALL(ON(stream), .timeout_ms = LATE_MS, .error = &err);
            EXPECT((round == 1   ? tutti_all_reduce(child, &strided, &strided, TUTTI_SUM, call)
                    : round == 2 ? tutti_all_reduce(child, &v->tensor, &v->tensor, TUTTI_SUM, call)
                                 : tutti_send(child, &v->tensor, 1, 1, call)) == TUTTI_TIMEOUT);
            EXPECT(err.scope == TUTTI_SCOPE_GROUP && err.suspect == 0);
        }
        const tutti_status status = tutti_barrier(child, TUTTI_CALL(.error = &err));
        EXPECT((status == TUTTI_REVOKED || (rank != 0 && status == TUTTI_TIMEOUT)) && err.suspect == 0);
        const tutti_call *after = TUTTI_CALL(ON(stream), .timeout_ms = TUTTI_FOREVER, .error = &err);
        EXPECT(tutti_all_reduce(child, &strided, &strided, TUTTI_SUM, after) == TUTTI_REVOKED);
        EXPECT(tutti_all_reduce(child, &v->tensor, &v->tensor, TUTTI_SUM, after) == TUTTI_REVOKED);
        EXPECT(tutti_send(child, &v->tensor, (rank + 1) % ranks, 1, after) == TUTTI_REVOKED);
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &err)));
        EXPECT_OK(tutti_group_destroy(child, &err));
        if (rank == 0) {
            *(_Atomic uint32_t *)word = round;
            EXPECT(cuda.synchronize(stream) == 0);
        }
    }
    EXPECT(cuda.free_host(word) == 0);
}

/* A message is sent when its tensor is ready, and written when the old tensor is no longer read. */
static void messages(tutti_group *g, void *stream, struct device_vector *out, struct device_vector *in)
{
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 3; round++) {
        vector_fill(out, rank, round);
        vector_send(out, stream);
        vector_send(in, stream);
        EXPECT_OK(tutti_sendrecv(g, &out->tensor, next, 7, &in->tensor, before, 7,
                                 TUTTI_CALL(ON(stream), .error = &err), NULL));
        vector_fetch(in, stream);
        EXPECT(cuda.synchronize(stream) == 0);
        vector_fill(out, before, round);
        EXPECT(memcmp(in->host, out->host, (size_t)in->count * sizeof(float)) == 0);
    }
}

/* A stream also goes on behind an operation that has failed, or has ended long ago. */
static void ends(tutti_group *g, void *stream, struct device_vector *v)
{
    tutti_work *work = NULL;
    vector_fill(v, rank, 0);
    vector_send(v, stream);
    EXPECT(cuda.synchronize(stream) == 0);
    const uint32_t tag = ranks > 1 && rank == 0 ? 1 : 0;
    EXPECT_OK(tutti_all_reduce_async(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(.tag = tag), &work));
    EXPECT_OK(tutti_work_wait_stream(work, stream, &err));
    EXPECT(cuda.synchronize(stream) == 0);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == (ranks > 1 ? TUTTI_MISMATCH : TUTTI_OK));
    EXPECT_OK(tutti_work_wait_stream(work, stream, &err));
    EXPECT(cuda.synchronize(stream) == 0);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_ERROR(TUTTI_BAD_STATE, "released", tutti_work_wait_stream(work, stream, &err));
}

/* A batch that is never ended outlives its group, and is dropped with the next one. */
static void abandoned(tutti_group *g, void *stream, struct device_vector *v)
{
    const int32_t me[] = {rank};
    tutti_group *child = NULL;
    DLManagedTensorVersioned *came = NULL;
    EXPECT_OK(tutti_group_create(g, me, 1, NULL, &child, &err));
    EXPECT_OK(tutti_batch_begin(child, &err));
    EXPECT_OK(tutti_send(child, &v->tensor, 0, 1, TUTTI_CALL(ON(stream), .error = &err)));
    EXPECT_OK(tutti_recv(child, &v->tensor, 0, 1, TUTTI_CALL(ON(stream), .error = &err), NULL));
    EXPECT_OK(tutti_recv_alloc(child, 0, 1, NULL, &came, NULL));
    EXPECT_OK(tutti_group_destroy(child, &err));
    EXPECT_OK(tutti_batch_begin(g, &err));
    EXPECT_OK(tutti_batch_end(g, TUTTI_CALL(.error = &err)));
    EXPECT(came == NULL);
}

static void refused(tutti_group *g, void *stream, struct device_vector *v)
{
    tutti_work *work = NULL;
    tutti_group *host = NULL;
    int32_t all[] = {0, 1, 2};
    float value = 1;
    int64_t one = 1;
    DLTensor here = tutti_tensor_1d(&value, &one, TUTTI_F32);
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "TUTTI_HAS_STREAM",
                 tutti_all_reduce(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(.stream = stream, .error = &err)));
    EXPECT_ERROR(
        TUTTI_INVALID_ARGUMENT, "TUTTI_HAS_STREAM",
        tutti_all_reduce(g, &v->tensor, &v->tensor, TUTTI_SUM, TUTTI_CALL(.flags = TUTTI_ENQUEUE, .error = &err)));
    EXPECT_ERROR(TUTTI_UNSUPPORTED, "TUTTI_ENQUEUE is for collectives",
                 tutti_send(g, &v->tensor, 0, 1, TUTTI_CALL(IN_LINE(stream), .error = &err)));
    EXPECT_OK(tutti_group_create(g, all, ranks, TUTTI_CONFIG(.device = "cpu"), &host, &err));
    EXPECT(tutti_group_device(host).device_type == kDLCPU);
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "CPU",
                 tutti_all_reduce(host, &here, &here, TUTTI_SUM, TUTTI_CALL(ON(NULL), .error = &err)));
    EXPECT_OK(tutti_all_reduce_async(host, &here, &here, TUTTI_SUM, NULL, &work));
    const tutti_status status = tutti_work_wait_stream(work, stream, &err);
    EXPECT(status == TUTTI_INVALID_ARGUMENT || status == TUTTI_OK); /* it may have ended: then there is nothing to do */
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK && value == (float)ranks);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_group_destroy(host, &err));
}

int main(void)
{
    struct device_vector v;
    struct device_vector w;
    void *stream = NULL;
    device_choose("delay_us=300");
    tutti_group *g = device_open(TUTTI_CONFIG(.device = "cuda", .backend = "shm"));
    rank = tutti_group_rank(g);
    ranks = tutti_group_size(g);
    EXPECT(cuda.stream_create(&stream, 1) == 0);
    vector_make(g, &v, 700001); /* three chunks */
    vector_make(g, &w, 700001);
    synchronous(g, stream, &v);
    synchronous(g, NULL, &v);
    asynchronous(g, stream, &v);
    enqueued(g, stream, &v);
    enqueued_failure(g, stream, &v);
    if (ranks > 1) {
        late(g, stream, &v);
    }
    messages(g, stream, &v, &w);
    ends(g, stream, &v);
    abandoned(g, stream, &v);
    refused(g, stream, &v);
    vector_free(g, &v);
    vector_free(g, &w);
    EXPECT(cuda.stream_destroy(stream) == 0);
    EXPECT_OK(tutti_group_destroy(g, &err));
    return failures > 0;
}
