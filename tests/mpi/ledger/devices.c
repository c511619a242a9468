/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors of a device over MPI. A CUDA-aware library gets them in device memory where its own functions do the work.
 * All others are copied through host memory, with the same results. The device is the double of libcuda.so.1
 * (tests/doubles). Its memory traps when host code touches it, so a wrong pointer handed to MPI ends the test.
 *
 *     devices copies      MPI takes no device memory, or mpi.cuda_aware forbids it
 *     devices aware       MPI takes it: the double of MPI (tests/mpi/double) prints what it gets
 */
#include <dlfcn.h>
#include <tutti/memory.h>

#include "support.h"

enum {
    COUNT = 12,
    CHUNK = 1024, /* elements in a step of the copies, mpi.buffer_size = 4 KiB */
    MANY = 3 * CHUNK + 1,
    SKIPPED = 2 /* elements before the first one: the tensor does not begin where its memory begins */
};

static bool counted; /* calls of MPI can be counted: there is no double of MPI */

static struct {
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*copy)(void *dst, const void *src, size_t bytes, void *stream);
    int (*synchronize)(void *stream);
} cuda;

static void *function_of(void *library, const char *name)
{
    void *function = library ? dlsym(library, name) : NULL;
    ledger_expect(function != NULL, name, library ? NULL : dlerror(), __FILE__, __LINE__);
    return function;
}

