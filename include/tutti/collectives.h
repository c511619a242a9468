/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/collectives.h - operations that all ranks of a group call together.
 *
 * Common to all of them:
 *  - Every rank calls the same operations of a lane in the same order, with the same dtype, reduce op, root, dimension
 *    and shapes (lengths along `dim` may differ where a function allows it). Otherwise every rank gets MISMATCH, which
 *    names the rank and the difference, and the group stays usable.
 *  - A rank that waits for a rank with another call returns MISMATCH at once. A rank that does not wait (the root of a
 *    broadcast or scatter, a leaf of a reduce or gather) may return OK. It gets MISMATCH once, from its next call that
 *    waits for that rank. That next call is carried out all the same on all ranks: do not repeat it. With the setting
 *    check_calls (TUTTI_CHECK_CALLS=on) every call waits, and all ranks get MISMATCH at once.
 *  - These checks need a backend with TUTTI_CAP_CHECKS_CALLS; check_calls adds them to the others.
 *  - Tensors lie on the group's device. A CPU call returns when the result is complete and the inputs may be reused.
 *  - In place: pass exactly the same memory where the function allows it. Any other overlap is INVALID_ARGUMENT.
 *  - Inputs may have any strides, including 0 and negative ones. An output that overlaps itself is INVALID_ARGUMENT.
 *  - `dim` is -ndim to ndim-1. Negative values count from the end: -1 is the last dimension.
 *  - A tensor without elements is valid everywhere; its data may be NULL.
 *  - The caller owns the outputs. tutti/shape.h computes their shapes, and makes new ones.
 *  - Any thread may call. Threads that call at the same time use different lanes (the call's `.lane`).
 *  - `call` NULL means default options. After an error the outputs are undefined, and the inputs unchanged (unless in
 *    place).
 *  - Errors of all of them: INVALID_ARGUMENT, BAD_STATE (stale group), MISMATCH, TIMEOUT, PEER_LEFT, REVOKED,
 *    NO_MEMORY, WOULD_DEADLOCK (inside a callback), FORKED, UNSUPPORTED.
 *
 * Numbers: reductions run in rank order, so all ranks get the same bits in every run and with every instruction set (if
 * the backend has the capability). f16, bf16 and fp8 accumulate in f32 and round once. Integers wrap. MIN and MAX are
 * IEEE 754-2019 minimum and maximum: a NaN on any rank gives NaN (except with TUTTI_CAP_DROPS_NAN).
 */
#ifndef TUTTI_COLLECTIVES_H
#define TUTTI_COLLECTIVES_H

#include <tutti/group.h>

TUTTI_BEGIN_DECLS

/**
 * Reduction operators: X(NAME, value, name). Bitwise and logical ones accept integers and bool only; AVG and
 * PREMUL_SUM do not accept bool.
 */
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

/** Finds a reduce op by name, in any case. "prod" is an alias. NOT_FOUND otherwise, and *op is unchanged. */
TUTTI_API tutti_status tutti_reduce_op_parse(const char *name, tutti_reduce_op *op);

/** 1 if `op` is defined on `dtype`, else 0. Floats: SUM, PRODUCT, MIN, MAX, AVG, PREMUL_SUM. Integers: all. Bool: all
 *  but AVG and PREMUL_SUM (SUM = MAX = LOR, PRODUCT = MIN = LAND). */
TUTTI_API int32_t tutti_reduce_op_valid(tutti_reduce_op op, tutti_dtype dtype);

/**
 * Called once when an operation has ended: on the caller's thread for a synchronous operation, on the lane's thread for
 * an asynchronous one. Callbacks of a group run one at a time. A callback may start asynchronous operations. A blocking
 * call on the group returns WOULD_DEADLOCK in it. `error` is valid during the callback only.
 */
typedef void (*tutti_callback)(tutti_status status, const tutti_error *error, void *user);

/** A token that cancels many asynchronous operations together: see tutti/work.h. */
typedef struct tutti_cancel_token tutti_cancel_token;

/** Flags of a call. */
enum {
    TUTTI_CANCELLABLE = 1 << 0,    /* the collective can be cancelled before it begins, if the group has
                                   TUTTI_CAP_CANCEL_FLAGGED. Set it on all ranks, else MISMATCH. Costs a round of
                                   arrivals. With TUTTI_CAP_CANCEL only rooted collectives need it */
    TUTTI_HAS_STREAM = 1 << 1,     /* call.stream counts; NULL is the device's default stream */
    TUTTI_ENQUEUE = 1 << 2,        /* with TUTTI_HAS_STREAM, collectives only: work that is queued later on call.stream
                                   waits for the end, as by tutti_work_wait_stream, and the synchronous form returns
                                   without waiting. Tensors are borrowed until the stream has passed that point. If the
                                   operation fails without a callback, the group fails. In callbacks of the group:
                                   WOULD_DEADLOCK */
    TUTTI_HANDLERS_ON_OK = 1 << 3, /* asynchronous operations: handlers of call.operation_id (tutti/events.h) are called
                                     only if it ends OK; else they are removed uncalled */
    TUTTI_CALLBACK_ANYWHERE = 1 << 4, /* asynchronous operations: call.callback may also run on a thread that is inside
                                       a function of the group. So a thread that waits may run the operation itself */
    TUTTI_HAS_SCALE = 1 << 5          /* call.scale counts, also if it is 0 */
};

/**
 * How the values of an all_reduce of f32 by SUM, AVG or PREMUL_SUM are sent between ranks: `.wire` of its call, equal
 * on all ranks, else MISMATCH. Each rank rounds its values, to nearest even. The rounded ones are folded in f32 in the
 * order of ranks, and the result is rounded once more. Backend "hier" sums in f32 inside each host, and rounds the
 * hosts' sums instead of the ranks' values. All ranks get the same bits if the backend promises that.
 *
 * In the bounds n is the number of ranks, and M the sum of the magnitudes of an element over the ranks (AVG: divided
 * by n).
 *
 * BF16, half of the bytes: the numbers are those of an all_reduce of bf16 tensors. The result is off by at most 2^-7 M
 * + n 2^-23 M, below 2^-126 by (n + 1) 2^-134 more. MPI rounds at each step of a SUM: n 2^-7 M. NaN and infinity
 * survive. What rounds past the largest bf16, 3.39e38, becomes infinite.
 *
 * FP8, 8.25 bits a value: blocks of 32 elements, which begin at every 32nd one, are sent as OCP Microscaling's MXFP8: a
 * scale, which is a power of two, and 32 codes of e4m3. PREMUL_SUM multiplies before the rounding. With B the sum over
 * the ranks of the largest finite magnitude in the element's block (AVG: divided by n), the result is off by at most
 * (2^-3 + 2^-8 + n 2^-22) M + 2^-16 B + (n + 1) 2^-136: a value below 2^-19 of the largest one in its block becomes 0.
 * NaN and infinity survive, and do not change the other elements of their block (the code of 448 stands for infinity,
 * so 416 is the largest). What rounds past the largest f32, from 3.296e38 on, becomes infinite. MPI gives the same bits
 * on all ranks, too.
 *
 * UNSUPPORTED, before anything is written: another operation, dtype or reduce op, a group on a device, or a backend
 * that lacks what the conversion needs. INVALID_ARGUMENT: a number outside the enum. It pays between hosts from some
 * 100 KiB on, never inside a host, for small tensors, or for those in the heap (tutti/memory.h).
 */
typedef int32_t tutti_wire;
enum { TUTTI_WIRE_FULL = 0, TUTTI_WIRE_BF16 = 1, TUTTI_WIRE_FP8 = 2 };

/**
 * Options of one call. Zero means default everywhere. TUTTI_CALL(...) and tutti_call_init set `size`. The struct is
 * read, and `*error` written, only before the call returns.
 */
typedef struct tutti_call {
    uint32_t size;
    uint32_t flags;            /* TUTTI_CANCELLABLE, TUTTI_HAS_STREAM and the others above                      */
    int64_t timeout_ms;        /* deadline of the operation; 0 = the group's, -1 = none; TIMEOUT fails the group */
    int32_t lane;              /* 0..lanes-1                                                                    */
    uint32_t tag;              /* any number; equal on all ranks, else MISMATCH                                */
    double scale;              /* PREMUL_SUM: this rank's factor, 0 = 1 unless TUTTI_HAS_SCALE; whole for integers */
    void *stream;              /* TUTTI_HAS_STREAM: the tensors are ready when earlier work there is complete   */
    tutti_error *error;        /* always filled; may be NULL                                                    */
    tutti_callback callback;   /* NULL = none                                                                   */
    void *user;                /* argument of the callback                                                      */
    tutti_cancel_token *token; /* asynchronous operations: cancels this one too; NULL = none                  */
    int64_t operation_id;      /* asynchronous operations: number for tutti/events.h; 0 = none                */
    tutti_wire wire;           /* all_reduce of f32: BF16 sends half the bytes, FP8 a quarter; 0 = all of them   */
    uint32_t reserved;
} tutti_call;
TUTTI_STATIC_ASSERT(sizeof(tutti_call) == 88, "no padding");

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

/**
 * tutti_all_reduce with the result on `root` only. On other ranks `output` may be NULL and is not written. In place: on
 * the root, output = input.
 */
TUTTI_API tutti_status tutti_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                    int32_t root, const tutti_call *call);

