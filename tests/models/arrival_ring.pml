/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrival ring of src/engine/arrival/arrival.c.
 *
 * Modelled: a lane whose ranks run CALLS small calls. Each call is chosen freely, the same on all ranks: ALL (all wait
 * for all: all_reduce, barrier), BROADCAST (leaves wait for rank 0, which waits for no rank) or REDUCE (the last rank
 * waits for all, the leaves for no rank). Ranks may be as far apart as the credit allows: tti_arrive, tti_await_credit
 * and all_arrived are as in the C code, with a short ring.
 *
 * Abstracted: a line's payload, descriptor and digest are one number, the call's; sequences do not wrap. Waiting is a
 * guard, since sleep.pml has proved the sleeping. The order of payload and sequence is program order, which release and
 * acquire give; a mutant shows why it is needed.
 *
 * Proved: a rank that has waited for a peer's arrival reads the line of this very call, so no slot is overwritten while
 * a peer may still read it. No deadlock (no invalid end state). Ranks do run ahead of each other by the whole ring.
 *
 * config RANKS=3 RING=2 CALLS=3
 * config RANKS=3 RING=2 CALLS=4
 * config RANKS=2 RING=4 CALLS=6
 * mutant LATE_CREDIT assertion: the credit is one call short
 * mutant BLIND_AHEAD assertion: the cheap check ahead takes the result of the last rank only
 * mutant ROOT_CREDIT assertion: a root takes its own call as credit, though it has waited for no rank
 * mutant SEQUENCE_FIRST assertion: the sequence is stored before the payload
 * mutant NEVER_AHEAD assertion: no fault, but a claim that must be wrong: no rank is ever as far ahead as it may be
 */
#ifndef RANKS
#define RANKS 3
#define RING  2
#define CALLS 4
#endif

#define ALL       1
#define BROADCAST 2
#define REDUCE    3

#define SLOT(rank, call) ((rank) * RING + (call) % RING)

byte kind[CALLS + 1];
byte sequence[RANKS * RING];
byte payload[RANKS * RING];

inline all_arrived(number)
{
    there = true;
    peer = 0;
    do
    :: atomic { peer < RANKS ->
#ifdef BLIND_AHEAD
        there = peer == me || sequence[SLOT(peer, number)] >= number;
#else
        there = there && (peer == me || sequence[SLOT(peer, number)] >= number);
#endif
        peer++ }
    :: else -> break
    od
}

/* Waits for the arrival of peers first to last; `read`: then reads all their lines, as the folds do. */
inline await(first, last, number, read)
{
    peer = first;
    do
    :: atomic { peer <= last && (peer == me || sequence[SLOT(peer, number)] >= number) -> peer++ }
    :: peer > last -> break
    od;
    peer = first;
    do
    :: read && peer <= last -> atomic { assert(payload[SLOT(peer, number)] == number); peer++ }
    :: else -> break
    od
}

inline await_credit()
{
    all_arrived(need + RING / 2);
    if
    :: there -> credit = need + RING / 2
    :: else ->
        await(0, RANKS - 1, need, false);
        credit = need
    fi
}

inline tti_arrive()
{
#ifdef LATE_CREDIT
    need = (call >= RING -> call - RING : 0);
#else
    need = (call >= RING -> call - RING + 1 : 0);
#endif
    if :: call >= RING && credit < need -> await_credit() :: else fi;
#ifdef SEQUENCE_FIRST
    sequence[SLOT(me, call)] = call;
    payload[SLOT(me, call)] = call;
#else
    payload[SLOT(me, call)] = call;
    sequence[SLOT(me, call)] = call;
#endif
#ifdef NEVER_AHEAD
    assert(call <= RING || sequence[SLOT((me + 1) % RANKS, call - RING + 2)] >= call - RING + 2)
#endif
}

proctype Rank(byte me)
{
    byte call = 1;
    byte credit = 0;
    byte need, peer;
    bool there;
    do
    :: call <= CALLS ->
        tti_arrive();
        if
        :: kind[call] == ALL || kind[call] == REDUCE && me == RANKS - 1 ->
            await(0, RANKS - 1, call, true);
            credit = call
        :: kind[call] == BROADCAST && me != 0 -> await(0, 0, call, true)
        :: else
#ifdef ROOT_CREDIT
            -> credit = call
#endif
        fi;
        call++
    :: else -> break
    od
}

init {
    byte c = 1;
    atomic {
        do
        :: c <= CALLS ->
            if
            :: kind[c] = ALL
            :: kind[c] = BROADCAST
            :: kind[c] = REDUCE
            fi;
            c++
        :: else -> break
        od;
        c = 0;
        do
        :: c < RANKS -> run Rank(c); c++
        :: else -> break
        od
    }
}
