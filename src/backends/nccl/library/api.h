/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of NCCL's binary interface that Tutti uses. RCCL has the same names and numbers (nccl.h,
 * https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html). It is declared again because Tutti builds
 * without either library. Where nccl.h is installed, a test compares every prototype, type and number at compile time.
 */
#ifndef TTI_BACKENDS_NCCL_LIBRARY_API_H
#define TTI_BACKENDS_NCCL_LIBRARY_API_H

#include <stddef.h>

typedef void *tti_nccl_comm;
typedef void *tti_nccl_stream; /* cudaStream_t = CUstream, or hipStream_t */

typedef struct {
    char internal[128];
} tti_nccl_id;

/* ncclResult_t. Later versions add numbers: nothing is sized by them. */
enum {
    TTI_NCCL_SUCCESS = 0,
    TTI_NCCL_UNHANDLED_DEVICE_ERROR = 1,
    TTI_NCCL_SYSTEM_ERROR = 2,
    TTI_NCCL_INTERNAL_ERROR = 3,
    TTI_NCCL_INVALID_ARGUMENT = 4,
    TTI_NCCL_INVALID_USAGE = 5,
    TTI_NCCL_REMOTE_ERROR = 6,
    TTI_NCCL_IN_PROGRESS = 7
};

/* ncclDataType_t */
enum {
    TTI_NCCL_INT8 = 0,
    TTI_NCCL_UINT8 = 1,
    TTI_NCCL_INT32 = 2,
    TTI_NCCL_UINT32 = 3,
    TTI_NCCL_INT64 = 4,
    TTI_NCCL_UINT64 = 5,
    TTI_NCCL_FLOAT16 = 6,
    TTI_NCCL_FLOAT32 = 7,
    TTI_NCCL_FLOAT64 = 8,
    TTI_NCCL_BFLOAT16 = 9,
    TTI_NCCL_FLOAT8_E4M3 = 10,
    TTI_NCCL_FLOAT8_E5M2 = 11
};

/* ncclRedOp_t */
enum { TTI_NCCL_SUM = 0, TTI_NCCL_PROD = 1, TTI_NCCL_MAX = 2, TTI_NCCL_MIN = 3, TTI_NCCL_AVG = 4 };

/* ncclScalarResidence_t */
enum { TTI_NCCL_SCALAR_ON_DEVICE = 0, TTI_NCCL_SCALAR_ON_HOST = 1 };

#define TTI_NCCL_CONFIG_MAGIC   0xcafebeefu
#define TTI_NCCL_CONFIG_VERSION 21800u
#define TTI_NCCL_UNDEFINED      (-2147483647 - 1)

/* The beginning of ncclConfig_t, as in 2.18. A library reads min(size, its own size) bytes of it, and takes fields
 * newer than `version` as not given. So this struct works with all versions. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size; /* from 2.17 on */
    int min_ctas;         /* both or neither: one alone is refused */
    int max_ctas;
    const char *net_name;
    int split_share; /* from 2.18 on */
} tti_nccl_config;

/*
 * The functions: X(name, since, result, arguments). `since` is the version that introduced the function; RCCL follows
 * NCCL's versions. Functions up to 20700 are required; a newer one may be missing (NULL), and its caller says what
 * happens then. CommShrink and CommRevoke are not called yet: they are for groups that continue without lost ranks.
 */
#define TTI_NCCL_FUNCTIONS(X)                                                                                          \
    X(GetVersion, 20300, int, (int *version))                                                                          \
    X(GetUniqueId, 20000, int, (tti_nccl_id * id))                                                                     \
    X(CommInitRank, 20000, int, (tti_nccl_comm * comm, int ranks, tti_nccl_id id, int rank))                           \
    X(CommDestroy, 20000, int, (tti_nccl_comm comm))                                                                   \
    X(CommAbort, 20400, int, (tti_nccl_comm comm))                                                                     \
    X(CommGetAsyncError, 20400, int, (tti_nccl_comm comm, int *error))                                                 \
    X(GetErrorString, 20000, const char *, (int result))                                                               \
    X(AllReduce, 20000, int,                                                                                           \
      (const void *send, void *recv, size_t count, int type, int op, tti_nccl_comm comm, tti_nccl_stream stream))      \
    X(Reduce, 20000, int,                                                                                              \
      (const void *send, void *recv, size_t count, int type, int op, int root, tti_nccl_comm comm,                     \
       tti_nccl_stream stream))                                                                                        \
    X(Broadcast, 20300, int,                                                                                           \
      (const void *send, void *recv, size_t count, int type, int root, tti_nccl_comm comm, tti_nccl_stream stream))    \
    X(AllGather, 20000, int,                                                                                           \
      (const void *send, void *recv, size_t count, int type, tti_nccl_comm comm, tti_nccl_stream stream))              \
    X(ReduceScatter, 20000, int,                                                                                       \
      (const void *send, void *recv, size_t count, int type, int op, tti_nccl_comm comm, tti_nccl_stream stream))      \
    X(Send, 20700, int,                                                                                                \
      (const void *send, size_t count, int type, int peer, tti_nccl_comm comm, tti_nccl_stream stream))                \
    X(Recv, 20700, int, (void *recv, size_t count, int type, int peer, tti_nccl_comm comm, tti_nccl_stream stream))    \
    X(GroupStart, 20000, int, (void))                                                                                  \
    X(GroupEnd, 20000, int, (void))                                                                                    \
    X(RedOpCreatePreMulSum, 21100, int, (int *op, void *scalar, int type, int residence, tti_nccl_comm comm))          \
    X(RedOpDestroy, 21100, int, (int op, tti_nccl_comm comm))                                                          \
    X(GetLastError, 21300, const char *, (tti_nccl_comm comm))                                                         \
    X(CommInitRankConfig, 21400, int,                                                                                  \
      (tti_nccl_comm * comm, int ranks, tti_nccl_id id, int rank, tti_nccl_config *config))                            \
    X(CommFinalize, 21400, int, (tti_nccl_comm comm))                                                                  \
    X(MemAlloc, 21900, int, (void **memory, size_t bytes))                                                             \
    X(MemFree, 21900, int, (void *memory))                                                                             \
    X(CommRegister, 21900, int, (tti_nccl_comm comm, void *memory, size_t bytes, void **handle))                       \
    X(CommDeregister, 21900, int, (tti_nccl_comm comm, void *handle))                                                  \
    X(CommShrink, 22700, int,                                                                                          \
      (tti_nccl_comm comm, int *without, int count, tti_nccl_comm *made, tti_nccl_config *config, int flags))          \
    X(CommRevoke, 22807, int, (tti_nccl_comm comm, int flags))                                                         \
    X(AlltoAll, 22803, int,                                                                                            \
      (const void *send, void *recv, size_t count, int type, tti_nccl_comm comm, tti_nccl_stream stream))              \
    X(Gather, 22803, int,                                                                                              \
      (const void *send, void *recv, size_t count, int type, int root, tti_nccl_comm comm, tti_nccl_stream stream))    \
    X(Scatter, 22803, int,                                                                                             \
      (const void *send, void *recv, size_t count, int type, int root, tti_nccl_comm comm, tti_nccl_stream stream))

#endif
