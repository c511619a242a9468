/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry barrier of every collective: every rank sends every other rank a call record, and goes on when it has the
 * records of all. So a rank knows which ranks are missing, and compares the calls before anything is written. At its
 * deadline it can end the call: it cancels the receives, and MPI holds no tensor.
 *
 * Small data are sent with the records. A small all_reduce, reduce or broadcast then ends here, in one step (the
 * one-shot algorithm); recursive doubling takes log2(n).
 *
 * All ranks have the same records, so all come to the same decision and stay in step, whatever their deadlines are. In
 * all_to_all_v only the two ranks of a pair know their sizes, so their comparison takes a second round.
 *
 * Cost: n - 1 messages of 32 bytes and the data from each rank, in parallel.
 */
#include "backends/mpi/plugin/collectives/entry_barrier.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/mpi/plugin/collectives/all_reduce.h"
#include "backends/mpi/plugin/failure.h"
#include "base/error.h"
#include "engine/descriptor.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

static size_t bytes_for(const tutti_parts *parts, int rank)
{
    return parts->counts ? parts->outer * (size_t)parts->counts[rank] * parts->unit : 0;
}

static bool carries_data(const tutti_op *op)
{
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_BROADCAST:
        return op->count <= TTI_MPI_SMALL / tti_dtype_size(op->dtype);
    default:
        return false;
    }
}

/* Whether this rank's data go to rank `to`. */
static bool sends_data(const tutti_op *op, int own, int to)
{
    switch (op->kind) {
    case TUTTI_OP_REDUCE:
        return to == op->root;
    case TUTTI_OP_BROADCAST:
        return own == op->root;
    default:
        return true;
    }
}

static int post(struct tti_mpi_call *c, size_t data)
{
    const struct tti_mpi_group *g = c->group;
    struct tti_mpi_lane *lane = c->lane;
    const struct tti_mpi_call_record *own = tti_mpi_call_record_of(lane, g->rank);
    /* a record with a decision is the same for all */
    const bool differ = c->op->kind == TUTTI_OP_ALL_TO_ALL && c->op->send_parts.counts && own->decision < 0;
    int code = MPI_SUCCESS;
    tti_mpi_enter();
    for (int r = 0; r < g->size && code == MPI_SUCCESS; r++) {
        if (r != g->rank) {
            tti_mpi_call_record_of(lane, r)->descriptor[0] = 0; /* see find_left */
            code = MPI_Irecv(tti_mpi_call_record_of(lane, r), (int)TTI_MPI_RECORD_ROOM, MPI_BYTE, r, TTI_MPI_TAG_ENTRY,
                             lane->comm, &lane->requests[r]);
        }
    }
    for (int r = 0; r < g->size && code == MPI_SUCCESS; r++) {
        const struct tti_mpi_call_record *record = own;
        if (r == g->rank) {
            continue;
        }
        if (differ) {
            lane->pair_records[r] = *own;
            lane->pair_records[r].bytes = bytes_for(&c->op->send_parts, r);
            record = &lane->pair_records[r];
        }
        const size_t bytes = data > 0 && sends_data(c->op, g->rank, r) ? data : 0;
        code = MPI_Isend(record, (int)(sizeof(*record) + bytes), MPI_BYTE, r, TTI_MPI_TAG_ENTRY, lane->comm,
                         &lane->requests[g->size + r]);
    }
    tti_mpi_leave();
    return code;
}

/* Lists the ranks whose records have not arrived, as "2, 5, 7"; returns the lowest. */
static int name_missing(const struct tti_mpi_call *c, char *text, size_t capacity)
{
    int first = -1;
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < c->group->size; r++) {
        if (c->lane->requests[r] != MPI_REQUEST_NULL) {
            first = first < 0 ? r : first;
            used += (size_t)snprintf(text + used, used < capacity ? capacity - used : 0, "%s%d", used ? ", " : "", r);
            used = used < capacity ? used : capacity;
        }
    }
    return first;
}

