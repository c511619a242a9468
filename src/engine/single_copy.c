/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One copy of private memory: the kernel reads it out of another process (process_vm_readv).
 *
 * Who wants something of a rank's tensor takes it from there, as in the zero-copy class; what an arrival tells is an address
 * in the owner's process then, marked as such, and never followed here. That halves the bytes, but the kernel looks up every
 * page, so it seldom pays: docs/decisions/0023 has the figures. By itself it is used for a large all_to_all between ranks
 * that are far from one another, where every byte that is staged crosses between caches twice. Each rank decides for itself by
 * how far its readers are: if not all do, all stage.
 *
 * Reductions want all inputs at once, and push; they stage.
 *
 * Whether a process may read another one (same user, no ptrace restrictions, one namespace of process numbers) is found out
 * when the group is made: each rank reads a word of every other one. The class is used when all have said that they can.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/ticks.h"
#include "engine/moving.h"

#define BOUNCE 16384u /* for what does not lie together at the reader */

/* Of this process: the word that others read, so that they know that they read the right process. */
static _Atomic uint64_t mark;

void tti_remote_offer(struct tti_segment_header *header)
{
    uint64_t none = 0;
    uint64_t value = (tti_ticks() << 16 ^ (uint64_t)getpid()) | 1;
    /* relaxed: whichever thread is first; who reads it has been told its value through the header */
    atomic_compare_exchange_strong_explicit(&mark, &none, value, memory_order_relaxed, memory_order_relaxed);
    header->mark = atomic_load_explicit(&mark, memory_order_relaxed);
    header->mark_at = (uint64_t)(uintptr_t)&mark;
}

static ssize_t read_from(uint32_t pid, void *to, uint64_t from, size_t n)
{
    const struct iovec here = {.iov_base = to, .iov_len = n};
    const struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
    return process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
}

static bool can_read(const struct tti_engine *e, int rank)
{
    const struct tti_segment_header *h = tti_header(e, rank);
    uint64_t value = 0;
    return read_from(h->pid, &value, h->mark_at, sizeof(value)) == (ssize_t)sizeof(value) && value == h->mark;
}

void tti_remote_find(struct tti_engine *e)
{
    bool all = e->tuning.single_copy < TTI_TUNING_NEVER;
    for (int r = 0; all && r < e->size; r++) {
        all = r == e->rank || can_read(e, r);
    }
    /* release: pairs with the acquire in all_can */
    atomic_store_explicit(&tti_header(e, e->rank)->reads, all ? TTI_READS_ALL : TTI_READS_NOT, memory_order_release);
}

/* Nothing hangs on when a rank learns it: who does not know it yet stages, and then all do. */
static bool all_can(struct tti_engine *e)
{
    for (int r = 0; r < e->size && e->remote == TTI_READS_UNKNOWN; r++) {
        const uint32_t said = atomic_load_explicit(&tti_header(e, r)->reads, memory_order_acquire);
        if (said == TTI_READS_UNKNOWN) {
            return false;
        }
        if (said != TTI_READS_ALL) {
            e->remote = TTI_READS_NOT;
        }
    }
    e->remote = e->remote == TTI_READS_UNKNOWN ? TTI_READS_ALL : e->remote;
    return e->remote == TTI_READS_ALL;
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
    const bool is_far = lane->stage.base != 0;
    return is_far && kind == TUTTI_OP_ALL_TO_ALL;
}

bool tti_remote_wanted(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.outer > 1) {
        return false; /* a call of the kernel for each row */
    }
    return is_pulled(op->kind) && (pays(lane, op->kind) || e->tuning.single_copy_near != 0) &&
           tti_call_bytes(lane, op) >= e->tuning.single_copy && all_can(e);
}

bool tti_remote_allowed(const struct tti_lane *lane)
{
    /* the peer has seen that all can, so by its arrival this rank sees it, too */
    return is_pulled(lane->op->kind) && all_can(lane->engine);
}

static tutti_status unreadable(struct tti_lane *lane, int peer, size_t n, ssize_t got)
{
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    suspects[peer / 64] |= UINT64_C(1) << (peer % 64);
    const int why = got < 0 ? errno : EFAULT;
    tti_error_set(lane->error, why == ESRCH ? TUTTI_PEER_DEAD : TUTTI_PROTOCOL,
                  "%zu bytes of rank %d (process %u) could not be read: %s", n, peer,
                  tti_header(lane->engine, peer)->pid, strerror(why));
    lane->error->vendor_code = why;
    return tti_fault_raise(lane->engine, lane, suspects, lane->error);
}

static tutti_status read_piece(struct tti_lane *lane, int peer, void *to, const unsigned char *from, size_t n)
{
    const ssize_t got = read_from(tti_header(lane->engine, peer)->pid, to, (uintptr_t)from, n);
    lane->moved += 2 * n;
    return got == (ssize_t)n ? TUTTI_OK : unreadable(lane, peer, n, got);
}

tutti_status tti_remote_read(struct tti_lane *lane, int peer, void *dst, const tutti_parts *parts, int rank,
                             size_t from, const unsigned char *src, size_t n)
{
    if (!parts) {
        return read_piece(lane, peer, (unsigned char *)dst + from, src, n);
    }
    unsigned char bounce[BOUNCE];
    tutti_status status = TUTTI_OK;
    for (size_t done = 0, bytes; done < n && status == TUTTI_OK; done += bytes) {
        bytes = n - done;
        unsigned char *to = tti_part_piece(dst, parts, rank, from + done, &bytes);
        if (bytes >= BOUNCE || bytes == n - done) { /* a piece that lies together */
            status = read_piece(lane, peer, to, src + done, bytes);
            continue;
        }
        bytes = tti_cut(n - done, BOUNCE, 0);
        if ((status = read_piece(lane, peer, bounce, src + done, bytes)) == TUTTI_OK) {
            tti_part_write(lane, dst, parts, rank, from + done, bounce, bytes);
        }
    }
    return status;
}
