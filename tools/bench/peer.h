/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer: another library, or another setting of Tutti, that `tutti bench` calls beside Tutti in the same processes, call
 * by call in turn, with the same loop. So both see the same buffers, the same placement on CPUs and the same state of the
 * machine, and their ratio means something where absolute times do not.
 *
 * A library's peer is a plug-in file, since no program can be linked with two MPI libraries:
 * lib/tutti/bench/NAME.so exports `const struct tti_bench_peer tti_bench_peer`.
 */
#ifndef TTI_BENCH_PEER_H
#define TTI_BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

#define TTI_BENCH_PEER_ABI    1u
#define TTI_BENCH_PEER_SYMBOL "tti_bench_peer"

/* One call. Buffers as Tutti takes them: in place they are equal, or the rank's own part of the joined one. */
struct tti_bench_peer_call {
    tutti_operation kind; /* a collective, or TUTTI_OP_SENDRECV: to the next rank, from the one before */
    tutti_dtype dtype;
    tutti_reduce_op redop;
    int root;
    const void *in; /* NULL where this rank has none */
    void *out;
    int64_t count; /* elements of the tensor, or of one part */
};

struct tti_bench_peer {
    uint32_t abi;
    uint32_t size;
    const char *name;
    /* Joins the job whose ranks `group` has, with the same numbers; `version` gets what people should read. 0, or 1 and
     * the reason in `why`. The group may be used to tell addresses. */
    int (*open)(tutti_group *group, const char *settings, char *version, size_t version_capacity, char *why,
                size_t why_capacity);
    /* 1 if the library has a native call for this. The same on every rank. */
    int (*supports)(const struct tti_bench_peer_call *call);
    /* Runs it to its end. 0, or 1 and the reason. */
    int (*call)(const struct tti_bench_peer_call *call, char *why, size_t capacity);
    void (*close)(void);
};

#endif
