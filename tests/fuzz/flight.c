/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records come from processes that were killed, and from any process that may write the file. The input corrupts a
 * well-formed record: each six bytes of it are a place and a value. The record is read twice, and the search for a hang
 * runs over the result.
 *
 * tutti-test: sources=tools/trace/hang.c,tools/trace/snapshot.c
 */
#include "fuzz.h"

#include "trace/hang.h"

#define SPOILT_MOST 200
#define RANKS       2

static union {
    struct tti_flight_head head;
    _Alignas(64) unsigned char bytes[TTI_FLIGHT_BYTES];
} record;

static void make_entry(uint64_t number, uint8_t kind, int16_t status)
{
    struct tti_flight_entry *e = (struct tti_flight_entry *)(record.bytes + TTI_FLIGHT_AT_RING) + (number - 1);
    e->number = number;
    e->begun_ns = 1000 * (int64_t)number;
    e->ended_ns = status == TTI_FLIGHT_RUNNING ? 0 : e->begun_ns + 5;
    e->sequence = number;
    e->what = (struct tti_flight_op){.count = 8, .bytes = 32, .kind = kind, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    e->group = 0;
    e->status = status;
}

static void make_record(int32_t rank)
{
    memset(&record, 0, sizeof(record));
    record.head.magic = TTI_FLIGHT_MAGIC;
    record.head.abi = TTI_FLIGHT_ABI;
    record.head.bytes = TTI_FLIGHT_BYTES;
    record.head.owner = 1;
    record.head.rank = rank;
    record.head.world_size = RANKS;
    record.head.next = 4;
    struct tti_flight_group *g = (struct tti_flight_group *)(record.bytes + TTI_FLIGHT_AT_GROUPS);
    g->state = TTI_FLIGHT_ALIVE;
    g->rank = rank;
    g->world_rank = rank;
    g->size = RANKS;
    g->lanes = 2;
    strcpy(g->name, "w0");
    make_entry(1, TUTTI_OP_ALL_REDUCE, TUTTI_OK);
    make_entry(2, TUTTI_OP_BROADCAST, TUTTI_TIMEOUT);
    make_entry(3, TUTTI_OP_RECV, TTI_FLIGHT_RUNNING);
    make_entry(4, TUTTI_OP_BARRIER, rank == 0 ? TTI_FLIGHT_RUNNING : TUTTI_OK);
    struct tti_flight_tally *t = (struct tti_flight_tally *)(record.bytes + TTI_FLIGHT_AT_TALLIES);
    *t = (struct tti_flight_tally){.begun = 7,
                                   .ended = 6,
                                   .last = 9,
                                   .what = {.count = 1, .bytes = 4, .kind = TUTTI_OP_REDUCE, .lane = 1},
                                   .used = 1};
}

/* Most of the places lie where something is. */
static size_t place(struct fuzz_input *in)
{
    static const size_t parts[][2] = {{0, sizeof(struct tti_flight_head)},
                                      {TTI_FLIGHT_AT_GROUPS, 2 * sizeof(struct tti_flight_group)},
                                      {TTI_FLIGHT_AT_TALLIES, 3 * sizeof(struct tti_flight_tally)},
                                      {TTI_FLIGHT_AT_RING, 6 * sizeof(struct tti_flight_entry)},
                                      {0, TTI_FLIGHT_BYTES}};
    const size_t *part = parts[fuzz_byte(in) % (sizeof(parts) / sizeof(parts[0]))];
    return part[0] + fuzz_number(in, 3) % part[1];
}

static void check(const struct tti_snapshot *s)
{
    fuzz_expect(s->group_count <= (int)TTI_FLIGHT_GROUPS && memchr(s->host, 0, sizeof(s->host)) &&
                    memchr(s->job, 0, sizeof(s->job)),
                "a head that cannot be");
    for (size_t i = 0; i < s->op_count; i++) {
        const struct tti_snapshot_op *op = &s->ops[i];
        fuzz_expect(op->group >= 0 && op->group < s->group_count, "an operation of no group");
        fuzz_expect(op->what.lane < s->groups[op->group].lanes, "an operation of no lane");
        fuzz_expect(op->what.root < s->groups[op->group].size, "an operation of no root");
        fuzz_expect(op->ended_ns == 0 || op->ended_ns >= op->begun_ns, "an operation that ends before it begins");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct tti_snapshot snapshots[RANKS];
    struct tti_hang_rank ranks[RANKS];
    for (int32_t r = 0; r < RANKS; r++) {
        const char *why = NULL;
        make_record(r);
        for (int i = 0; i < SPOILT_MOST && in.left > 0; i++) {
            const size_t at = place(&in);
            record.bytes[at] = fuzz_byte(&in);
            record.bytes[(at + 7) % TTI_FLIGHT_BYTES] ^= fuzz_byte(&in) & 0x80;
            if (r == 0 && in.left < size / 2) {
                break;
            }
        }
        const bool good = tti_snapshot_parse(record.bytes, sizeof(record.bytes), &snapshots[r], &why);
        fuzz_expect(good || why, "a record that is refused without a reason");
        if (good) {
            check(&snapshots[r]);
        }
        ranks[r] = (struct tti_hang_rank){.rank = r,
                                          .snapshot = good ? &snapshots[r] : NULL,
                                          .before = good && size % 2 ? &snapshots[r] : NULL,
                                          .state = size % 3 ? TTI_PROC_SLEEPING : TTI_PROC_STOPPED};
    }
    struct tti_hang hang;
    fuzz_expect(tti_hang_find(ranks, RANKS, &hang), "no memory");
    for (int i = 0; i < hang.wait_count; i++) {
        fuzz_expect(hang.waits[i].node_index >= 0 && hang.waits[i].node_index < hang.node_count, "no rank waits");
    }
    for (int i = 0; i < hang.suspect_count; i++) {
        fuzz_expect(hang.suspects[i].node_index < hang.node_count && hang.suspects[i].first_wait,
                    "no rank is the suspect");
    }
    fuzz_expect(hang.cycle_count <= hang.node_count, "a circle that is too long");
    tti_hang_free(&hang);
    for (int r = 0; r < RANKS; r++) {
        tti_snapshot_free(&snapshots[r]);
    }
    return 0;
}
