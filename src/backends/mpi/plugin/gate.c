/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate before a call with a deadline: every rank sends every other one a ticket that says what it calls, and goes
 * on when it has all of theirs. So it knows who is missing and can name them, finds out whether all call the same
 * before anything is written, and can give up: the receives are withdrawn, and no tensor is involved. n - 1 small
 * messages for each rank.
 *
 * All ranks see the same tickets, so all come to the same verdict and stay in step; who sends what to whom in
 * all_to_all_v is known to the two of a pair only, and takes a second round of verdicts.
 */
#include <stdio.h>
#include <string.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/error.h"
#include "engine/descriptor.h"

static size_t bytes_for(const tutti_parts *parts, int rank)
{
    return parts->counts ? parts->outer * (size_t)parts->counts[rank] * parts->unit : 0;
}

static int post(struct tti_mpi_call *c, const struct tti_mpi_ticket *own)
{
    const struct tti_mpi_group *g = c->group;
    struct tti_mpi_lane *lane = c->lane;
    int code = MPI_SUCCESS;
    tti_mpi_enter();
    for (int r = 0; r < g->size && code == MPI_SUCCESS; r++) {
        struct tti_mpi_ticket *theirs = &lane->tickets[r];
        struct tti_mpi_ticket *ours = &lane->tickets[g->size + r];
        lane->requests[r] = lane->requests[g->size + r] = MPI_REQUEST_NULL;
        *ours = *own;
        ours->bytes = c->op->kind == TUTTI_OP_ALL_TO_ALL ? bytes_for(&c->op->send_parts, r) : 0;
        if (r == g->rank) {
            *theirs = *ours;
            continue;
        }
        code = MPI_Irecv(theirs, (int)sizeof(*theirs), MPI_BYTE, r, TTI_MPI_TAG_GATE, lane->comm, &lane->requests[r]);
        if (code == MPI_SUCCESS) {
            code = MPI_Isend(ours, (int)sizeof(*ours), MPI_BYTE, r, TTI_MPI_TAG_GATE, lane->comm,
                             &lane->requests[g->size + r]);
        }
    }
    tti_mpi_leave();
    return code;
}

/* The sends are left to MPI: nobody writes into the tickets of a group that has failed. */
static void withdraw(struct tti_mpi_call *c)
{
    struct tti_mpi_lane *lane = c->lane;
    tti_mpi_enter();
    for (int r = 0; r < c->group->size; r++) {
        if (lane->requests[r] != MPI_REQUEST_NULL) {
            MPI_Cancel(&lane->requests[r]);
            MPI_Wait(&lane->requests[r], MPI_STATUS_IGNORE);
        }
        if (lane->requests[c->group->size + r] != MPI_REQUEST_NULL) {
            MPI_Request_free(&lane->requests[c->group->size + r]);
        }
    }
    tti_mpi_leave();
}

/* The ranks whose tickets have not come, as "2, 5 and 7"; the lowest one. */
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

