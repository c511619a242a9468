/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single copy: the kernel copies private memory out of another process (process_vm_readv, also called cross memory
 * attach).
 *
 * A rank publishes the address of its tensor in its own process, marked as such. Peers hand that address to the kernel
 * and never follow it. This halves the bytes, but the kernel looks up every page, so it seldom pays:
 * docs/decisions/0023, 0024 and 0052 have the figures. By default it serves a large all_to_all between ranks with
 * different third-level caches, where it takes less memory bandwidth, on some CPUs. p2p/large/single_copy.c uses it for
 * messages. In an all_to_all each rank decides by the distance of its readers, and if not all decide for it, all stage.
 *
 * Reductions need all inputs at once, and push results, so they stage.
 *
 * The right to read another process needs the same user, no ptrace restrictions, and one namespace of process numbers.
 * When the group is made, each rank tests it by reading a word of every other rank, and publishes the result. Before a
 * rank offers a tensor in a collective it tests what may have changed since: a process that takes another user, or asks
 * for no dumps, can no longer be read.
 */
#define _GNU_SOURCE
#include "engine/memory/single_copy.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/process/proc.h"
#include "engine/failure/fault.h"
#include "engine/memory/parts.h"
#include "tensor/parts.h"

#define BOUNCE    16384u              /* bytes copied at once for rows at the reader */
#define ADDRESSES (UINT64_C(1) << 56) /* Linux gives only these, and tags use the bits above */

/* A word of this process: peers that read its value know that they read the right process. */
static _Atomic uint64_t mark;

void tti_single_copy_offer(struct tti_segment_header *header)
{
    uint64_t none = 0;
    /* relaxed: any thread may be first; readers compare with the value in the header */
    atomic_compare_exchange_strong_explicit(&mark, &none, tti_proc_instance(), memory_order_relaxed,
                                            memory_order_relaxed);
    header->mark = atomic_load_explicit(&mark, memory_order_relaxed);
    header->mark_at = (uint64_t)(uintptr_t)&mark;
}

/* The kernel accepts the number of any thread of a process. The main thread, whose number is the process's, may end
 * before the others. The liveness monitor lives as long as there are groups. */
static uint32_t thread_of(const struct tti_segment_header *h)
{
    /* relaxed: if the number is out of date, the kernel returns an error */
    const uint32_t monitor = atomic_load_explicit(&h->life, memory_order_relaxed) & FUTEX_TID_MASK;
    return monitor != 0 ? monitor : h->pid;
}

static ssize_t read_from(const struct tti_segment_header *owner, void *to, uint64_t from, size_t n)
{
    const struct iovec here = {.iov_base = to, .iov_len = n};
    const struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
    return process_vm_readv((pid_t)thread_of(owner), &here, 1, &there, 1, 0);
}

/* In another namespace the number means another process. If namespaces are unknown, the word shows it. */
static bool can_read(const struct tti_engine *e, int rank)
{
    const struct tti_segment_header *h = tti_home(e, rank);
    uint64_t value = 0;
    if (h->space != 0 && h->space != tti_home(e, e->rank)->space) {
        return false;
    }
    return read_from(h, &value, h->mark_at, sizeof(value)) == (ssize_t)sizeof(value) && value == h->mark;
}

bool tti_single_copy_is_used(const struct tti_tuning *tuning)
{
    return tuning->single_copy < TTI_TUNING_NEVER || tuning->single_copy_messages != 0;
}

void tti_single_copy_detect(struct tti_engine *e)
{
    bool all = tti_single_copy_is_used(&e->tuning);
    for (int r = 0; all && r < e->size; r++) {
        all = r == e->rank || can_read(e, r);
    }
    /* release: pairs with the acquire in tti_single_copy_all_can */
    atomic_store_explicit(&tti_home(e, e->rank)->reads, all ? TTI_READS_ALL : TTI_READS_NOT, memory_order_release);
}

bool tti_single_copy_all_can(struct tti_engine *e)
{
    /* relaxed, as the store below: threads that race find the same */
    uint32_t all = atomic_load_explicit(&e->remote, memory_order_relaxed);
    if (all != TTI_READS_UNKNOWN) {
        return all == TTI_READS_ALL;
    }
    all = TTI_READS_ALL;
    for (int r = 0; r < e->size && all == TTI_READS_ALL; r++) {
        const uint32_t reads = atomic_load_explicit(&tti_home(e, r)->reads, memory_order_acquire);
        if (reads == TTI_READS_UNKNOWN) {
            return false;
        }
        all = reads == TTI_READS_ALL ? all : TTI_READS_NOT;
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
    return read_from(tti_home(e, peer), dst, name & ~TTI_SINGLE_COPY_NAME, n) == (ssize_t)n;
}

/* Whether peers only read a tensor in this operation. */
static bool is_pulled(tutti_operation kind)
{
    return kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_GATHER ||
           kind == TUTTI_OP_SCATTER || kind == TUTTI_OP_ALL_TO_ALL;
}

/* The size of this call from which on the kernel copies; by default only where measurements favour it. */
static uint64_t least_bytes(const struct tti_lane *lane, tutti_operation kind)
{
    const struct tti_tuning *t = &lane->engine->tuning;
    if (t->single_copy_at_any_distance != 0) {
        return is_pulled(kind) ? t->single_copy : TTI_TUNING_NEVER;
    }
    /* in other operations many ranks read a stage that is written once */
    return kind == TUTTI_OP_ALL_TO_ALL && tti_stage_is_far(lane) ? t->single_copy : TTI_TUNING_NEVER;
}

bool tti_single_copy_wanted(struct tti_lane *lane, const tutti_op *op)
{
    if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.outer > 1) {
        return false; /* it would take a system call for each row */
    }
    return lane->bytes >= least_bytes(lane, op->kind) && tti_single_copy_all_can(lane->engine);
}

bool tti_single_copy_readable(const void *memory, size_t bytes)
{
    unsigned char byte[2];
    const struct iovec here[] = {{.iov_base = &byte[0], .iov_len = 1}, {.iov_base = &byte[1], .iov_len = 1}};
    const struct iovec there[] = {{.iov_base = (void *)(uintptr_t)memory, .iov_len = 1},
                                  {.iov_base = (unsigned char *)(uintptr_t)memory + bytes - 1, .iov_len = 1}};
    /* by this thread's number: the main thread's has no memory once that thread has ended */
    const pid_t self = (pid_t)syscall(SYS_gettid);
    return bytes == 0 || (prctl(PR_GET_DUMPABLE) == 1 && process_vm_readv(self, here, 2, there, 2, 0) == 2);
}

bool tti_single_copy_allowed(const struct tti_lane *lane)
{
    /* the peer saw that all can before it arrived, so this rank sees it after the wait for the arrival */
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
                  "%zu bytes of rank %d (process %u) could not be read: %s", n, peer, tti_home(lane->engine, peer)->pid,
                  strerror(why));
    lane->error->vendor_code = why;
    return tti_fault_raise_suspect(lane->engine, lane, peer, lane->error);
}

static tutti_status read_chunk(struct tti_lane *lane, int peer, void *to, const unsigned char *from, size_t n)
{
    const ssize_t got = read_from(tti_home(lane->engine, peer), to, (uintptr_t)from, n);
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
        unsigned char *to = tti_parts_at(parts, rank, dst, from + done, &bytes);
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