/* The driver as an application uses it, with the group's device current. */
static void open_driver(int device)
{
    void *context = NULL;
    void *library = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    *(void **)&cuda.retain = function_of(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda.push = function_of(library, "cuCtxPushCurrent_v2");
    *(void **)&cuda.copy = function_of(library, "cuMemcpyAsync");
    *(void **)&cuda.synchronize = function_of(library, "cuStreamSynchronize");
    EXPECT(cuda.retain(&context, device) == 0 && cuda.push(context) == 0);
}

static void copy(void *dst, const void *src, size_t bytes)
{
    EXPECT(cuda.copy(dst, src, bytes, NULL) == 0 && cuda.synchronize(NULL) == 0);
}

/* A vector in the memory of the group's device. */
struct vector {
    int64_t count;
    void *memory;
    DLTensor tensor;
};

static int32_t element(int rank, int64_t i)
{
    return (int32_t)(rank * 5 + i * 3) % 7 + 1;
}

static int32_t sum(int64_t i)
{
    return element(0, i) + element(1, i);
}

static void make(tutti_group *group, struct vector *v, int64_t count)
{
    tutti_error error = {0};
    v->count = count;
    EXPECT_OK(tutti_alloc(group, (size_t)(count + SKIPPED) * sizeof(int32_t), &v->memory, &error));
    EXPECT(v->memory != NULL);
    v->tensor = (DLTensor){.data = v->memory,
                           .device = tutti_group_device(group),
                           .ndim = 1,
                           .dtype = {kDLInt, 32, 1},
                           .shape = &v->count,
                           .byte_offset = SKIPPED * sizeof(int32_t)};
}

/* Fills it with the elements of a rank, or with zeros for rank -1. */
static void fill(const struct vector *v, int rank)
{
    int32_t values[2 * MANY] = {0};
    for (int64_t i = 0; i < v->count && rank >= 0; i++) {
        values[i] = element(rank, i);
    }
    copy((int32_t *)v->memory + SKIPPED, values, (size_t)v->count * sizeof(int32_t));
}

static void fetch(const struct vector *v, int32_t *values)
{
    copy(values, (int32_t *)v->memory + SKIPPED, (size_t)v->count * sizeof(int32_t));
}

static void give_back(tutti_group *group, struct vector *v)
{
    tutti_error error = {0};
    EXPECT_OK(tutti_free(group, v->memory, &error));
}

/* Expects so many calls of MPI, if they can be counted. */
static void expect_calls(enum call_counter_function function, int calls)
{
    const int seen = call_counter_take(function).calls;
    char text[40];
    snprintf(text, sizeof(text), "%d instead of %d", seen, counted ? calls : 0);
    ledger_expect(seen == (counted ? calls : 0), "the calls of MPI", text, __FILE__, __LINE__);
}

static void all_reduce(tutti_group *group, int64_t count, int calls)
{
    int32_t values[MANY];
    struct vector in;
    struct vector out;
    tutti_error error = {0};
    make(group, &in, count);
    make(group, &out, count);
    fill(&in, tutti_group_rank(group));
    fill(&out, -1);
    call_counter_take(COUNTED_ALLREDUCE);
    EXPECT_OK(tutti_all_reduce(group, &in.tensor, &out.tensor, TUTTI_SUM, TUTTI_CALL(.error = &error)));
    expect_calls(COUNTED_ALLREDUCE, calls);
    fetch(&out, values);
    for (int64_t i = 0; i < count; i++) {
        EXPECT(values[i] == sum(i));
    }
    fill(&in, tutti_group_rank(group));
    EXPECT_OK(tutti_all_reduce(group, &in.tensor, &in.tensor, TUTTI_AVG, TUTTI_CALL(.error = &error)));
    fetch(&in, values);
    for (int64_t i = 0; i < count; i++) {
        EXPECT(values[i] == sum(i) / 2);
    }
    give_back(group, &in);
    give_back(group, &out);
}

static void reduce(tutti_group *group)
{
    int32_t values[COUNT];
    const int rank = tutti_group_rank(group);
    struct vector in;
    struct vector out;
    tutti_error error = {0};
    make(group, &in, COUNT);
    make(group, &out, COUNT);
    fill(&in, rank);
    fill(&out, -1);
    call_counter_take(COUNTED_REDUCE);
    EXPECT_OK(
        tutti_reduce(group, &in.tensor, rank == 1 ? &out.tensor : NULL, TUTTI_SUM, 1, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_REDUCE).calls == 1);
    fetch(&out, values);
    for (int64_t i = 0; i < COUNT; i++) {
        EXPECT(values[i] == (rank == 1 ? sum(i) : 0));
    }
    give_back(group, &in);
    give_back(group, &out);
}

static void reduce_scatter(tutti_group *group)
{
    int32_t values[COUNT / RANKS];
    const int rank = tutti_group_rank(group);
    struct vector in;
    struct vector out;
    tutti_error error = {0};
    make(group, &in, COUNT);
    make(group, &out, COUNT / RANKS);
    fill(&in, rank);
    fill(&out, -1);
    call_counter_take(COUNTED_REDUCE_SCATTER_BLOCK);
    EXPECT_OK(tutti_reduce_scatter(group, &in.tensor, &out.tensor, TUTTI_SUM, 0, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_REDUCE_SCATTER_BLOCK).calls == 1);
    fetch(&out, values);
    for (int64_t i = 0; i < COUNT / RANKS; i++) {
        EXPECT(values[i] == sum(rank * COUNT / RANKS + i));
    }
    give_back(group, &in);
    give_back(group, &out);
}

static void copies(tutti_group *group)
{
    int32_t values[RANKS * COUNT];
    struct vector own;
    struct vector all;
    tutti_error error = {0};
    make(group, &own, COUNT);
    make(group, &all, RANKS * COUNT);
    fill(&own, tutti_group_rank(group));
    fill(&all, -1);
    call_counter_take(COUNTED_ALLGATHER);
    EXPECT_OK(tutti_all_gather(group, &own.tensor, &all.tensor, 0, TUTTI_CALL(.error = &error)));
    expect_calls(COUNTED_ALLGATHER, 1);
    fetch(&all, values);
    for (int64_t i = 0; i < RANKS * COUNT; i++) {
        EXPECT(values[i] == element((int)(i / COUNT), i % COUNT));
    }
    call_counter_take(COUNTED_BCAST);
    EXPECT_OK(tutti_broadcast(group, &own.tensor, 1, TUTTI_CALL(.error = &error)));
    expect_calls(COUNTED_BCAST, 1);
    fetch(&own, values);
    for (int64_t i = 0; i < COUNT; i++) {
        EXPECT(values[i] == element(1, i));
    }
    give_back(group, &own);
    give_back(group, &all);
}

/* Rank 0 sends twice. Rank 1 receives into a tensor, and into memory of its device that is allocated for the
 * message. */
static void messages(tutti_group *group)
{
    int32_t values[MANY] = {0};
    struct vector v;
    tutti_error error = {0};
    tutti_message message = TUTTI_MESSAGE_INIT;
    DLManagedTensorVersioned *managed = NULL;
    const tutti_call *call = TUTTI_CALL(.error = &error, .timeout_ms = ledger_limit_ms());
    make(group, &v, MANY);
    if (tutti_group_rank(group) == 0) {
        fill(&v, 0);
        EXPECT_OK(tutti_send(group, &v.tensor, 1, 3, call));
        EXPECT_OK(tutti_send(group, &v.tensor, 1, 4, call));
    } else {
        fill(&v, -1);
        EXPECT_OK(tutti_recv(group, &v.tensor, 0, 3, call, &message));
        EXPECT(message.source == 0 && message.count == MANY && message.dtype == TUTTI_I32);
        fetch(&v, values);
        for (int64_t i = 0; i < MANY; i++) {
            EXPECT(values[i] == element(0, i));
        }
        EXPECT_OK(tutti_recv_alloc(group, 0, 4, call, &managed, &message));
        EXPECT(managed && managed->dl_tensor.device.device_type == kDLCUDA && managed->dl_tensor.device.device_id == 1);
        memset(values, 0, sizeof(values));
        copy(values, managed->dl_tensor.data, sizeof(values));
        for (int64_t i = 0; i < MANY; i++) {
            EXPECT(values[i] == element(0, i));
        }
        managed->deleter(managed);
    }
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
    give_back(group, &v);
}

/* The line of the description about all_reduce. */
static void how(tutti_group *group, bool aware)
{
    char text[8000] = "";
    tutti_error error = {0};
    EXPECT_OK(tutti_group_describe(group, text, sizeof(text), NULL, &error));
    EXPECT(strstr(text, aware ? "device memory: CUDA yes" : "device memory: CUDA no"));
    char *line = strstr(text, "all_reduce");
    EXPECT(line != NULL);
    line[strcspn(line, "\n")] = '\0';
    ledger_expect((strstr(line, "through host memory") == NULL) == aware, "the description is right", line, __FILE__,
                  __LINE__);
}

/* Memory of another device is refused and never reaches MPI; so is memory that is not where the tensor's header
 * says. */
static void refusals(tutti_group *group)
{
    int32_t here[COUNT] = {0};
    const int64_t count = COUNT;
    tutti_error error = {0};
    DLTensor t = tutti_tensor_1d(here, &count, TUTTI_I32);
    call_counter_take(COUNTED_ALLREDUCE);
    EXPECT_STATUS(TUTTI_DEVICE_MISMATCH, tutti_all_reduce(group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)));
    t.device = tutti_group_device(group);
    EXPECT_STATUS(TUTTI_DEVICE_MISMATCH, tutti_all_reduce(group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_ALLREDUCE).calls == 0);
}

int main(int argc, char **argv)
{
    const char *const settings[] = {"device=cuda", "mpi.buffer_size=4096", NULL}; /* by the rank on this host */
    const bool aware = argc > 1 && strcmp(argv[1], "aware") == 0;
    tutti_error error = {0};
    tutti_group *group = NULL;
    counted = getenv("DOUBLE_CUDA") == NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &group, &error));
    const DLDevice device = tutti_group_device(group);
    EXPECT(tutti_group_size(group) == RANKS);
    ledger_say_backend(group);
    EXPECT(device.device_type == kDLCUDA && device.device_id == tutti_group_rank(group));
    open_driver(device.device_id);
    how(group, aware);
    all_reduce(group, COUNT, 1);
    all_reduce(group, MANY, 4);
    reduce(group);
    reduce_scatter(group);
    copies(group);
    messages(group);
    refusals(group);
    call_counter_take(COUNTED_BARRIER);
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_BARRIER).calls == 1);
    EXPECT_OK(tutti_group_destroy(group, &error));
    return 0;
}
