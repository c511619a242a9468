/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as text, for error sentences. A sentence has room for a few ranks with process, state and last call; it gives
 * the others by number. All values come from memory that peers write. Each is read once; a wrong one is printed, never
 * followed.
 */
#include "engine/failure/peers.h"

#include <stdio.h>

#include "engine/descriptor.h"

#define DETAILED     4  /* ranks with details: reading /proc takes some 50 us each */
#define NUMBERS_ROOM 96 /* bytes for the numbers of the others */

struct tti_proc_id tti_peer_id(const struct tti_engine *e, int rank)
{
    return tti_segment_owner(tti_home(e, rank));
}

int tti_peers_first(const uint64_t *ranks, int size)
{
    for (int r = 0; r < size; r++) {
        if (tti_peers_has(ranks, r)) {
            return r;
        }
    }
    return -1;
}

/* A rank's last call on a lane; 0 = none. It is the largest number in the ring. */
static uint64_t newest_call(const struct tti_lane *lane, int rank, tutti_operation *kind)
{
    uint64_t newest = 0;
    for (uint64_t slot = 0; slot < TTI_RING; slot++) {
        const struct tti_arrival *line = tti_arrival_of(lane, rank, slot);
        /* acquire: pairs with the release of its arrival; the descriptor is there */
        const uint64_t call = atomic_load_explicit(&line->sequence, memory_order_acquire);
        if (call > newest) {
            const uint64_t descriptor[2] = {line->descriptor[0], line->descriptor[1]};
            newest = call;
            *kind = tti_descriptor_operation(descriptor);
        }
    }
    return newest;
}

static void describe(const struct tti_engine *e, int lane, int rank, char *text, size_t capacity)
{
    char process[TTI_PROC_TEXT + 24] = "";
    char last[64] = "";
    if (e->futex_private == 0) {
        const struct tti_proc_id id = tti_peer_id(e, rank);
        char name[TTI_PROC_TEXT];
        tti_proc_text(&id, name, sizeof(name));
        snprintf(process, sizeof(process), "%s, %s", name, tti_proc_state_name(tti_proc_query(&id).state));
    }
    if (lane >= 0 && lane < e->layout.lanes) {
        tutti_operation kind = TUTTI_OP_NONE;
        const uint64_t call = newest_call(&e->lanes[lane], rank, &kind);
        if (call == 0) {
            snprintf(last, sizeof(last), "no call yet");
        } else {
            snprintf(last, sizeof(last), "last call: %.16s, %llu", tutti_operation_name(kind),
                     (unsigned long long)call);
        }
    }
    if (process[0] || last[0]) {
        snprintf(text, capacity, "rank %d (%s%s%s)", rank, process, process[0] && last[0] ? "; " : "", last);
    } else {
        snprintf(text, capacity, "rank %d", rank);
    }
}

void tti_peers_text(const struct tti_engine *e, int lane, const uint64_t *ranks, char *text, size_t capacity)
{
    size_t used = 0;
    int named = 0;
    bool detailed = true;
    text[0] = '\0';
    for (int r = 0; r < e->size && used + 1 < capacity; r++) {
        if (!tti_peers_has(ranks, r)) {
            continue;
        }
        char one[160];
        const bool was_detailed = detailed;
        detailed = detailed && named < DETAILED;
        if (detailed) {
            describe(e, lane, r, one, sizeof(one));
            detailed = used + strlen(one) + 2 + (r + 1 < e->size ? NUMBERS_ROOM : 0) < capacity || named == 0;
        }
        if (!detailed) {
            snprintf(one, sizeof(one), was_detailed ? "rank %d" : "%d", r); /* the word stands before the first one */
        }
        int n = snprintf(text + used, capacity - used, "%s%s", named ? ", " : "", one);
        used += n > 0 ? (size_t)n : 0;
        named++;
    }
}

void tti_peers_left_text(const struct tti_engine *e, int rank, char *text, size_t capacity)
{
    if (e->futex_private != 0) { /* the ranks are threads of this process */
        snprintf(text, capacity, "rank %d has destroyed its group, or its thread has ended", rank);
        return;
    }
    const struct tti_proc_id id = tti_peer_id(e, rank);
    char process[TTI_PROC_TEXT];
    tti_proc_text(&id, process, sizeof(process));
    snprintf(text, capacity, "rank %d (%s) has destroyed its group or ended", rank, process);
}
