/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A double of the MPI library (LD_PRELOAD): it prints how MPI is started, and makes MPI behave in ways that it does not
 * behave on this machine. Environment variables of the test select them:
 *
 *   DOUBLE_SHOW         names of variables, separated by blanks, whose values MPI finds when it starts
 *   DOUBLE_CVARS        names of MPI's control variables, likewise: their values after the start
 *   DOUBLE_COUNTS       the elements of each all_reduce
 *   DOUBLE_CUDA         the library takes CUDA memory, that of the double of libcuda.so.1 which TUTTI_CUDA_LIBRARY
 *   names,
 *                       in all_reduce, broadcast, all_gather and all_to_all, and prints when it gets some
 *   DOUBLE_INTEL        the library is Intel MPI
 *   DOUBLE_FAIL_RANK    the rank on which all_reduce fails ...
 *   DOUBLE_FAIL_CALL    ... in this call, counted for each function, from 1
 *   DOUBLE_FAIL_ABSENT  ... without taking part, so the other ranks wait for ever
 *   DOUBLE_FAIL_PROBE   MPI_Improbe for messages fails on that rank
 *   DOUBLE_SLOW_MS      for so long the data of a broadcast are on their way on the rank that sets it; `double_slow`
 *                       points to where MPI receives them
 *   DOUBLE_SPANS        MPI_Ialltoallw, and messages that are not of bytes, transfer nothing, and print how many bytes
 *                       each part has, and how many it spans
 *   DOUBLE_ONE_THREAD   only the thread that has started MPI may send, receive messages or wait
 *   DOUBLE_NO_MEMORY    a text of which strdup makes no copy, or a variable that setenv does not set
 */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_t starter;

static void check_thread(void)
{
    if (getenv("DOUBLE_ONE_THREAD") && !pthread_equal(pthread_self(), starter)) {
        fprintf(stderr, "double: a call from another thread\n");
        _exit(98);
    }
}

static const char *level_name(int level)
{
    return level == MPI_THREAD_SINGLE       ? "single"
           : level == MPI_THREAD_FUNNELED   ? "funneled"
           : level == MPI_THREAD_SERIALIZED ? "serialized"
                                            : "multiple";
}

static void show_variable(const char *name)
{
    const char *value = getenv(name);
    printf("double: variable %s=%s\n", name, value ? value : "(none)");
}

static void show_cvar(const char *name)
{
    int value[64] = {0};
    int index = -1;
    int count = 0;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS && count == 1 &&
        MPI_T_cvar_read(handle, value) == MPI_SUCCESS) {
        printf("double: cvar %s=%d\n", name, value[0]);
    } else {
        printf("double: there is no cvar %s\n", name);
    }
}

static void for_each(const char *list, void (*show)(const char *name))
{
    char *copy = strdup(list ? list : "");
    char *rest = copy;
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        show(name);
    }
    free(copy);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int level = 0;
    printf("double: level %s\n", level_name(required));
    for_each(getenv("DOUBLE_SHOW"), show_variable);
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    starter = pthread_self();
    if (getenv("DOUBLE_CVARS") && MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS) {
        for_each(getenv("DOUBLE_CVARS"), show_cvar);
    }
    fflush(stdout);
    return code;
}

int MPI_Get_library_version(char *text, int *length)
{
    const int code = PMPI_Get_library_version(text, length);
    if (getenv("DOUBLE_INTEL")) {
        strcpy(text, "Intel(R) MPI Library 2021.9 for Linux* OS\n");
        *length = (int)strlen(text);
    }
    return code;
}

int MPIX_Query_cuda_support(void)
{
    return getenv("DOUBLE_CUDA") != NULL;
}

#if !defined(OPEN_MPI)
int MPIX_GPU_query_support(int kind, int *yes)
{
    *yes = kind == MPIX_GPU_SUPPORT_CUDA && getenv("DOUBLE_CUDA");
    return MPI_SUCCESS;
}
#endif

static int fails_now(int count, int *calls)
{
    int rank = -1;
    if (getenv("DOUBLE_COUNTS")) {
        printf("double: all_reduce of %d\n", count);
    }
    const char *call = getenv("DOUBLE_FAIL_CALL");
    const char *where = getenv("DOUBLE_FAIL_RANK");
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return call && where && ++*calls == atoi(call) && rank == atoi(where);
}

/* Reports an error as MPI does: by the communicator's error handler, which by default ends the process. */
static int failure(MPI_Comm comm)
{
    static int code;
    if (code == 0) {
        int class = 0;
        PMPI_Add_error_class(&class);
        PMPI_Add_error_code(class, &code);
        PMPI_Add_error_string(code, "the switch\nhas melted");
    }
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

/* TTI_MPI_TAG_ENVELOPE */
#define TAG_ENVELOPE 0

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status)
{
    const char *where = getenv("DOUBLE_FAIL_RANK");
    int rank = -1;
    check_thread();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (tag == TAG_ENVELOPE && getenv("DOUBLE_FAIL_PROBE") && where && rank == atoi(where)) {
        return failure(comm);
    }
    return PMPI_Improbe(from, tag, comm, found, message, status);
}

