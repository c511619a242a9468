/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/collectives.h - operations that all ranks of a group call together.
 *
 * Common to all of them:
 *  - Every rank calls the same operations of a lane in the same order, with the same dtype, reduce op, root, dimension
 *    and shapes (lengths along `dim` may differ where a function says so); otherwise MISMATCH on every rank, naming who
 *    and what, and the group stays usable. A rank that waits for one that called something else hears it at once. One
 *    that does not, such as the root of a broadcast or scatter and a leaf of a reduce or gather, may return OK and hear
 *    it, once, from its next call that waits for that rank. Such a call is carried out all the same, on all ranks: it is
 *    not to be repeated. With the setting check_calls (TUTTI_CHECK_CALLS=on) every call waits, and all hear at once.
 *    All this where the backend has TUTTI_CAP_CHECKS_CALLS, which check_calls gives to the others.
 *  - Tensors lie on the group's device. A CPU call returns when the result is there and the inputs may be reused.
 *  - In place: pass exactly the same memory where the function says so. Any other overlap is INVALID_ARGUMENT.
 *  - Inputs may have any strides, 0 and negative ones included; an output that overlaps itself is INVALID_ARGUMENT.
 *  - `dim` is -ndim to ndim-1; negative ones count from the end, so -1 is the last dimension.
 *  - A tensor without elements is legal everywhere; its data may be NULL.
 *  - Outputs are the caller's. tutti/shape.h says which shape they need, and makes new ones.
 *  - Callable from any thread; threads that call at the same time use different lanes (the call's `.lane`).
 *  - `call` NULL means default options. On error the outputs are undefined and the inputs untouched (unless in place).
 *  - Errors of all of them: INVALID_ARGUMENT, BAD_STATE (stale group), MISMATCH, TIMEOUT, PEER_LEFT, REVOKED, NO_MEMORY,
 *    WOULD_DEADLOCK (inside a callback), FORKED, UNSUPPORTED.
 *
 * Numbers: reductions run in rank order, so all ranks get the same bits, run after run, on every instruction set (where
 * the backend has the capability). f16, bf16 and fp8 accumulate in f32 and round once. Integers wrap. MIN and MAX are
 * IEEE 754-2019 minimum and maximum, under which a NaN on any rank gives NaN (TUTTI_CAP_DROPS_NAN: not on this group).
 */
#ifndef TUTTI_COLLECTIVES_H
#define TUTTI_COLLECTIVES_H

#include <tutti/group.h>

TUTTI_BEGIN_DECLS

/** Reduction operators: X(NAME, value, name). Bitwise and logical ones take integers and bool; AVG not bool. */
#define TUTTI_REDUCE_OP_LIST(X)                                                                                        \
    X(SUM, 1, "sum")                                                                                                   \
    X(PRODUCT, 2, "product")                                                                                           \
    X(MIN, 3, "min")                                                                                                   \
    X(MAX, 4, "max")                                                                                                   \
    X(AVG, 5, "avg")                                                                                                   \
    X(PREMUL_SUM, 6, "premul_sum")                                                                                     \
    X(BAND, 7, "band")                                                                                                 \
    X(BOR, 8, "bor")                                                                                                   \
    X(BXOR, 9, "bxor")                                                                                                 \
    X(LAND, 10, "land")                                                                                                \
    X(LOR, 11, "lor")

typedef int32_t tutti_reduce_op;
enum {
#define TUTTI_REDUCE_OP_ENUM(name, value, text) TUTTI_##name = value,
    TUTTI_REDUCE_OP_LIST(TUTTI_REDUCE_OP_ENUM)
#undef TUTTI_REDUCE_OP_ENUM
        TUTTI_REDUCE_OP_COUNT = 12 /* one past the last value */
};

/** "sum", "avg", ...; "unknown" for a value outside the list. Static storage. */
TUTTI_API const char *tutti_reduce_op_name(tutti_reduce_op op);

/** Finds a reduce op by name, in any case; NOT_FOUND otherwise, with *op untouched. "prod" is understood too. */
TUTTI_API tutti_status tutti_reduce_op_parse(const char *name, tutti_reduce_op *op);

/** 1 if `op` is defined on `dtype`, else 0. Floats: SUM, PRODUCT, MIN, MAX, AVG, PREMUL_SUM. Integers: all. Bool: all
 *  but AVG and PREMUL_SUM (SUM = MAX = LOR, PRODUCT = MIN = LAND). */
TUTTI_API int32_t tutti_reduce_op_valid(tutti_reduce_op op, tutti_dtype dtype);

/**
 * Called once when an operation has ended: on the caller's thread for a synchronous one, on the lane's for an
 * asynchronous one; serialised per group. It may start asynchronous operations; waiting in it (any blocking call on the
 * group) is WOULD_DEADLOCK. `error` is valid during the callback only.
 */
typedef void (*tutti_callback)(tutti_status status, const tutti_error *error, void *user);

/** A token by which many asynchronous operations are cancelled together: see tutti/work.h. */
typedef struct tutti_cancel_token tutti_cancel_token;

/** Flags of a call. */
enum {
    TUTTI_CANCELLABLE = 1 << 0, /* the collective can be cancelled before it begins, where the group has
                                   TUTTI_CAP_CANCEL_FLAGGED; set on all ranks, else MISMATCH. Costs a round of arrivals.
                                   With TUTTI_CAP_CANCEL only rooted ones need it */
    TUTTI_HAS_STREAM = 1 << 1,  /* call.stream counts, NULL (the device's default stream) included */
    TUTTI_ENQUEUE =
        1 << 2, /* with TUTTI_HAS_STREAM, collectives only: what is queued on call.stream from now on waits for
                                   the end, as by tutti_work_wait_stream, and the synchronous form returns without waiting.
                                   Tensors are borrowed until the stream has come by. If the operation fails and has no
                                   callback, the group fails. In callbacks of the group: WOULD_DEADLOCK               */
    TUTTI_HANDLERS_ON_OK =
        1 << 3 /* asynchronous operations: handlers of call.operation_id (tutti/events.h) are called only
                                     if it ends OK; else they are removed uncalled */
};

/**
 * Options of one call. Zero means default everywhere; `size` is set by TUTTI_CALL(...) or tutti_call_init. It is read,
 * and `*error` written, only before the call returns.
 */
typedef struct tutti_call {
    uint32_t size;
    uint32_t flags;            /* TUTTI_CANCELLABLE, TUTTI_HAS_STREAM, TUTTI_ENQUEUE                            */
    int64_t timeout_ms;        /* deadline of the operation; 0 = the group's, -1 = for ever; expiry fails the group */
    int32_t lane;              /* 0..lanes-1                                                                    */
    uint32_t tag;              /* any number; must be the same on all ranks, else MISMATCH                      */
    double scale;              /* PREMUL_SUM: own factor, 0 = 1; integral for integer types                     */
    void *stream;              /* TUTTI_HAS_STREAM: the tensors are ready when what is queued there is done     */
    tutti_error *error;        /* filled in any case; NULL = not wanted                                         */
    tutti_callback callback;   /* NULL = none                                                                   */
    void *user;                /* handed to the callback                                                        */
    tutti_cancel_token *token; /* asynchronous operations: cancels this one too; NULL = none                  */
    int64_t operation_id;      /* asynchronous operations: number for tutti/events.h; 0 = none                */
} tutti_call;
TUTTI_STATIC_ASSERT(sizeof(tutti_call) == 80, "no padding");

/** TUTTI_CALL(.timeout_ms = 5000, .lane = 1): options for one call, in C. In C++: tutti/tutti.hpp. */
#define TUTTI_CALL(...) (&(const tutti_call){.size = (uint32_t)sizeof(tutti_call), __VA_ARGS__})

/** Sets every field to its default and `size` to this library's; for foreign languages. NULL is ignored. */
TUTTI_API void tutti_call_init(tutti_call *call);

/**
 * output = the reduction of every rank's input, on every rank. Shapes and dtypes equal. In place: output = input.
 * Bus bandwidth: 2 (n-1)/n of the bytes.
 */
TUTTI_API tutti_status tutti_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                        const tutti_call *call);