static tutti_status timed_out(struct tti_mpi_call *c)
{
    char missing[120];
    const int64_t elapsed = tti_mpi_elapsed_ms(&c->poll_loop);
    const int first = name_missing(c, missing, sizeof(missing));
    tti_error_set(c->error, TUTTI_TIMEOUT, "%s: rank %d waited %lld ms in call %lld of lane %d for rank %s",
                  tutti_operation_name(c->op->kind), c->group->rank, (long long)elapsed, (long long)c->op->sequence,
                  c->op->lane, missing);
    c->error->suspect = first;
    c->error->elapsed_ms = elapsed;
    c->error->scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail(c->group, c->error);
    return TUTTI_TIMEOUT;
}

/* Sends this rank's record, and waits for the records of all other ranks. */
static tutti_status round_of(struct tti_mpi_call *c, size_t data)
{
    int code = post(c, data);
    tutti_status status = TUTTI_OK;
    if (code == MPI_SUCCESS) {
        status = tti_mpi_await(c, &code);
    }
    if (__builtin_expect(code == MPI_SUCCESS && status == TUTTI_OK, 1)) {
        return TUTTI_OK;
    }
    if (code != MPI_SUCCESS) {
        status = tti_mpi_error(c->error, code, "MPI_Isend");
        c->error->scope = TUTTI_SCOPE_GROUP;
        tti_mpi_fail(c->group, c->error);
    } else if (status == TUTTI_TIMEOUT) {
        status = timed_out(c);
    }
    tti_mpi_withdraw_requests(c);
    return status;
}

static struct tti_rank_call call_of(const struct tti_mpi_call *c, int r)
{
    const struct tti_mpi_call_record *record = tti_mpi_call_record_of(c->lane, r);
    return (struct tti_rank_call){.rank = r, .failed = record->failed, .descriptor = record->descriptor};
}

static tutti_status differs(struct tti_mpi_call *c, int peer)
{
    const struct tti_rank_call theirs = call_of(c, peer);
    const struct tti_rank_call own = call_of(c, c->group->rank);
    return tti_calls_differ(&theirs, &own, (uint64_t)c->op->sequence, c->op->lane, c->error);
}

/* PEER_LEFT if a rank has sent its last bytes instead of a record. They are 0, so the descriptor stays empty. */
static tutti_status find_left(struct tti_mpi_call *c)
{
    for (int r = 0; r < c->group->size; r++) {
        if (tti_mpi_call_record_of(c->lane, r)->descriptor[0] == 0) {
            return tti_mpi_peer_left(c->group, tutti_operation_name(c->op->kind), r, c->error);
        }
    }
    return TUTTI_OK;
}

/* Compares what must be the same on all ranks; the error names the lowest rank that differs from this one. */
static tutti_status compare(struct tti_mpi_call *c)
{
    const struct tti_mpi_call_record *own = tti_mpi_call_record_of(c->lane, c->group->rank);
    bool equal = true; /* if two others differ from each other, one of them differs from this rank */
    for (int r = 0; r < c->group->size; r++) {
        const struct tti_mpi_call_record *other = tti_mpi_call_record_of(c->lane, r);
        equal = equal && !other->failed && other->descriptor[0] == own->descriptor[0] &&
                other->descriptor[1] == own->descriptor[1] && other->call == own->call;
    }
    if (__builtin_expect(equal, 1)) {
        return TUTTI_OK;
    }
    const tutti_status status = find_left(c);
    if (status != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < c->group->size; r++) {
        const struct tti_mpi_call_record *other = tti_mpi_call_record_of(c->lane, r);
        if (r != c->group->rank && (other->failed || other->descriptor[0] != own->descriptor[0] ||
                                    other->descriptor[1] != own->descriptor[1])) {
            return differs(c, r);
        }
    }
    for (int r = 0; r < c->group->size && !own->failed; r++) {
        if (tti_mpi_call_record_of(c->lane, r)->call != own->call) {
            return differs(c, r);
        }
    }
    return tti_mpi_cannot_take_part(c);
}

/* all_to_all_v: each rank must send this one as many bytes as it expects. A second round passes a difference on to all
 * ranks. */
