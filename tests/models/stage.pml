/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage: src/engine/memory/stage.c, with the protocols over it: collectives/exchange.c, two_shot.c, rooted.c.
 *
 * Modelled: two ranks that run CALLS calls on one lane, in every order of these: all_reduce of one, three or five
 * windows; a reduce to rank 0 by slices, of three or five; an exchange of one small or four large steps; a stream from
 * rank 0 of one small or one, two or seven large spans; a stream to rank 0 of one small or seven large ones. Some of
 * these run only with MORE; with SHORT only streams of one span; with AHEAD only reduces by slices, and streams to rank
 * 0 of one span, in which rank 1 runs ahead. A rank has RINGS rings of RING cells, and takes any of them for a call.
 * Large spans take two cells and small ones one, so gaps occur. These are as in the C code: the place of a span, the
 * head, the stamps and what they wait for, the phases, the order of all steps, the writer's first wait for its reader,
 * and the reader's reports. Writing or reading a span takes two steps, so that the other rank may run in the middle.
 * With EXPOSES a rank may expose its tensors, call by call: then it stages later or never. With FAULTS a rank may give
 * up at any wait, for its deadline or for the alarm, unless what it waits for is there.
 *
 * Abstracted: the content of a span is its name (call, data or result, number). Slices are not distinguished. The
 * arrival ring does not wrap (arrival_ring.pml has proved it). Waiting is a guard (sleep.pml). Work on exposed tensors
 * is left out (intent.pml). Stores take effect in program order, which seq_cst exchanges and acquire loads give. No
 * MISMATCH.
 *
 * Proved: each span that is read holds the expected content from the first to the last byte. So no span is overwritten
 * before its reader has ended, and a call that returns OK beside ranks that gave up has read no older data. No deadlock
 * (no invalid end state). Before its own arrival a rank never waits for a span of the call directly before that is
 * stamped TTI_PHASE_NEXT, if the ring holds TTI_STAGE_SPANS = 5 of the largest spans; with four, both ranks may wait
 * for one another's arrival. Four stamps suffice, three do not.
 *
 * ends: no run loops for ever
 * config MORE=1
 * config CALLS=3
 * config CALLS=6 SHORT=1
 * config CALLS=5 AHEAD=1
 * config RING=11 STAMPS=4
 * config RINGS=2
 * config FAULTS=1
 * config EXPOSES=1
 * mutant SMALL_RING MORE=1 end: the ring holds four of the largest spans
 * mutant FEW_STAMPS end: three stamps, as many as may wait for the next arrival
 * mutant NEXT_EARLY CALLS=3 assertion: the last spans of a call are free when their reader has arrived at this call
 * mutant SPAN_EARLY assertion: a stream's span counts as read when its reader has come to it
 * mutant NO_STAMPS assertion: spans are reused without a wait
 * mutant NO_GAP MORE=1 assertion: the reader ignores the gap at the end of the ring
 * mutant NEAR_RING RINGS=2 assertion: the reader always reads the first ring
 * mutant NO_FINAL CALLS=6 SHORT=1 end: rooted calls do not end by publishing TTI_PHASE_FINAL
 * mutant R_EARLY assertion: R(k) is published before the fold
 * mutant FOLDED_IS_READ CALLS=4 AHEAD=1 assertion: a window counts as read when all have folded it
 * mutant EXPOSED_STAGED EXPOSES=1 assertion: span 0 is read after the arrival of a rank that exposes its tensors
 * mutant FINAL_AFTER_FAILURE assertion: a rank that gave up publishes TTI_PHASE_FINAL as if it had ended
 */
#ifndef CALLS
#define CALLS 2
#endif
#ifdef SMALL_RING
#define RING 8
#endif
#ifdef FEW_STAMPS
#define STAMPS 3
#endif
#ifndef RING
#define RING 10
#endif
#ifndef RINGS
#define RINGS 1
#endif
#ifndef STAMPS
#define STAMPS 8
#endif
#ifdef SPAN_EARLY
#define TAKEN(k) (k)
#else
#define TAKEN(k) ((k) + 1)
#endif
#ifdef FINAL_AFTER_FAILURE
#define FAULTS 1
#endif