static tutti_status too_late(struct tti_mpi_call *c)
{
    char missing[120];
    const int64_t elapsed = tti_mpi_elapsed_ms(&c->vigil);
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

/* One look at all that is open: `*awaited` gets the lowest rank whose ticket is not here, -1 if nothing is open. */
static int look(struct tti_mpi_call *c, int *awaited)
{
    struct tti_mpi_lane *lane = c->lane;
    int code = MPI_SUCCESS;
    *awaited = -1;
    tti_mpi_enter();
    for (int i = 2 * c->group->size; i-- > 0 && code == MPI_SUCCESS;) {
        int done = 1;
        if (lane->requests[i] != MPI_REQUEST_NULL) {
            code = MPI_Test(&lane->requests[i], &done, MPI_STATUS_IGNORE);
        }
        *awaited = done ? *awaited : i;
    }
    tti_mpi_leave();
    return code;
}

/* Waits until everybody's ticket is here. */
static tutti_status await(struct tti_mpi_call *c)
{
    struct tti_mpi_lane *lane = c->lane;
    tutti_status status = TUTTI_OK;
    int awaited = -1;
    int code;
    while ((code = look(c, &awaited)) == MPI_SUCCESS && awaited >= 0 && status == TUTTI_OK) {
        atomic_store_explicit(&lane->awaited, awaited < c->group->size ? awaited : -1, memory_order_relaxed);
        status = tti_mpi_pause(&c->vigil, c->error);
    }
    atomic_store_explicit(&lane->awaited, -1, memory_order_relaxed);
    if (code != MPI_SUCCESS) {
        status = tti_mpi_error(c->error, code, "MPI_Test");
        tti_mpi_fail(c->group, c->error);
    } else if (awaited < 0) {
        return TUTTI_OK;
    } else if (status == TUTTI_TIMEOUT) {
        status = too_late(c);
    }
    withdraw(c);
    return status;
}

static tutti_status round_of(struct tti_mpi_call *c, const struct tti_mpi_ticket *own)
{
    const int code = post(c, own);
    if (code != MPI_SUCCESS) {
        tti_mpi_error(c->error, code, "MPI_Isend");
        tti_mpi_fail(c->group, c->error);
        withdraw(c);
        return TUTTI_BACKEND;
    }
    return await(c);
}

static tutti_status differs(struct tti_mpi_call *c, int peer)
{
    const struct tti_mpi_ticket *own = &c->lane->tickets[c->group->rank];
    const struct tti_mpi_ticket *other = &c->lane->tickets[peer];
    char theirs[160];
    char ours[160];
    tti_descriptor_text(other->descriptor, theirs, sizeof(theirs));
    tti_descriptor_text(own->descriptor, ours, sizeof(ours));
    if (other->failed) {
        snprintf(theirs, sizeof(theirs), "the same, but is out of memory");
    }
    tti_error_set(c->error, TUTTI_MISMATCH, "rank %d called %s, but rank %d called %s (call %lld of lane %d)", peer,
                  theirs, c->group->rank, ours, (long long)c->op->sequence, c->op->lane);
    c->error->suspect = peer;
    return TUTTI_MISMATCH;
}

/* The verdict of this rank on what is the same for all: the lowest rank that differs from rank 0, seen from here. */
static tutti_status compare(struct tti_mpi_call *c)
{
    const struct tti_mpi_ticket *tickets = c->lane->tickets;
    const int own = c->group->rank;
    for (int r = 0; r < c->group->size; r++) {
        if (r != own && (tickets[r].failed || tickets[r].descriptor[0] != tickets[own].descriptor[0] ||
                         tickets[r].descriptor[1] != tickets[own].descriptor[1])) {
            return differs(c, r);
        }
    }
    if (tickets[own].failed) {
        return c->op->failed;
    }
    for (int r = 0; r < c->group->size;
         r++) { /* two others may differ from each other only if one differs from this one */
        if (tickets[r].call != tickets[own].call) {
            return differs(c, r);
        }
    }
    return TUTTI_OK;
}

/* all_to_all_v: what each sends to this rank must be what it expects. */
static tutti_status compare_pairs(struct tti_mpi_call *c)
{
    struct tti_mpi_ticket *tickets = c->lane->tickets;
    struct tti_mpi_ticket own = tickets[c->group->rank];
    own.verdict = -1;
    char text[200] = "";
    for (int r = 0; r < c->group->size && own.verdict < 0; r++) {
        const size_t expected = bytes_for(&c->op->recv_parts, r);
        if (tickets[r].bytes != expected) {
            own.verdict = r;
            snprintf(text, sizeof(text), "all_to_all_v: rank %d sends %llu bytes to rank %d, which expects %zu", r,
                     (unsigned long long)tickets[r].bytes, c->group->rank, expected);
        }
    }
    const tutti_status status = round_of(c, &own);
    for (int r = 0; r < c->group->size && status == TUTTI_OK; r++) {
        if (tickets[r].verdict >= 0) {
            if (r == c->group->rank) {
                tti_error_set(c->error, TUTTI_MISMATCH, "%s", text);
            } else {
                tti_error_set(c->error, TUTTI_MISMATCH,
                              "all_to_all_v: rank %d sends rank %d another number of bytes than that expects",
                              tickets[r].verdict, r);
            }
            c->error->suspect = tickets[r].verdict;
            return TUTTI_MISMATCH;
        }
    }
    return status;
}

tutti_status tti_mpi_gate(struct tti_mpi_call *c)
{
    struct tti_mpi_ticket own = {.call = (uint64_t)c->op->sequence, .failed = c->op->failed != TUTTI_OK};
    tti_descriptor_make(c->op, c->group->size, own.descriptor);
    tutti_status status = round_of(c, &own);
    if (status == TUTTI_OK) { /* a ticket may be of a rank that has given up since: its news came behind it */
        status = tti_mpi_check(c->group, true, c->error);
    }
    if (status == TUTTI_OK && (status = compare(c)) == TUTTI_OK && c->op->kind == TUTTI_OP_ALL_TO_ALL &&
        c->op->send_parts.counts) {
        status = compare_pairs(c);
    }
    return status;
}