/**
 * Copies the root's tensor into the tensors of all ranks. On the root the tensor is an input, with any strides. On
 * other ranks it is an output, which must not overlap itself.
 */
TUTTI_API tutti_status tutti_broadcast(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call);

/**
 * output = the inputs of all ranks, concatenated in rank order along dimension `dim` (input [a, b, c], dim 1 -> output
 * [a, n*b, c]). A 0-dimensional input counts as [1]. In place (dim 0, or all dimensions before dim have length 1):
 * input is exactly this rank's slice of output.
 */
TUTTI_API tutti_status tutti_all_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                        const tutti_call *call);

/** tutti_all_gather with the result on `root` only. On other ranks output may be NULL. */
TUTTI_API tutti_status tutti_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                    int32_t root, const tutti_call *call);

/**
 * The inverse of gather: cuts the root's input along `dim` into n equal parts; rank r gets part r. On other ranks input
 * may be NULL. In place: on the root, output is exactly its own part of input. INVALID_ARGUMENT if n does not divide
 * the length.
 */
TUTTI_API tutti_status tutti_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                     int32_t root, const tutti_call *call);

/**
 * Reduces the inputs; rank r gets part r of n equal parts along `dim`. In place: output is exactly this rank's part of
 * input. INVALID_ARGUMENT if n does not divide the length (use tutti_reduce_scatter_v).
 */
