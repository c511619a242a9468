/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One copy of private memory: the kernel reads it out of another process (process_vm_readv).
 *
 * Who wants something of a rank's tensor takes it from there, as in the zero-copy class; what an arrival tells is an address
 * in the owner's process then, marked as such, and never followed here. That halves the bytes, but the kernel looks up every
 * page, so it seldom pays: docs/decisions/0023 and 0024 have the figures. By itself it is used for a very large all_to_all
 * between ranks that are far from one another, where it takes less of the memory's bandwidth; p2p_single_copy.c uses it for
 * messages. Each rank decides for itself by how far its readers are: if not all do, all stage.
 *
 * Reductions want all inputs at once, and push; they stage.
 *
 * Whether a process may read another one (same user, no ptrace restrictions, one namespace of process numbers) is found out
 * when the group is made: each rank reads a word of every other one. The class is used when all have said that they can.
 */
#define _GNU_SOURCE
#include "engine/memory/single_copy.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/uio.h>

#include "base/proc.h"
#include "engine/failure/fault.h"
#include "engine/memory/parts.h"

#define BOUNCE    16384u              /* for what does not lie together at the reader */
#define ADDRESSES (UINT64_C(1) << 56) /* Linux gives no others, and tags stand above */

/* Of this process: the word that others read, so that they know that they read the right process. */
static _Atomic uint64_t mark;

void tti_single_copy_offer(struct tti_segment_header *header)
{
    uint64_t none = 0;
    /* relaxed: whichever thread is first; who reads it has been told its value through the header */
    atomic_compare_exchange_strong_explicit(&mark, &none, tti_proc_instance(), memory_order_relaxed,
                                            memory_order_relaxed);
    header->mark = atomic_load_explicit(&mark, memory_order_relaxed);
    header->mark_at = (uint64_t)(uintptr_t)&mark;
}

/* The kernel takes the number of any thread for the memory of its process. That of the process is its main thread's, which may
 * end before the others; the monitor lives as long as there are groups. */
static uint32_t thread_of(const struct tti_segment_header *h)
{
    /* relaxed: a number, and if it is out of date the kernel says so */
    const uint32_t monitor = atomic_load_explicit(&h->life, memory_order_relaxed) & FUTEX_TID_MASK;
    return monitor != 0 ? monitor : h->pid;
}

static ssize_t read_from(const struct tti_segment_header *owner, void *to, uint64_t from, size_t n)
{
    const struct iovec here = {.iov_base = to, .iov_len = n};
    const struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
    return process_vm_readv((pid_t)thread_of(owner), &here, 1, &there, 1, 0);
}

/* In another namespace the peer's number is another process's. Where namespaces are unknown the word there tells. */
static bool can_read(const struct tti_engine *e, int rank)
{
    const struct tti_segment_header *h = tti_header(e, rank);
    uint64_t value = 0;
    if (h->space != 0 && h->space != tti_header(e, e->rank)->space) {
        return false;
    }
    return read_from(h, &value, h->mark_at, sizeof(value)) == (ssize_t)sizeof(value) && value == h->mark;
}

void tti_single_copy_detect(struct tti_engine *e)
{
    bool all = e->tuning.single_copy < TTI_TUNING_NEVER;
    for (int r = 0; all && r < e->size; r++) {
        all = r == e->rank || can_read(e, r);
    }
    /* release: pairs with the acquire in tti_single_copy_all_can */
    atomic_store_explicit(&tti_header(e, e->rank)->reads, all ? TTI_READS_ALL : TTI_READS_NOT, memory_order_release);
}

bool tti_single_copy_all_can(struct tti_engine *e)
{
    /* relaxed, as the store: lanes and messages may both be the first to find it out, and find the same */
    uint32_t all = atomic_load_explicit(&e->remote, memory_order_relaxed);
    if (all != TTI_READS_UNKNOWN) {
        return all == TTI_READS_ALL;
    }
    all = TTI_READS_ALL;
    for (int r = 0; r < e->size && all == TTI_READS_ALL; r++) {
        const uint32_t said = atomic_load_explicit(&tti_header(e, r)->reads, memory_order_acquire);
        if (said == TTI_READS_UNKNOWN) {
            return false;
        }
        all = said == TTI_READS_ALL ? all : TTI_READS_NOT;
    }
    atomic_store_explicit(&e->remote, all, memory_order_relaxed);
    return all == TTI_READS_ALL;
}