/** The same with the result on `root` only. Off the root `output` may be NULL and is not written. In place: on the
 *  root, output = input. */
TUTTI_API tutti_status tutti_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                    int32_t root, const tutti_call *call);

/** Copies root's tensor into everybody's. One tensor: input on the root, where any strides do; output elsewhere, where it
 *  must not overlap itself. */
TUTTI_API tutti_status tutti_broadcast(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call);

/**
 * output = the inputs of all ranks, concatenated in rank order along dimension `dim` (input [a, b, c], dim 1 -> output
 * [a, n*b, c]); a 0-dimensional input counts as [1]. In place (dim 0 or nothing before dim): input is exactly the own
 * slice of output.
 */
TUTTI_API tutti_status tutti_all_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                        const tutti_call *call);

/** The same with the result on `root` only; elsewhere output may be NULL. */
TUTTI_API tutti_status tutti_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                    int32_t root, const tutti_call *call);

/** The inverse of gather: root's input is cut along `dim` into n equal parts; rank r gets part r. Off the root input may
 *  be NULL. In place: on the root, output is exactly its own part of input. Indivisible: INVALID_ARGUMENT. */
TUTTI_API tutti_status tutti_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                     int32_t root, const tutti_call *call);

/** Reduces the inputs and leaves part r (along `dim`, n equal parts) on rank r. In place: output is exactly the own part
 *  of input. Indivisible: INVALID_ARGUMENT (use tutti_reduce_scatter_v). */
