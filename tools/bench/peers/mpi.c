/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI library as a peer of `tutti bench`. Built once with each library that is installed; TTI_PEER_NAME says which.
 * The job must have been started by that library's own mpirun.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/beside/peer.h"

struct session {
    MPI_Comm comm; /* with Tutti's ranks */
    int rank;
    int size;
};

/* MPI knows no narrow floating-point types. */
static MPI_Datatype datatype(tutti_dtype dtype)
{
    static const MPI_Datatype types[TUTTI_DTYPE_COUNT] = {
        [TUTTI_F64] = MPI_DOUBLE,   [TUTTI_F32] = MPI_FLOAT,    [TUTTI_I8] = MPI_INT8_T,   [TUTTI_I16] = MPI_INT16_T,
        [TUTTI_I32] = MPI_INT32_T,  [TUTTI_I64] = MPI_INT64_T,  [TUTTI_U8] = MPI_UINT8_T,  [TUTTI_U16] = MPI_UINT16_T,
        [TUTTI_U32] = MPI_UINT32_T, [TUTTI_U64] = MPI_UINT64_T, [TUTTI_BOOL] = MPI_C_BOOL,
    };
    return types[dtype] ? types[dtype] : MPI_DATATYPE_NULL;
}

/* MPI can still transfer types that it cannot reduce. */
static MPI_Datatype moved_datatype(tutti_dtype dtype)
{
    const MPI_Datatype known = datatype(dtype);
    if (known != MPI_DATATYPE_NULL) {
        return known;
    }
    return dtype == TUTTI_F16 || dtype == TUTTI_BF16 ? MPI_UINT16_T : MPI_UINT8_T;
}

static MPI_Op reduction(tutti_reduce_op op, tutti_dtype dtype)
{
    static const struct {
        MPI_Op of_numbers;
        MPI_Op of_bool; /* which MPI combines logically only */
    } ops[TUTTI_REDUCE_OP_COUNT] = {
        [TUTTI_SUM] = {MPI_SUM, MPI_LOR},    [TUTTI_PRODUCT] = {MPI_PROD, MPI_LAND}, [TUTTI_MIN] = {MPI_MIN, MPI_LAND},
        [TUTTI_MAX] = {MPI_MAX, MPI_LOR},    [TUTTI_BAND] = {MPI_BAND, MPI_LAND},    [TUTTI_BOR] = {MPI_BOR, MPI_LOR},
        [TUTTI_BXOR] = {MPI_BXOR, MPI_LXOR}, [TUTTI_LAND] = {MPI_LAND, MPI_LAND},    [TUTTI_LOR] = {MPI_LOR, MPI_LOR},
    };
    const MPI_Op found = dtype == TUTTI_BOOL ? ops[op].of_bool : ops[op].of_numbers;
    return found ? found : MPI_OP_NULL;
}

/* The communicator with Tutti's numbers, or MPI_COMM_NULL and the reason. */
static MPI_Comm join(const struct tti_bench_peer_job *job, char *why, size_t capacity)
{
    int size = 0;
    int rank = 0;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    if (size != job->size) {
        snprintf(why, capacity, "its world has %d rank%s, and the job %d: start the job with its own mpirun", size,
                 size == 1 ? "" : "s", job->size);
        return MPI_COMM_NULL;
    }
    int differs = rank != job->rank;
    if (MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS ||
        (differs && MPI_Comm_split(MPI_COMM_WORLD, 0, job->rank, &comm) != MPI_SUCCESS)) {
        snprintf(why, capacity, "its ranks cannot be brought into order");
        return MPI_COMM_NULL;
    }
    return comm;
}

static void finalize(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended) {
        MPI_Finalize();
    }
}

static void describe(char *version, size_t capacity)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\t' ? ' ' : *c;
    }
    snprintf(version, capacity, "%s", text);
}

static int open_peer(const struct tti_bench_peer_job *job, const char *settings, void **session, char *version,
                     size_t version_capacity, char *why, size_t why_capacity)
{
    int started = 0;
    int level = 0;
    if (job->threads) {
        snprintf(why, why_capacity, "its ranks have to be processes, not threads");
        return 1;
    }
    if (settings[0] != '\0') {
        snprintf(why, why_capacity, "takes no settings here: give them to its mpirun");
        return 1;
    }
    MPI_Initialized(&started);
    if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        snprintf(why, why_capacity, "MPI_Init_thread failed");
        return 1;
    }
    const MPI_Comm comm = join(job, why, why_capacity);
    struct session *s = comm == MPI_COMM_NULL ? NULL : malloc(sizeof(*s));
    if (!s) {
        finalize();
        return 1;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    *s = (struct session){.comm = comm, .rank = job->rank, .size = job->size};
    describe(version, version_capacity);
    *session = s;
    return 0;
}

static int supports(void *session, const struct tti_bench_peer_call *call)
{
    const struct session *s = session;
    if (call->count > INT32_MAX / s->size) {
        return 0; /* counts, and in some libraries displacements, are int */
    }
#ifdef MPICH_NUMVERSION
    if (call->kind == TUTTI_OP_REDUCE && call->in_place && call->root != 0) {
        return 0; /* MPICH 4.0.2 reads from the address MPI_IN_PLACE */
    }
#endif
    return call->redop == 0 ||
           (datatype(call->dtype) != MPI_DATATYPE_NULL && reduction(call->redop, call->dtype) != MPI_OP_NULL);
}

