/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging windows: src/engine/stage.c, `pipelined` of all_reduce.c, and broadcast.c.
 *
 * Modelled: two ranks that run all_reduce, all_reduce, broadcast (root 0), all_reduce, broadcast on one lane,
 * all_reduce of WINDOWS windows, broadcast of one more than there are, so that it reuses its own. The formulas of in,
 * out, I, R, the stamps, the cursors and the order of all steps are those of the C code. A copy or a fold takes two
 * steps for each window that it touches, so that it can be caught half way. With FAULTS a rank may give up at any wait,
 * be it for its deadline or for the alarm, unless what it waits for is there: then it goes on.
 *
 * Abstracted: a window's content is its name (call, in or out, number); slices are not told apart; the ring does not
 * wrap (ring.pml has proved it); waiting is a guard (sleep.pml). Stores take effect in program order, which seq_cst
 * exchanges and acquire loads give. No MISMATCH.
 *
 * Proved: each window that is read holds the expected content from the first to the last byte, so none is overwritten
 * before its reader is through, and a call that returns OK beside ranks that gave up has read no leftovers; no deadlock
 * (no invalid end state).
 *
 * ends: no run loops for ever
 * config WINDOWS=1
 * config WINDOWS=3
 * config WINDOWS=4
 * config WINDOWS=3 FAULTS=1
 * mutant OUT_EARLY assertion: out(k) is taken for read when its reader has published R(k)
 * mutant NO_STAMPS assertion: windows are reused without asking
 * mutant NO_FINAL end: calls do not end by announcing TTI_PHASE_FINAL
 * mutant R_EARLY assertion: R(k) is published before the fold
 * mutant FINAL_AFTER_FAILURE assertion: a rank that gave up announces TTI_PHASE_FINAL as if it were through
 */
#ifndef WINDOWS
#define WINDOWS 3
#endif
#define TTI_WINDOWS     4
#define TTI_PHASE_FINAL 15
#define CALLS           5
#define OUT(k)             (2 * (k) + 2)
#define IN(k)              (2 * (k) - ((k) > 0))
#define I(k)               (2 * (k))
#define R(k)               (2 * (k) + 3)
#define tti_at(phase)      (call * 16 + (phase))
#define NAME(is_out, k)    (tti_at((is_out) * 8 + (k) + 1)) /* of a content; 0: being written */
#define SLOT(rank, window) ((rank) * TTI_WINDOWS + (window) % TTI_WINDOWS)
#define START(rank)        start[(rank) * (CALLS + 1) + call]
#define PEER               (1 - me)

byte staging[2 * TTI_WINDOWS];
byte position[2]; /* of tti_progress */
byte arrived[2];  /* the arrival ring: sequence, and each call's first window */
byte start[2 * (CALLS + 1)];

/* Goes on if the peer has come so far; else this rank may give up. */
inline await(condition)
{
#if defined(FAULTS) || defined(FINAL_AFTER_FAILURE)
    if :: condition :: !(condition) -> goto failed fi
#else
    condition
#endif
}

inline wait_phase(phase) { await(position[PEER] >= tti_at(phase)) }
inline advance(phase) { position[me] = tti_at(phase) }
inline arrive() { START(me) = cursor; arrived[me] = call }

/* Acquires the window, fills it, stamps it. */
inline fill(window, is_out, nr, phase)
{
    slot = (cursor + window) % TTI_WINDOWS;
    await(position[PEER] >= stamps[slot]);
    staging[SLOT(me, slot)] = 0;
    staging[SLOT(me, slot)] = NAME(is_out, nr);
#ifndef NO_STAMPS
    stamps[slot] = tti_at(phase)
#endif
}

inline read(window, is_out, nr)
{
    slot = SLOT(PEER, START(PEER) + window);
    assert(staging[slot] == NAME(is_out, nr));
    assert(staging[slot] == NAME(is_out, nr))
}

inline reduce_own()
{
    until = (k + 2 < WINDOWS -> I(k + 2) : TTI_PHASE_FINAL); /* read_by_all */
#ifdef OUT_EARLY
    until = R(k);
#endif
    read(IN(k), 0, k);
    fill(OUT(k), 1, k, until)
}

inline all_reduce()
{
    fill(0, 0, 0, R(0));
    arrive();
    await(arrived[PEER] >= call);
    for (k : 0 .. WINDOWS - 1) {
        if :: k + 1 < WINDOWS -> fill(IN(k + 1), 0, k + 1, R(k + 1)); advance(I(k + 1)) :: else fi;
        await(k == 0 || position[PEER] >= tti_at(I(k)));
#ifdef R_EARLY
        advance(R(k));
#endif
        reduce_own();
        advance(R(k));
        wait_phase(R(k));
        read(OUT(k), 1, k)
    }
}

inline broadcast()
{
    k = 0;
    do
    :: me == 0 && k <= TTI_WINDOWS ->
        await(k < TTI_WINDOWS || arrived[PEER] >= call);
        fill(k, 0, k, k + 1);
        if :: k == 0 -> arrive() :: else -> advance(k) fi;
        k++
    :: me != 0 && k <= TTI_WINDOWS ->
        if :: k == 0 -> arrive(); await(arrived[PEER] >= call) :: else -> wait_phase(k) fi;
        read(k, 0, k);
        k++;
        if :: k <= TTI_WINDOWS -> advance(k) :: else fi /* the last one is not full: TTI_PHASE_FINAL speaks for it */
    :: k > TTI_WINDOWS -> break
    od
}

proctype Rank(byte me; byte cursor)
{
    byte call, k, slot, until;
    byte stamps[TTI_WINDOWS];
    for (call : 1 .. CALLS) {
        if :: call == 3 || call == 5 -> broadcast() :: else -> all_reduce() fi;
#ifndef NO_FINAL
        advance(TTI_PHASE_FINAL);
#endif
        cursor = (cursor + 1) % TTI_WINDOWS
    }
    goto gone;
failed:
#ifdef FINAL_AFTER_FAILURE
    advance(TTI_PHASE_FINAL);
#endif
gone: skip
}

init { atomic { run Rank(0, 0); run Rank(1, 1) } } /* calls that failed may have moved the cursors apart */