TUTTI_API tutti_status tutti_reduce_scatter(tutti_group *group, const DLTensor *input, DLTensor *output,
                                            tutti_reduce_op op, int32_t dim, const tutti_call *call);

/** Cuts the input along `dim` into n equal parts; part r goes to rank r, which puts what comes from rank s at part s of
 *  its output. Equal shapes, divisible. No in-place form. */
TUTTI_API tutti_status tutti_all_to_all(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                        const tutti_call *call);

/** Returns when every rank has called it. */
TUTTI_API tutti_status tutti_barrier(tutti_group *group, const tutti_call *call);

/**
 * all_gather with parts of different length: rank r's input has counts[r] rows along `dim`, which land at row
 * displacements[r] of output (NULL = one behind the other). `counts` and `displacements` have one entry per rank and are
 * the same on all ranks. Rows of output outside every part are left alone. Parts must not overlap.
 */
TUTTI_API tutti_status tutti_all_gather_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                          const int64_t *counts, const int64_t *displacements, const tutti_call *call);

/** reduce_scatter with parts of different length: rank r gets counts[r] rows along `dim` of the reduced input, one part
 *  behind the other; the counts sum to the input's length along `dim`. */
TUTTI_API tutti_status tutti_reduce_scatter_v(tutti_group *group, const DLTensor *input, DLTensor *output,
                                              tutti_reduce_op op, int32_t dim, const int64_t *counts,
                                              const tutti_call *call);

/**
 * all_to_all with parts of different length along `dim`: send_counts[r] rows at send_displacements[r] of input go to
 * rank r; recv_counts[s] rows from rank s land at recv_displacements[s] of output. Displacements NULL = one behind the
 * other. send_counts[r] here must equal recv_counts[here] at r, else MISMATCH. Received parts must not overlap.
 */
TUTTI_API tutti_status tutti_all_to_all_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                          const int64_t *send_counts, const int64_t *send_displacements,
                                          const int64_t *recv_counts, const int64_t *recv_displacements,
                                          const tutti_call *call);

TUTTI_END_DECLS

#endif
