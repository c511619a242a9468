/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer: another library that `tutti bench --beside` calls beside Tutti in the same processes, alternating call by
 * call, with the same loop. So both see the same data, the same placement on CPUs and the same state of the machine,
 * and their ratio means something where absolute times do not.
 *
 * A peer is a plug-in file, since no program can be linked with two MPI libraries: lib/tutti/bench/NAME.so exports
 * `const struct tti_bench_peer tti_bench_peer`. It needs no function of Tutti.
 */
#ifndef TOOLS_BENCH_BESIDE_PEER_H
#define TOOLS_BENCH_BESIDE_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TTI_BENCH_PEER_ABI    2u
#define TTI_BENCH_PEER_SYMBOL "tti_bench_peer"

/* The existing ranks. */
struct tti_bench_peer_job {
    int rank;
    int size;
    int threads; /* whether the ranks are threads of one process */
    void *user;
    /* Collective: all[r] becomes rank r's `bytes` bytes, on every rank. 0, or 1 if the job has failed. */
    int (*all_gather)(const struct tti_bench_peer_job *job, const void *mine, void *all, size_t bytes);
};

#define TTI_BENCH_MESSAGES 64 /* of a window, each way */

/* What one measured call consists of. Partners are the ranks 2k and 2k + 1; a last rank without one does nothing. */
enum tti_bench_pattern {
    TTI_BENCH_ONE_CALL,
    TTI_BENCH_PING_PONG, /* the even rank sends and the odd one sends back: the time is that of the round trip */
    TTI_BENCH_WINDOW,    /* the partners send TTI_BENCH_MESSAGES equal parts of `in` to each other, all at once */
    TTI_BENCH_GROUP      /* makes a group of the same ranks, reduces 8 bytes in it, and destroys it */
};

/* One call. Buffers as Tutti takes them: in place they are equal, or one is the rank's own part of the other. Only the
 * output of a reduce_scatter in place is the start of the input, as MPI has it. */
struct tti_bench_peer_call {
    tutti_operation kind; /* a collective; TUTTI_OP_SEND: to the next rank, and receive from the one before */
    tutti_dtype dtype;
    tutti_reduce_op redop; /* 0 where nothing is reduced */
    int root;
    const void *in; /* NULL where this rank has none. The broadcast's only tensor is `out`. */
    void *out;
    int64_t count; /* elements of the tensor, or of one part */
    int in_place;
    enum tti_bench_pattern pattern;
};

struct tti_bench_peer {
    uint32_t abi;
    uint32_t size; /* of this struct */
    const char *name;
    /* Joins the ranks of `job`, which lives until `close`, with the same numbers. `settings` (never NULL) is what the
     * user wrote behind the name; `version` gets what people should read. 0, or 1 and the reason in `why`; then there
     * is no `close`. Collective, like `call`. */
    int (*open)(const struct tti_bench_peer_job *job, const char *settings, void **session, char *version,
                size_t version_capacity, char *why, size_t why_capacity);
    /* 1 if the library has a native call for this; buffers are NULL. The same on every rank. */
    int (*supports)(void *session, const struct tti_bench_peer_call *call);
    /* Runs it to its end. 0, or 1 and the reason. */
    int (*call)(void *session, const struct tti_bench_peer_call *call, char *why, size_t capacity);
    void (*close)(void *session);
};

#ifdef __cplusplus
}
#endif

#endif