#define TTI_PHASE_FINAL 31
#define TTI_PHASE_NEXT  32
#define SMALL           1
#define LARGE           2
#define ALL_REDUCE      0
#define EXCHANGE        1
#define FROM_ROOT       2
#define TO_ROOT         3 /* rank 0 */
#define REDUCE          4 /* to rank 0, by slices */
#define I(k)               (2 * (k) + 1)
#define R(k)               (2 * (k) + 4)
#define tti_position_at(c, phase)   ((c) * 32 + (phase))
#define NAME(is_result, k) (tti_position_at(call, 2 * (k) + (is_result) + 1)) /* of a content; 0: incomplete */
#define PEER               (1 - me)
#define OF(rank)           ((rank) * (CALLS + 1) + call)

/* position_of */
#define PLACE(first)      ((first) % RING)
#define BEFORE_GAP(first) ((RING - PLACE(first)) / stride[call])
#define EACH              (RING / stride[call])
#define BEHIND(first, k)  ((k) - BEFORE_GAP(first))
#ifdef NO_GAP
#define PEERS(first, k) ((first) + (k) * stride[call])
#else
#define PEERS(first, k) POSITION(first, k)
#endif
#define POSITION(first, k)                                                                                             \
    ((k) < BEFORE_GAP(first) -> (first) + (k) * stride[call]                                                           \
                             : (first) - PLACE(first) + RING + BEHIND(first, k) / EACH * RING +                        \
                                   BEHIND(first, k) % EACH * stride[call])

#define BASE(rank, ring) (((rank) * RINGS + (ring)) * RING)
#ifdef NEAR_RING
#define PEERS_BASE BASE(PEER, 0)
#else
#define PEERS_BASE BASE(PEER, start[OF(PEER)] / RING)
#endif
#define OLDEST     (ring * STAMPS)
#define stage_room (RING / stride[call] / 2)
#define report     (RING / stride[call] / 4)

byte kind[CALLS + 1], stride[CALLS + 1], steps[CALLS + 1];
byte cell[2 * RINGS * RING];
byte position[2]; /* of tti_progress */
byte arrived[2];  /* the arrival ring: sequence and attributes */
byte start[2 * (CALLS + 1)];
bool exposed[2 * (CALLS + 1)];

/* Waits; this rank may give up if what it waits for is not there. */
inline await(condition)
{
#ifdef FAULTS
    if :: condition :: !(condition) -> goto failed fi
#else
    condition
#endif
}

inline advance(p) { position[me] = tti_position_at(call, p) }
inline wait_phase(p) { await(position[PEER] >= tti_position_at(call, p)) }
inline await_one() { await(arrived[PEER] >= call) }
inline await_all() { await_one(); credit = call }

inline arrive() { atomic { start[OF(me)] = ring * RING + PLACE(first); exposed[OF(me)] = exposes; arrived[me] = call } }

inline stage_begin()
{
#if RINGS > 1
    if :: ring = 0 :: ring = 1 fi; /* choose_ring */
#endif
    atomic { first = (PLACE(head[ring]) + stride[call] <= RING -> head[ring] : head[ring] - PLACE(head[ring]) + RING) }
}

inline await_stamp()
{
    if
    :: credit > stamp_call[OLDEST]
    :: else ->
        if
        :: stamp_phase[OLDEST] == TTI_PHASE_NEXT ->
#if !defined(SMALL_RING) && !defined(FEW_STAMPS)
            assert(arrived[me] == call || stamp_call[OLDEST] + 1 < call);
#endif
#ifdef NEXT_EARLY
            await(arrived[PEER] >= stamp_call[OLDEST])
#else
            await(arrived[PEER] > stamp_call[OLDEST])
#endif
        :: else -> await(position[PEER] >= tti_position_at(stamp_call[OLDEST], stamp_phase[OLDEST]))
        fi
    fi
}

/* Acquires span k, and puts `content` into it. */
inline acquire(nr, content)
{
    atomic { at = POSITION(first, nr); i = 0 };
#ifndef NO_STAMPS
    do
    :: stamps[ring] > 0 && (at + stride[call] > freed[ring] + RING || stamps[ring] == STAMPS) ->
        await_stamp();
        d_step {
            freed[ring] = stamp_end[OLDEST];
            stamps[ring]--;
            for (i : 0 .. STAMPS - 2) {
                stamp_end[OLDEST + i] = stamp_end[OLDEST + i + 1];
                stamp_call[OLDEST + i] = stamp_call[OLDEST + i + 1];
                stamp_phase[OLDEST + i] = stamp_phase[OLDEST + i + 1]
            }
            stamp_end[OLDEST + STAMPS - 1] = 0;
            stamp_call[OLDEST + STAMPS - 1] = 0;
            stamp_phase[OLDEST + STAMPS - 1] = 0
        }
    :: else -> break
    od;
#endif
    head[ring] = at + stride[call];
    d_step {
        for (i : 0 .. stride[call] - 1) { cell[BASE(me, ring) + PLACE(at) + i] = 0 }
    };
    d_step { for (i : 0 .. stride[call] - 1) { cell[BASE(me, ring) + PLACE(at) + i] = content }; i = 0; at = 0 }
}

