/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequences of API calls with arguments of every kind, in a group of one rank and in one of the null backend, which
 * touches no memory, so that shapes may be as large as numbers can say. Wrong calls are refused with a sentence. In the
 * group of one, right calls copy within a buffer that is allocated to the byte.
 */
#include <tutti/tutti.h>

#include "fuzz.h"

#define ELEMENTS 64
#define WORKS    4

static tutti_group *alone;
static tutti_group *recorded;
static unsigned char *memory; /* ELEMENTS of the largest type, and as many below them for negative strides */
static tutti_work *works[WORKS];

static void begin(void)
{
    tutti_error error;
    memory = malloc(ELEMENTS * 8 * 2);
    fuzz_expect(memory && tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1, .lanes = 2, .timeout_ms = 60000),
                                     &alone, &error) == TUTTI_OK,
                "no group of one");
    fuzz_expect(tutti_init(TUTTI_CONFIG(.backend = "null", .world_size = 5, .rank = 2, .timeout_ms = 60000), &recorded,
                           &error) == TUTTI_OK,
                "no group without memory");
    memset(memory, 1, ELEMENTS * 8 * 2);
    memory += ELEMENTS * 8;
}

/* At most 3 dimensions of at most 4, with strides that stay inside `memory`; or any shape, where nothing is touched. */
static void tensor(struct fuzz_input *in, int wild, DLTensor *t, int64_t shape[4], int64_t strides[4])
{
    static const int64_t edges[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 31, INT64_C(1) << 62};
    static const int64_t elements = ELEMENTS;
    static const int64_t steps[] = {4, 1, 0, -1, -4, -16};
    static const uint8_t codes[] = {kDLFloat, kDLInt, kDLUInt, kDLBfloat, kDLBool};
    const uint8_t how = fuzz_byte(in);
    *t = tutti_tensor_1d(memory, &elements, (tutti_dtype)(fuzz_byte(in) % 18));
    t->ndim = how % 4;
    for (int i = 0; i < 4; i++) {
        shape[i] = fuzz_byte(in) % 5;
        strides[i] = i == 0 ? 16 : i == 1 ? 4 : 1;
        if (fuzz_byte(in) % 16 == 0) {
            shape[i] = edges[fuzz_byte(in) % (wild ? 5 : 2)];
        }
        if (how & 16) {
            strides[i] = steps[fuzz_byte(in) % 6];
        }
    }
    t->shape = shape;
    t->strides = how & 4 && !wild ? strides : NULL; /* strided tensors are packed, in any group */
    if (how & 8) {
        t->byte_offset = fuzz_byte(in) % 9; /* odd ones are misaligned */
        shape[0] = shape[0] > 1 ? 1 : shape[0];
    }
    if (how & 32) {
        t->dtype = (DLDataType){codes[fuzz_byte(in) % 5], (uint8_t)(8 << fuzz_byte(in) % 5),
                                (uint16_t)(fuzz_byte(in) % 8 ? 1 : 2)};
    }
    if ((how & 0xc0) == 0xc0) {
        const uint8_t odd = fuzz_byte(in);
        t->ndim = odd & 1 ? -1 : t->ndim;
        t->shape = odd & 2 ? NULL : t->shape;
        t->data = odd & 4 ? NULL : t->data;
        t->device.device_type = odd & 8 ? (DLDeviceType)fuzz_byte(in) : kDLCPU;
    }
}

static tutti_call options(struct fuzz_input *in, tutti_error *error)
{
    tutti_call call;
    tutti_call_init(&call);
    call.error = error;
    const uint8_t how = fuzz_byte(in);
    call.lane = how & 1 ? (int8_t)fuzz_byte(in) : 0;
    call.timeout_ms = how & 2 ? (int8_t)fuzz_byte(in) * 1000 : 0; /* no deadline that a slow machine could miss */
    call.flags = how & 4 ? 1u << fuzz_byte(in) % 8 : 0;
    call.size = how & 128 ? (uint32_t)fuzz_byte(in) : call.size;
    return call;
}

