/* SPDX-License-Identifier: BSD-3-Clause */
#include "witness.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* Tutti's threads call too */
static struct witness seen[WITNESS_FUNCTIONS];
static int starts;
static int ends;
static int end_expected;

struct witness witness_take(enum witness_function function)
{
    pthread_mutex_lock(&lock);
    const struct witness taken = seen[function];
    seen[function] = (struct witness){.type = MPI_DATATYPE_NULL, .op = MPI_OP_NULL};
    pthread_mutex_unlock(&lock);
    return taken;
}

void witness_expect_end(void)
{
    end_expected = 1;
}

/* Runs behind all that was registered with atexit and on_exit, so behind Tutti's end of MPI. */
__attribute__((destructor)) static void check_end(void)
{
    if (end_expected && (starts != 1 || ends != 1)) {
        fprintf(stderr, "FAILED: MPI was started %d times and ended %d times\n", starts, ends);
        fflush(stderr);
        _exit(1);
    }
}

static void see(enum witness_function function, MPI_Datatype type, MPI_Op op, int level)
{
    pthread_mutex_lock(&lock);
    seen[function] = (struct witness){.calls = seen[function].calls + 1, .type = type, .op = op, .level = level};
    starts += function == WITNESS_INIT || function == WITNESS_INIT_THREAD;
    ends += function == WITNESS_FINALIZE;
    pthread_mutex_unlock(&lock);
}

int MPI_Init(int *argc, char ***argv)
{
    see(WITNESS_INIT, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    see(WITNESS_INIT_THREAD, MPI_DATATYPE_NULL, MPI_OP_NULL, required);
    return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Finalize(void)
{
    see(WITNESS_FINALIZE, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Finalize();
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    see(WITNESS_BCAST, type, MPI_OP_NULL, 0);
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    see(WITNESS_REDUCE, type, op, 0);
    return PMPI_Reduce(in, out, count, type, op, root, comm);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    see(WITNESS_ALLREDUCE, type, op, 0);
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Allgather(const void *in, int count, MPI_Datatype type, void *out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm)
{
    see(WITNESS_ALLGATHER, type, MPI_OP_NULL, 0);
    return PMPI_Allgather(in, count, type, out, out_count, out_type, comm);
}

int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    see(WITNESS_REDUCE_SCATTER, type, op, 0);
    return PMPI_Reduce_scatter(in, out, counts, type, op, comm);
}

int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    see(WITNESS_REDUCE_SCATTER_BLOCK, type, op, 0);
    return PMPI_Reduce_scatter_block(in, out, count, type, op, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    see(WITNESS_BARRIER, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Barrier(comm);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
    see(WITNESS_ISEND, type, MPI_OP_NULL, 0);
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
    see(WITNESS_IRECV, type, MPI_OP_NULL, 0);
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status)
{
    see(WITNESS_IMPROBE, MPI_DATATYPE_NULL, MPI_OP_NULL, 0);
    return PMPI_Improbe(from, tag, comm, found, message, status);
}

int MPI_Mrecv(void *data, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    see(WITNESS_MRECV, type, MPI_OP_NULL, 0);
    return PMPI_Mrecv(data, count, type, message, status);
}
