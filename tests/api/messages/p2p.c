/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between ranks: order, tags, any source, any tag, probe, unknown shapes, large ones, many of them. */
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"

#define RANKS 4

static tutti_status send_value(tutti_group *g, int32_t value, int32_t peer, int32_t tag)
{
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    return tutti_send(g, &t, peer, tag, NULL);
}

/* The value that came, -1 if none did. */
static int32_t recv_value(tutti_group *g, int32_t peer, int32_t tag, tutti_message *message)
{
    int64_t one = 1;
    int32_t value = -1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv(g, &t, peer, tag, NULL, message));
    return value;
}

/* Messages of a pair and tag come in the order they were sent; another tag may be taken out of the middle. */
static void order_and_tags(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    if (me == 0) {
        for (int32_t i = 0; i < 100; i++) {
            EXPECT_OK(send_value(g, i, 1, i % 3));
        }
    } else if (me == 1) {
        for (int32_t tag = 2; tag >= 0; tag--) {
            for (int32_t i = tag; i < 100; i += 3) {
                EXPECT(recv_value(g, 0, tag, NULL) == i);
            }
        }
    }
}

static void any_source_and_tag(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    if (me != 0) {
        for (int32_t i = 0; i < 10; i++) {
            EXPECT_OK(send_value(g, me * 1000 + i, 0, me + 10 * i));
        }
        return;
    }
    int32_t next[RANKS] = {0};
    for (int32_t i = 0; i < 10 * (RANKS - 1); i++) {
        tutti_message m = TUTTI_MESSAGE_INIT;
        int32_t value = recv_value(g, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &m);
        bool known = m.source > 0 && m.source < RANKS && m.dtype == TUTTI_I32 && m.count == 1 && m.bytes == 4;
        EXPECT(known);
        if (known) {
            int32_t number = next[m.source]++;
            EXPECT(value == m.source * 1000 + number && m.tag == m.source + 10 * number);
        }
    }
}

/* One wildcard at a time. */
static void half_wild(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    if (me == 1 || me == 2) {
        EXPECT_OK(send_value(g, me, 0, 5));
        EXPECT_OK(send_value(g, me * 10, 0, 6));
    } else if (me == 0) {
        tutti_message m = TUTTI_MESSAGE_INIT;
        int32_t sum = recv_value(g, TUTTI_ANY_SOURCE, 6, NULL) + recv_value(g, TUTTI_ANY_SOURCE, 6, NULL);
        EXPECT(sum == 30);
        EXPECT(recv_value(g, 2, TUTTI_ANY_TAG, &m) == 2 && m.tag == 5 && m.source == 2);
        EXPECT(recv_value(g, 1, TUTTI_ANY_TAG, &m) == 1 && m.tag == 5 && m.source == 1);
    }
}

static void probes(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int32_t found = 7;
    tutti_message m = TUTTI_MESSAGE_INIT;
    EXPECT_OK(tutti_probe(g, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &found, &m, NULL));
    EXPECT(found == 0 && m.count == 0);
    EXPECT_OK(tutti_barrier(g, NULL));
    if (me == 3) {
        int64_t shape[2] = {2, 3};
        double data[6] = {1, 2, 3, 4, 5, 6};
        DLTensor t = tutti_tensor_nd(data, 2, shape, TUTTI_F64);
        EXPECT_OK(tutti_send(g, &t, 0, 42, NULL));
    }
    EXPECT_OK(tutti_barrier(g, NULL));
    if (me == 0) {
        EXPECT_OK(tutti_probe(g, 3, 41, &found, &m, NULL));
        EXPECT(found == 0);
        EXPECT_OK(tutti_probe(g, 2, 42, &found, NULL, NULL));
        EXPECT(found == 0);
        for (int i = 0; i < 2; i++) { /* a probe leaves the message */
            EXPECT_OK(tutti_probe(g, i ? TUTTI_ANY_SOURCE : 3, i ? TUTTI_ANY_TAG : 42, &found, &m, NULL));
            EXPECT(found == 1 && m.source == 3 && m.tag == 42 && m.dtype == TUTTI_F64 && m.count == 6 && m.bytes == 48);
        }
        double data[6] = {0};
        int64_t six = 6;
        DLTensor t = tutti_tensor_1d(data, &six, TUTTI_F64);
        EXPECT_OK(tutti_recv(g, &t, m.source, m.tag, NULL, NULL));
        EXPECT(data[0] == 1 && data[5] == 6);
        EXPECT_OK(tutti_probe(g, 3, 42, &found, NULL, NULL));
        EXPECT(found == 0);
    }
}

static void unknown_shape(tutti_group *g, int64_t rows)
{
    int32_t me = tutti_group_rank(g);
    int64_t shape[3] = {rows, 5, 2};
    size_t count = (size_t)rows * 10;
    if (me == 1) {
        uint16_t *data = malloc(count * sizeof(*data) + 1);
        for (size_t i = 0; data && i < count; i++) {
            data[i] = (uint16_t)(i * 7);
        }
        DLTensor t = tutti_tensor_nd(data, 3, shape, TUTTI_U16);
        EXPECT_OK(tutti_send(g, &t, 2, 3, NULL));
        free(data);
    } else if (me == 2) {
        DLManagedTensorVersioned *managed = NULL;
        tutti_message m = TUTTI_MESSAGE_INIT;
        EXPECT_OK(tutti_recv_alloc(g, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, NULL, &managed, &m));
        EXPECT(managed != NULL);
        if (!managed) {
            return;
        }
        const DLTensor *t = &managed->dl_tensor;
        EXPECT(managed->version.major == 1 && managed->flags == 0);
        EXPECT(t->ndim == 3 && t->shape[0] == rows && t->shape[1] == 5 && t->shape[2] == 2);
        EXPECT(tutti_dtype_from_dlpack(t->dtype) == TUTTI_U16 && t->device.device_type == kDLCPU);
        EXPECT(t->byte_offset == 0 && tutti_tensor_is_compact(t) && (uintptr_t)t->data % 64 == 0);
        EXPECT(m.source == 1 && m.tag == 3 && m.count == (int64_t)count && m.bytes == 2 * (int64_t)count);
        const uint16_t *data = t->data;
        bool right = true;
        for (size_t i = 0; i < count; i++) {
            right = right && data[i] == (uint16_t)(i * 7);
        }
        EXPECT(right);
        managed->deleter(managed);
    }
}

