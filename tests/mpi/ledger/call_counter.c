/* SPDX-License-Identifier: BSD-3-Clause */
/* See call_counter.h: each function of MPI is counted here, with the arguments of its last call, and then called by its
 * PMPI_ name. A destructor checks that MPI has started and ended once. */
#include "call_counter.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* Tutti's threads call MPI, too */
static struct call_counter counts[COUNTED_FUNCTIONS];
static int starts;
static int ends;
static int end_expected;

struct call_counter call_counter_take(enum call_counter_function function)
{
    pthread_mutex_lock(&lock);
    const struct call_counter taken = counts[function];
    counts[function] = (struct call_counter){.type = MPI_DATATYPE_NULL, .op = MPI_OP_NULL};
    pthread_mutex_unlock(&lock);
    return taken;
}

void call_counter_expect_end(void)
{
    end_expected = 1;
}

/* Runs after all functions of atexit and on_exit, so after Tutti's end of MPI. */
__attribute__((destructor)) static void check_end(void)
{
    if (end_expected && (starts != 1 || ends != 1)) {
        fprintf(stderr, "FAILED: MPI was started %d times and ended %d times\n", starts, ends);
        fflush(stderr);
        _exit(1);
    }
}

static void count_call(enum call_counter_function function, MPI_Datatype type, MPI_Op op, int level)
{
    pthread_mutex_lock(&lock);
    counts[function] =
        (struct call_counter){.calls = counts[function].calls + 1, .type = type, .op = op, .level = level};
    starts += function == COUNTED_INIT || function == COUNTED_INIT_THREAD;
    ends += function == COUNTED_FINALIZE;
    pthread_mutex_unlock(&lock);
}

int MPI_Init(int *argc, char ***argv)
{
    count_call(COUNTED_INIT, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    count_call(COUNTED_INIT_THREAD, MPI_DATATYPE_NULL, MPI_OP_NULL, required);
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Finalize(void)
{
    count_call(COUNTED_FINALIZE, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Finalize();
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    count_call(COUNTED_BCAST, type, MPI_OP_NULL, 0);
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    count_call(COUNTED_REDUCE, type, op, 0);
    return PMPI_Reduce(in, out, count, type, op, root, comm);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count_call(COUNTED_ALLREDUCE, type, op, 0);
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Allgather(const void *in, int count, MPI_Datatype type, void *out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm)
{
    count_call(COUNTED_ALLGATHER, type, MPI_OP_NULL, 0);
    return PMPI_Allgather(in, count, type, out, out_count, out_type, comm);
}

int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count_call(COUNTED_REDUCE_SCATTER, type, op, 0);
    return PMPI_Reduce_scatter(in, out, counts, type, op, comm);
}

int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count_call(COUNTED_REDUCE_SCATTER_BLOCK, type, op, 0);
    return PMPI_Reduce_scatter_block(in, out, count, type, op, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    count_call(COUNTED_BARRIER, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Barrier(comm);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    count_call(COUNTED_ISEND, type, MPI_OP_NULL, 0);
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    count_call(COUNTED_IRECV, type, MPI_OP_NULL, 0);
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status)
{
    count_call(COUNTED_IMPROBE, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Improbe(from, tag, comm, found, message, status);
}

int MPI_Mrecv(void *data, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    count_call(COUNTED_MRECV, type, MPI_OP_NULL, 0);
    return PMPI_Mrecv(data, count, type, message, status);
}