TUTTI_API tutti_status tutti_reduce_scatter(tutti_group *group, const DLTensor *input, DLTensor *output,
                                            tutti_reduce_op op, int32_t dim, const tutti_call *call);

/**
 * Cuts the input along `dim` into n equal parts. Part r goes to rank r, which stores the part of rank s as part s of
 * its output. Equal shapes; n divides the length. There is no in-place form.
 */
TUTTI_API tutti_status tutti_all_to_all(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                        const tutti_call *call);

/** Returns when every rank has called it. */
TUTTI_API tutti_status tutti_barrier(tutti_group *group, const tutti_call *call);

/**
 * all_gather with parts of different length. Rank r's input has counts[r] rows along `dim`, which go to row
 * displacements[r] of output. displacements NULL: the parts follow one another. `counts` and `displacements` have one
 * entry for each rank and are equal on all ranks. Rows of output outside all parts stay unchanged. Parts must not
 * overlap.
 */
TUTTI_API tutti_status tutti_all_gather_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                          const int64_t *counts, const int64_t *displacements, const tutti_call *call);

/**
 * reduce_scatter with parts of different length. Rank r gets counts[r] rows along `dim` of the reduced input. The parts
 * follow one another, and the counts add up to the input's length along `dim`.
 */
TUTTI_API tutti_status tutti_reduce_scatter_v(tutti_group *group, const DLTensor *input, DLTensor *output,
                                              tutti_reduce_op op, int32_t dim, const int64_t *counts,
                                              const tutti_call *call);

/**
 * all_to_all with parts of different length along `dim`. send_counts[r] rows at send_displacements[r] of input go to
 * rank r. recv_counts[s] rows from rank s go to recv_displacements[s] of output. Displacements NULL: the parts follow
 * one another. send_counts[r] of rank s must equal recv_counts[s] of rank r, else MISMATCH. Received parts must not
 * overlap.
 */
TUTTI_API tutti_status tutti_all_to_all_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                          const int64_t *send_counts, const int64_t *send_displacements,
                                          const int64_t *recv_counts, const int64_t *recv_displacements,
                                          const tutti_call *call);

TUTTI_END_DECLS

#endif