/* Stamps: the reader has read it when it publishes `phase`, with its span `other`; without that, at its next call. */
inline stamp(other, phase)
{
    d_step {
        stamp_end[OLDEST + stamps[ring]] = head[ring];
        stamp_call[OLDEST + stamps[ring]] = call;
        stamp_phase[OLDEST + stamps[ring]] = (other < steps[call] -> phase : TTI_PHASE_NEXT);
        stamps[ring]++
    }
}

inline read_span(n, name)
{
    d_step {
        at = PEERS(start[OF(PEER)], n);
        for (i : 0 .. stride[call] - 1) { assert(cell[PEERS_BASE + PLACE(at + i)] == name) }
        i = 0;
        at = 0
    }
}

inline read(nr, content) { read_span(nr, content); read_span(nr, content) }

inline await_span(nr, phase)
{
    if
#ifdef EXPOSED_STAGED
    :: nr > 0 -> wait_phase(phase)
#else
    :: nr > 0 || exposed[OF(PEER)] -> wait_phase(phase)
#endif
    :: else
    fi
}

/* ---- all_reduce, and reduce by slices: a span's second cell is the result ---------------------------------------- */

#define CELL(base, of, k, n) cell[(base) + PLACE(POSITION(of, k) + (n))]

inline stage(w)
{
    acquire(w, NAME(0, w));
#ifdef FOLDED_IS_READ
    stamp(w, R(w))
#else
    stamp(w + 3, I(w + 3))
#endif
}

inline fold_own(w)
{
    await_span(w, I(w));
#ifdef R_EARLY
    advance(R(w));
#endif
    assert(CELL(PEERS_BASE, start[OF(PEER)], w, 0) == NAME(0, w));
    assert(CELL(PEERS_BASE, start[OF(PEER)], w, 0) == NAME(0, w));
    CELL(BASE(me, ring), first, w, 1) = NAME(1, w);
    advance(R(w))
}

inline copy_out(w)
{
    wait_phase(R(w));
    assert(CELL(PEERS_BASE, start[OF(PEER)], w, 1) == NAME(1, w));
    assert(CELL(PEERS_BASE, start[OF(PEER)], w, 1) == NAME(1, w))
}

inline sliced()
{
    k = (exposes -> 0 : 1);
    do
    :: k < steps[call] + 2 ->
        if :: k < steps[call] -> stage(k); advance(I(k)) :: else fi;
        if :: k >= 1 && k - 1 < steps[call] -> fold_own(k - 1) :: else fi;
        if :: k >= 2 && (kind[call] == ALL_REDUCE || me == 0) -> copy_out(k - 2) :: else fi;
        k++
    :: else -> break
    od
}

/* ---- exchange --------------------------------------------------------------------------------------------------- */

inline pack(w)
{
    acquire(w, NAME(0, w));
    stamp(w + 2, w + 3)
}

inline exchange_finish()
{
    k = (exposes -> 0 : 1);
    do
    :: k <= steps[call] ->
        if :: k < steps[call] -> pack(k); advance(k + 1) :: else fi;
        if :: k > 0 -> await_span(k - 1, k); read(k - 1, NAME(0, k - 1)) :: else fi;
        k++
    :: else -> break
    od
}

inline run_direct()
{
    advance(TTI_PHASE_FINAL);
    wait_phase(TTI_PHASE_FINAL)
}

inline all_to_all_ranks()
{
    stage_begin();
    if
    :: !exposes && kind[call] == EXCHANGE -> pack(0)
    :: !exposes && kind[call] != EXCHANGE -> stage(0)
    :: else
    fi;
    arrive();
    await_all();
    if
    :: exposes && exposed[OF(PEER)] -> run_direct()
    :: else -> if :: kind[call] == EXCHANGE -> exchange_finish() :: else -> sliced() fi
    fi
}