uint64_t tti_single_copy_name(const void *memory, uint64_t bytes)
{
    const uint64_t name = TTI_SINGLE_COPY_NAME | (uintptr_t)memory;
    return tti_single_copy_is_name(name, bytes) ? name : 0;
}

bool tti_single_copy_is_name(uint64_t name, uint64_t bytes)
{
    const uint64_t begin = name & ~TTI_SINGLE_COPY_NAME;
    return (name & TTI_SINGLE_COPY_NAME) != 0 && begin != 0 && begin < ADDRESSES && bytes <= ADDRESSES - begin;
}

bool tti_single_copy_fetch(const struct tti_engine *e, int peer, void *dst, uint64_t name, size_t n)
{
    return read_from(tti_header(e, peer), dst, name & ~TTI_SINGLE_COPY_NAME, n) == (ssize_t)n;
}

/* The others only read. */
static bool is_pulled(tutti_operation kind)
{
    return kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_GATHER ||
           kind == TUTTI_OP_SCATTER || kind == TUTTI_OP_ALL_TO_ALL;
}

/* By itself only where it has won. In a stream writer and readers copy at the same time, each once; here only readers would. */
static bool pays(const struct tti_lane *lane, tutti_operation kind)
{
    return tti_stage_is_far(lane) && kind == TUTTI_OP_ALL_TO_ALL;
}

bool tti_single_copy_wanted(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.outer > 1) {
        return false; /* a call of the kernel for each row */
    }
    return is_pulled(op->kind) && (pays(lane, op->kind) || e->tuning.single_copy_near != 0) &&
           tti_call_bytes(lane, op) >= e->tuning.single_copy && tti_single_copy_all_can(e);
}

bool tti_single_copy_allowed(const struct tti_lane *lane)
{
    /* the peer has seen that all can, so by its arrival this rank sees it, too */
    return is_pulled(lane->op->kind) && tti_single_copy_all_can(lane->engine);
}

bool tti_single_copy_offered(const struct tti_lane *lane)
{
    return !lane->engine->direct && ((lane->input | lane->output) & TTI_SINGLE_COPY_NAME) != 0;
}

static tutti_status unreadable(struct tti_lane *lane, int peer, size_t n, ssize_t got)
{
    const int why = got < 0 ? errno : EFAULT;
    tti_error_set(lane->error, why == ESRCH ? TUTTI_PEER_DEAD : TUTTI_PEER_CORRUPT,
                  "%zu bytes of rank %d (process %u) could not be read: %s", n, peer,
                  tti_header(lane->engine, peer)->pid, strerror(why));
    lane->error->vendor_code = why;
    return tti_fault_raise_suspect(lane->engine, lane, peer, lane->error);
}

static tutti_status read_chunk(struct tti_lane *lane, int peer, void *to, const unsigned char *from, size_t n)
{
    const ssize_t got = read_from(tti_header(lane->engine, peer), to, (uintptr_t)from, n);
    lane->bytes_copied += 2 * n;
    return got == (ssize_t)n ? TUTTI_OK : unreadable(lane, peer, n, got);
}

tutti_status tti_single_copy_read(struct tti_lane *lane, int peer, void *dst, const tutti_parts *parts, int rank,
                                  size_t from, const unsigned char *src, size_t n)
{
    if (!parts) {
        return read_chunk(lane, peer, (unsigned char *)dst + from, src, n);
    }
    unsigned char bounce[BOUNCE];
    tutti_status status = TUTTI_OK;
    for (size_t done = 0, bytes; done < n && status == TUTTI_OK; done += bytes) {
        bytes = n - done;
        unsigned char *to = tti_part_chunk(dst, parts, rank, from + done, &bytes);
        if (bytes >= BOUNCE || bytes == n - done) { /* a chunk that lies together */
            status = read_chunk(lane, peer, to, src + done, bytes);
            continue;
        }
        bytes = tti_chunk_bytes(n - done, BOUNCE, 0);
        if ((status = read_chunk(lane, peer, bounce, src + done, bytes)) == TUTTI_OK) {
            tti_part_write(lane, dst, parts, rank, from + done, bounce, bytes);
        }
    }
    return status;
}