static int has_no_memory(const char *text)
{
    const char *none = getenv("DOUBLE_NO_MEMORY");
    const int is_named = none && strcmp(text, none) == 0;
    errno = is_named ? ENOMEM : errno;
    return is_named;
}

char *strdup(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = has_no_memory(text) ? NULL : malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

int setenv(const char *name, const char *value, int replace)
{
    static int (*real)(const char *name, const char *value, int replace);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "setenv");
    }
    return has_no_memory(name) ? -1 : real(name, value, replace);
}

/* The host memory behind a device pointer of the driver's double; any other pointer is returned unchanged. */
static void *resolve(const void *memory, const char *function)
{
    static void *(*shadow)(const void *memory, size_t bytes, int *device);
    static bool looked;
    const char *path = getenv("TUTTI_CUDA_LIBRARY");
    if (!looked && path && getenv("DOUBLE_CUDA")) {
        void *driver = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        *(void **)&shadow = driver ? dlsym(driver, "tti_double_shadow") : NULL;
        looked = driver != NULL;
    }
    int device = -1;
    void *there = shadow && memory && memory != MPI_IN_PLACE ? shadow(memory, 1, &device) : NULL;
    if (!there || device < 0) {
        return (void *)memory;
    }
    printf("double: %s of device memory\n", function);
    return there;
}

int MPI_Bcast(void *memory, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    return PMPI_Bcast(resolve(memory, "broadcast"), count, type, root, comm);
}

int MPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm)
{
    return PMPI_Allgather(resolve(in, "all_gather"), in_count, in_type, resolve(out, "all_gather"), out_count, out_type,
                          comm);
}

int MPI_Alltoall(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,
                 MPI_Comm comm)
{
    return PMPI_Alltoall(resolve(in, "all_to_all"), in_count, in_type, resolve(out, "all_to_all"), out_count, out_type,
                         comm);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    const int fails = fails_now(count, &calls);
    in = resolve(in, "all_reduce");
    out = resolve(out, "all_reduce");
    const int code =
        fails && getenv("DOUBLE_FAIL_ABSENT") ? MPI_SUCCESS : PMPI_Allreduce(in, out, count, type, op, comm);
    return fails ? failure(comm) : code;
}

/* A large all_reduce that does not block sends with this tag (TTI_MPI_TAG_PART), twice between two ranks. */
#define TAG_PART 5

static void print_span(const char *what, MPI_Datatype type)
{
    MPI_Count bytes = 0;
    MPI_Count begin = 0;
    MPI_Count span = 0;
    PMPI_Type_size_x(type, &bytes);
    PMPI_Type_get_true_extent_x(type, &begin, &span);
    printf("double: %s of %lld bytes spans %lld\n", what, (long long)bytes, (long long)span);
}

int MPI_Irecv(void *memory, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    check_thread();
    if (getenv("DOUBLE_SPANS") && type != MPI_BYTE) {
        print_span("message", type);
        count = 0;
    }
    return PMPI_Irecv(memory, count, type, from, tag, comm, request);
}

int MPI_Isend(const void *memory, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    static int calls;
    static int sends;
    check_thread();
    if (tag == TAG_PART && sends++ % 2 == 0 && fails_now(count, &calls)) {
        return failure(comm);
    }
    if (getenv("DOUBLE_SPANS") && type != MPI_BYTE) {
        count = 0;
    }
    return PMPI_Isend(memory, count, type, to, tag, comm, request);
}

int MPI_Ialltoallw(const void *in, const int in_counts[], const int in_at[], const MPI_Datatype in_types[], void *out,
                   const int out_counts[], const int out_at[], const MPI_Datatype out_types[], MPI_Comm comm,
                   MPI_Request *request)
{
    int size = 0;
    check_thread();
    if (!getenv("DOUBLE_SPANS")) {
        return PMPI_Ialltoallw(in, in_counts, in_at, in_types, out, out_counts, out_at, out_types, comm, request);
    }
    PMPI_Comm_size(comm, &size);
    for (int r = 0; r < size; r++) {
        if (out_counts[r] > 0) {
            print_span("part", out_types[r]);
        }
    }
    return PMPI_Ibarrier(comm, request);
}

void *double_slow;
static MPI_Request slow_request;
static int64_t slow_until_ms;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int MPI_Ibcast(void *memory, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    const char *ms = getenv("DOUBLE_SLOW_MS");
    check_thread();
    const int code = PMPI_Ibcast(memory, count, type, root, comm, request);
    if (ms) {
        double_slow = memory;
        slow_request = *request;
        slow_until_ms = now_ms() + strtoll(ms, NULL, 10);
    }
    return code;
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    check_thread();
    if (double_slow && *request == slow_request && now_ms() < slow_until_ms) {
        *done = 0;
        return MPI_SUCCESS;
    }
    return PMPI_Test(request, done, status);
}