/* A tensor without dimensions, and one without elements. */
static void small_shapes(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    if (me == 0) {
        int32_t value = 99;
        int64_t shape[2] = {0, 4};
        DLTensor scalar = tutti_tensor_nd(&value, 0, NULL, TUTTI_I32);
        DLTensor nothing = tutti_tensor_nd(NULL, 2, shape, TUTTI_F16);
        EXPECT_OK(tutti_send(g, &scalar, 1, 0, NULL));
        EXPECT_OK(tutti_send(g, &nothing, 1, 1, NULL));
    } else if (me == 1) {
        DLManagedTensorVersioned *managed = NULL;
        EXPECT_OK(tutti_recv_alloc(g, 0, 0, NULL, &managed, NULL));
        EXPECT(managed && managed->dl_tensor.ndim == 0 && *(int32_t *)managed->dl_tensor.data == 99);
        if (managed) {
            managed->deleter(managed);
        }
        managed = NULL;
        EXPECT_OK(tutti_recv_alloc(g, 0, 1, NULL, &managed, NULL));
        EXPECT(managed && managed->dl_tensor.ndim == 2 && managed->dl_tensor.shape[0] == 0 &&
               managed->dl_tensor.shape[1] == 4);
        if (managed) {
            managed->deleter(managed);
        }
    }
}

/* The ring of all ranks at once, the same pair in both directions, and the own rank. */
static void sendrecvs(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int64_t *out = malloc((size_t)n * sizeof(*out));
    int64_t *in = malloc((size_t)n * sizeof(*in));
    if (!out || !in) {
        abort();
    }
    DLTensor send = tutti_tensor_1d(out, &n, TUTTI_I64);
    DLTensor recv = tutti_tensor_1d(in, &n, TUTTI_I64);
    for (int32_t step = 0; step < RANKS; step++) { /* step 0: the rank itself */
        int32_t to = (me + step) % RANKS;
        int32_t from = (me - step + RANKS) % RANKS;
        for (int64_t i = 0; i < n; i++) {
            out[i] = me * 1000000 + i + step;
            in[i] = -1;
        }
        tutti_message m = TUTTI_MESSAGE_INIT;
        EXPECT_OK(tutti_sendrecv(g, &send, to, 9, &recv, step == 0 ? TUTTI_ANY_SOURCE : from, TUTTI_ANY_TAG, NULL, &m));
        bool right = m.source == from && m.tag == 9 && m.count == n && m.dtype == TUTTI_I64;
        for (int64_t i = 0; i < n; i++) {
            right = right && in[i] == from * 1000000 + i + step;
        }
        EXPECT(right);
        EXPECT_OK(tutti_barrier(g, NULL)); /* any source must not take the next step's message */
    }
    free(out);
    free(in);
}

/* 8 MiB, received while another message with another tag lies before it. */
static void large(tutti_group *g)
{
    int64_t n = 1 << 20;
    int32_t me = tutti_group_rank(g);
    if (me > 1) {
        return;
    }
    double *data = malloc((size_t)n * sizeof(*data));
    if (!data) {
        abort();
    }
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_F64);
    if (me == 0) {
        for (int64_t i = 0; i < n; i++) {
            data[i] = (double)i * 0.5;
        }
        EXPECT_OK(send_value(g, 11, 1, 1));
        EXPECT_OK(tutti_send(g, &t, 1, 2, NULL));
        EXPECT_OK(send_value(g, 22, 1, 1));
    } else {
        EXPECT_OK(tutti_recv(g, &t, 0, 2, NULL, NULL));
        bool right = true;
        for (int64_t i = 0; i < n; i++) {
            right = right && data[i] == (double)i * 0.5;
        }
        EXPECT(right);
        EXPECT(recv_value(g, 0, 1, NULL) == 11 && recv_value(g, 0, 1, NULL) == 22);
    }
    free(data);
}

/* A message with fewer elements fills the beginning and leaves the rest. */
static void shorter(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int32_t data[6] = {me, me, me, me, me, me};
    int64_t two = 2;
    int64_t six = 6;
    if (me == 2) {
        DLTensor t = tutti_tensor_1d(data, &two, TUTTI_I32);
        EXPECT_OK(tutti_send(g, &t, 3, 0, NULL));
    } else if (me == 3) {
        DLTensor t = tutti_tensor_1d(data, &six, TUTTI_I32);
        tutti_message m = TUTTI_MESSAGE_INIT;
        EXPECT_OK(tutti_recv(g, &t, 2, 0, NULL, &m));
        EXPECT(m.count == 2 && data[0] == 2 && data[1] == 2 && data[2] == 3 && data[5] == 3);
    }
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    order_and_tags(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    any_source_and_tag(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    half_wild(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    probes(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    unknown_shape(g, 3);
    unknown_shape(g, 0);
    unknown_shape(g, 50000);
    small_shapes(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    sendrecvs(g, 3);
    sendrecvs(g, 100000);
    large(g);
    shorter(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