static tutti_status compare_pairs(struct tti_mpi_call *c)
{
    struct tti_mpi_lane *lane = c->lane;
    struct tti_mpi_call_record *own = tti_mpi_call_record_of(lane, c->group->rank);
    own->bytes = bytes_for(&c->op->send_parts, c->group->rank);
    for (int r = 0; r < c->group->size && own->decision < 0; r++) {
        const size_t expected = bytes_for(&c->op->recv_parts, r);
        const uint64_t sent = tti_mpi_call_record_of(lane, r)->bytes;
        if (sent != expected) {
            own->decision = r;
            own->bytes = sent;
            own->expected = expected;
        }
    }
    tutti_status status = round_of(c, 0);
    status = status == TUTTI_OK ? find_left(c) : status;
    for (int r = 0; r < c->group->size && status == TUTTI_OK; r++) {
        const struct tti_mpi_call_record *other = tti_mpi_call_record_of(lane, r);
        if (other->decision >= 0) {
            return tti_parts_differ(other->decision, other->bytes, r, other->expected, (uint64_t)c->op->sequence,
                                    c->op->lane, c->error);
        }
    }
    return status;
}

/* Whether to poll for failure notices although all records are here. A rank that fails the group in this call has sent
 * its record before, and a rank that waits polls once a millisecond only. This poll takes place at most once in a tick
 * of the coarse clock, so that small calls stay cheap. If this rank misses a notice for that reason, a later call
 * receives it. */
static bool notices_are_due(const struct tti_mpi_call *c)
{
    struct tti_mpi_lane *lane = c->lane;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* ticks every few milliseconds; does not read the hardware */
    const int64_t tick = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    const bool moved = tick != lane->seen_tick;
    lane->seen_tick = tick;
    return moved;
}

static void write_call_record(struct tti_mpi_call *c, struct tti_mpi_call_record *own)
{
    tutti_op *op = c->op;
    own->call = (uint32_t)op->sequence & 0xffffff;
    own->scale = op->scale;
    own->decision = -1;
    own->failed = (uint8_t)op->failed;
    if (op->prepared[TTI_MPI_PREPARED_DESCRIPTOR] == 0) {
        tti_descriptor_make(op, c->group->size, &op->prepared[TTI_MPI_PREPARED_DESCRIPTOR]);
    }
    memcpy(own->descriptor, &op->prepared[TTI_MPI_PREPARED_DESCRIPTOR], sizeof(own->descriptor));
}

/* Ends a call whose data have arrived with the records. */
static void finish(struct tti_mpi_call *c, size_t data)
{
    const tutti_op *op = c->op;
    const struct tti_mpi_lane *lane = c->lane;
    const int own = c->group->rank;
    if (op->kind == TUTTI_OP_BROADCAST) {
        if (own != op->root && data > 0) {
            memcpy(op->dst, lane->data[op->root], data);
        }
    } else if ((op->kind == TUTTI_OP_ALL_REDUCE || own == op->root) && data > 0) {
        tti_mpi_fold_sources(c, op->dst, (const void *const *)lane->data, op->count);
    }
}

tutti_status tti_mpi_entry_barrier(struct tti_mpi_call *c, bool *done)
{
    const tutti_op *op = c->op;
    struct tti_mpi_lane *lane = c->lane;
    const int own = c->group->rank;
    const bool carries = carries_data(op);
    const size_t data = carries ? op->count * tti_dtype_size(op->dtype) : 0;
    const void *from = op->kind == TUTTI_OP_BROADCAST ? op->dst : op->src;
    *done = carries || op->kind == TUTTI_OP_BARRIER;
    lane->ends_at_entry = *done;
    write_call_record(c, tti_mpi_call_record_of(lane, own));
    const bool gives = data > 0 && op->failed == TUTTI_OK;
    if (gives && (op->kind != TUTTI_OP_BROADCAST || own == op->root)) {
        memcpy(lane->data[own], from, data);
    }
    tutti_status status = round_of(c, gives ? data : 0);
    if (status == TUTTI_OK && notices_are_due(c)) {
        status = tti_mpi_check(c->group, true, c->error);
    }
    if (status == TUTTI_OK && (status = compare(c)) == TUTTI_OK) {
        if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts) {
            status = compare_pairs(c);
        } else if (carries) {
            finish(c, data);
        }
    }
    return status;
}