/* In place for the collectives whose input is the rank's own part of the output, or the other way round. */
static int is_own_part(const struct session *s, const void *part, const void *whole, int count, MPI_Datatype type)
{
    int item = 1;
    MPI_Type_size(type, &item);
    return part && whole && (const char *)part == (const char *)whole + (size_t)s->rank * (size_t)count * (size_t)item;
}

static int partner_of(const struct session *s)
{
    return (s->rank ^ 1) < s->size ? s->rank ^ 1 : MPI_PROC_NULL;
}

static int ping_pong(const struct session *s, const struct tti_bench_peer_call *c, MPI_Datatype type)
{
    const int partner = partner_of(s);
    const int first = s->rank % 2 == 0;
    int code = MPI_SUCCESS;
    for (int step = 0; step < 2 && code == MPI_SUCCESS; step++) {
        code = (step == 0) == first ? MPI_Send(c->in, (int)c->count, type, partner, 0, s->comm)
                                    : MPI_Recv(c->out, (int)c->count, type, partner, 0, s->comm, MPI_STATUS_IGNORE);
    }
    return code;
}

static int window(const struct session *s, const struct tti_bench_peer_call *c, MPI_Datatype type)
{
    const int count = (int)(c->count / TTI_BENCH_MESSAGES);
    MPI_Request requests[2 * TTI_BENCH_MESSAGES];
    int item = 1;
    int code = MPI_Type_size(type, &item);
    for (int i = 0; i < 2 * TTI_BENCH_MESSAGES && code == MPI_SUCCESS; i++) {
        const size_t offset = (size_t)(i % TTI_BENCH_MESSAGES) * (size_t)count * (size_t)item;
        code = i < TTI_BENCH_MESSAGES
                   ? MPI_Irecv((char *)c->out + offset, count, type, partner_of(s), 0, s->comm, &requests[i])
                   : MPI_Isend((const char *)c->in + offset, count, type, partner_of(s), 0, s->comm, &requests[i]);
    }
    return code == MPI_SUCCESS ? MPI_Waitall(2 * TTI_BENCH_MESSAGES, requests, MPI_STATUSES_IGNORE) : code;
}

static int make_group(const struct session *s)
{
    MPI_Comm sub = MPI_COMM_NULL;
    double value = 1;
    int code = MPI_Comm_split(s->comm, 0, s->rank, &sub);
    if (code == MPI_SUCCESS) {
        code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, sub);
        MPI_Comm_free(&sub);
    }
    return code;
}

/* Does little besides the call, since all work here counts in the peer's times. */
static int run(const struct session *s, const struct tti_bench_peer_call *c)
{
    const int count = (int)c->count;
    const MPI_Datatype type = c->redop ? datatype(c->dtype) : moved_datatype(c->dtype);
    const MPI_Op op = c->redop ? reduction(c->redop, c->dtype) : MPI_OP_NULL;
    const int is_root = s->rank == c->root;
    const void *same = c->in && c->in == c->out ? MPI_IN_PLACE : c->in;
    switch (c->pattern) {
    case TTI_BENCH_PING_PONG:
        return ping_pong(s, c, type);
    case TTI_BENCH_WINDOW:
        return window(s, c, type);
    case TTI_BENCH_GROUP:
        return make_group(s);
    default:
        break;
    }
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return MPI_Allreduce(same, c->out, count, type, op, s->comm);
    case TUTTI_OP_REDUCE:
        return MPI_Reduce(is_root ? same : c->in, c->out, count, type, op, c->root, s->comm);
    case TUTTI_OP_BROADCAST:
        return MPI_Bcast(c->out, count, type, c->root, s->comm);
    case TUTTI_OP_ALL_GATHER:
        return MPI_Allgather(is_own_part(s, c->in, c->out, count, type) ? MPI_IN_PLACE : c->in, count, type, c->out,
                             count, type, s->comm);
    case TUTTI_OP_GATHER:
        return MPI_Gather(is_root && is_own_part(s, c->in, c->out, count, type) ? MPI_IN_PLACE : c->in, count, type,
                          c->out, count, type, c->root, s->comm);
    case TUTTI_OP_SCATTER:
        return MPI_Scatter(c->in, count, type,
                           is_root && is_own_part(s, c->out, c->in, count, type) ? MPI_IN_PLACE : c->out, count, type,
                           c->root, s->comm);
    case TUTTI_OP_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(same, c->out, count, type, op, s->comm);
    case TUTTI_OP_ALL_TO_ALL:
        return MPI_Alltoall(c->in, count, type, c->out, count, type, s->comm);
    case TUTTI_OP_SEND:
        return MPI_Sendrecv(c->in, count, type, (s->rank + 1) % s->size, 0, c->out, count, type,
                            (s->rank + s->size - 1) % s->size, 0, s->comm, MPI_STATUS_IGNORE);
    default:
        return MPI_Barrier(s->comm);
    }
}

static int call_peer(void *session, const struct tti_bench_peer_call *call, char *why, size_t capacity)
{
    const int code = run(session, call);
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "unknown error";
        int length = 0;
        MPI_Error_string(code, text, &length);
        snprintf(why, capacity, "%s", text);
    }
    return code != MPI_SUCCESS;
}

static void close_peer(void *session)
{
    struct session *s = session;
    if (s->comm != MPI_COMM_WORLD) {
        MPI_Comm_free(&s->comm);
    }
    free(s);
    finalize();
}

extern const struct tti_bench_peer tti_bench_peer; /* found by dlsym */

__attribute__((visibility("default"))) const struct tti_bench_peer tti_bench_peer = {
    TTI_BENCH_PEER_ABI, sizeof(tti_bench_peer), TTI_PEER_NAME, open_peer, supports, call_peer, close_peer};