/* Errors come with a sentence, unless the options themselves could not be read. */
static void check(tutti_status status, const tutti_error *error)
{
    fuzz_expect(status == TUTTI_OK || tutti_status_string(status), "a status without a name");
    fuzz_expect(status == TUTTI_OK || error->status == TUTTI_OK || error->message[0], "an error without a sentence");
}

static void release(int slot)
{
    if (works[slot]) {
        tutti_work_wait(works[slot], TUTTI_FOREVER);
        tutti_work_release(works[slot]);
        works[slot] = NULL;
    }
}

static void collective(struct fuzz_input *in, tutti_group *g, int wild)
{
    DLTensor a;
    DLTensor b;
    int64_t shapes[2][4];
    int64_t strides[2][4];
    tutti_error error = {.status = TUTTI_OK};
    tutti_status status = TUTTI_OK;
    tensor(in, wild, &a, shapes[0], strides[0]);
    tensor(in, wild, &b, shapes[1], strides[1]);
    const tutti_call call = options(in, &error);
    const int32_t number = (int8_t)fuzz_byte(in);
    const tutti_reduce_op op = fuzz_byte(in) % 16 - 1;
    const int64_t counts[8] = {fuzz_byte(in) % 5, (int8_t)fuzz_byte(in), 1, 0, 2, 0, 0, 0};
    const int64_t *some = fuzz_byte(in) % 4 ? counts : NULL;
    switch (fuzz_byte(in) % 16) {
    case 0:
        status = tutti_all_reduce(g, &a, &b, op, &call);
        break;
    case 1:
        status = tutti_reduce(g, &a, &b, op, number, &call);
        break;
    case 2:
        status = tutti_broadcast(g, &a, number, &call);
        break;
    case 3:
        status = tutti_all_gather(g, &a, &b, number, &call);
        break;
    case 4:
        status = tutti_gather(g, &a, &b, number % 4, number / 4, &call);
        break;
    case 5:
        status = tutti_scatter(g, &a, &b, number % 4, number / 4, &call);
        break;
    case 6:
        status = tutti_reduce_scatter(g, &a, &b, op, number, &call);
        break;
    case 7:
        status = tutti_all_to_all(g, &a, &b, number, &call);
        break;
    case 8:
        status = tutti_all_gather_v(g, &a, &b, number % 4, some, NULL, &call);
        break;
    case 9:
        status = tutti_reduce_scatter_v(g, &a, &b, op, number % 4, some, &call);
        break;
    case 10:
        status = tutti_all_to_all_v(g, &a, &b, number % 4, some, NULL, some, NULL, &call);
        break;
    case 11: {
        const int slot = number & (WORKS - 1);
        release(slot);
        status = tutti_all_reduce_async(g, &a, &b, op, &call, &works[slot]);
        break;
    }
    case 12: {
        int32_t found = 0;
        tutti_message message = {.size = sizeof(message)};
        status = tutti_probe(g, number, (int8_t)fuzz_byte(in), &found, &message, &error);
        break;
    }
    case 13:
        status = tutti_barrier(g, &call);
        break;
    case 14: { /* stale, foreign and invented handles */
        tutti_group *odd = (tutti_group *)(uintptr_t)fuzz_number(in, 8);
        status = odd == alone || odd == recorded ? TUTTI_OK : tutti_all_reduce(odd, &a, &b, op, &call);
        tutti_work_test((tutti_work *)(uintptr_t)fuzz_number(in, 8), NULL);
        break;
    }
    default:
        release(number & (WORKS - 1));
        break;
    }
    check(status, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    if (!alone) {
        begin();
    }
    while (in.left > 0) {
        const int wild = fuzz_byte(&in) % 2;
        collective(&in, wild ? recorded : alone, wild);
    }
    for (int i = 0; i < WORKS; i++) {
        release(i);
    }
    return 0;
}