/* ---- streams; that from the root can be pulled ------------------------------------------------------------------ */

inline write_spans()
{
    k = 0;
    do
    :: k < steps[call] ->
        if :: k == stage_room -> await_all() :: else fi;
        acquire(k, NAME(0, k));
        stamp(0, TAKEN(k));
        if :: k > 0 || exposes -> advance(k + 1) :: else -> arrive() fi;
        k++
    :: else -> break
    od
}

inline stream_write()
{
    stage_begin();
    if
    :: exposes -> /* write_nothing */
        arrive();
        await_all();
        if
        :: kind[call] == FROM_ROOT -> wait_phase(TTI_PHASE_FINAL)
        :: kind[call] == TO_ROOT && exposed[OF(PEER)] -> run_direct()
        :: else -> write_spans()
        fi
    :: else -> write_spans()
    fi
}

inline stream_read()
{
    first = 0; /* tti_stage_shape */
    arrive();
    await_one();
    if
    :: exposed[OF(PEER)] && kind[call] == FROM_ROOT /* pull */
    :: exposed[OF(PEER)] && kind[call] == TO_ROOT && exposes -> run_direct()
    :: else ->
        k = 0;
        do
        :: k < steps[call] ->
            await_span(k, k + 1);
            read(k, NAME(0, k));
            k++;
            if :: k % report == 0 && k < steps[call] -> advance(k) :: else fi
        :: else -> break
        od
    fi
}

proctype Rank(byte me; byte used)
{
    byte call, k, i, at;
    byte ring, first, credit;
    byte head[RINGS], freed[RINGS];
    byte stamps[RINGS], stamp_end[RINGS * STAMPS], stamp_call[RINGS * STAMPS], stamp_phase[RINGS * STAMPS];
    bool exposes;
    head[0] = used;
    freed[0] = used;
    for (call : 1 .. CALLS) {
#ifdef EXPOSES
        if :: exposes = false :: exposes = true fi;
#endif
        if
        :: kind[call] < FROM_ROOT || kind[call] == REDUCE -> all_to_all_ranks()
        :: kind[call] == FROM_ROOT + me -> stream_write()
        :: else -> stream_read()
        fi;
#ifndef NO_FINAL
        if :: kind[call] >= FROM_ROOT -> advance(TTI_PHASE_FINAL) :: else fi;
#endif
        k = 0
    }
    goto gone;
failed:
#ifdef FINAL_AFTER_FAILURE
    advance(TTI_PHASE_FINAL);
#endif
gone: skip
}

init
{
    byte c;
    atomic {
        for (c : 1 .. CALLS) {
            if
#ifdef AHEAD
            :: kind[c] = REDUCE; stride[c] = LARGE; steps[c] = 3
            :: kind[c] = TO_ROOT; stride[c] = LARGE; steps[c] = 1
#else
            :: kind[c] = FROM_ROOT; stride[c] = LARGE; steps[c] = 1
            :: kind[c] = FROM_ROOT; stride[c] = SMALL; steps[c] = 1
#ifndef SHORT
            :: kind[c] = FROM_ROOT; stride[c] = LARGE; steps[c] = 2
            :: kind[c] = EXCHANGE; stride[c] = LARGE; steps[c] = 4
            :: kind[c] = TO_ROOT; stride[c] = LARGE; steps[c] = 7
            :: kind[c] = ALL_REDUCE; stride[c] = LARGE; steps[c] = 3
            :: kind[c] = REDUCE; stride[c] = LARGE; steps[c] = 3
#ifdef MORE
            :: kind[c] = TO_ROOT; stride[c] = SMALL; steps[c] = 1
            :: kind[c] = ALL_REDUCE; stride[c] = LARGE; steps[c] = 1
            :: kind[c] = ALL_REDUCE; stride[c] = LARGE; steps[c] = 5
            :: kind[c] = REDUCE; stride[c] = LARGE; steps[c] = 5
            :: kind[c] = EXCHANGE; stride[c] = SMALL; steps[c] = 1
            :: kind[c] = FROM_ROOT; stride[c] = LARGE; steps[c] = 7
#endif
#endif
#endif
            fi
        }
        c = 0;
#ifdef MORE
        if :: c = 0 :: c = 1 fi; /* the ring has been used before */
#endif
        run Rank(0, c);
        run Rank(1, 0)
    }
}
