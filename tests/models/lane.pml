/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ticket lane of src/core/lane.c.
 *
 * Modelled: three threads that enter and leave one lane twice each. Tickets are counted modulo 4, so that they wrap
 * around as the 32-bit counters do. tti_lane_enter takes a ticket, reads `served` and sleeps until it may have changed;
 * tti_lane_leave stores `served`, looks at `next`, and wakes all sleepers if somebody has a ticket.
 *
 * Abstracted: the yields before the first sleep (a yield is a step that does nothing). The fetch_add is relaxed in C,
 * but a full barrier here: between it and the kernel's comparison lies at least one system call, which is one. Memory
 * is x86's: a plain store waits in the thread's store buffer of one entry, a read-modify-write does not.
 *
 * Proved: one owner at a time; owners in the order of their tickets; nobody sleeps for ever (no invalid end state);
 * what an owner wrote with plain stores is there for the next one.
 *
 * ends: no run loops for ever
 * mutant PLAIN_STORE end: tti_lane_leave stores `served` with release order, not by exchange
 * mutant WAKE_ONE end: one sleeper is woken, which need not be the next one
 * mutant LOOK_FIRST end: `next` is read before `served` is stored
 * mutant NO_TICKET assertion: who finds the lane free enters without looking at its ticket
 */
#define THREADS 3
#define ROUNDS  2
#define WRAP    4 /* more than THREADS */

byte next, served;      /* struct tti_lane_queue */
bool buffered[THREADS]; /* store buffers: of `served` only, nothing else is stored plainly */
byte buffer[THREADS];
bool asleep[THREADS];
byte owners; /* what is to be proved */
byte turn;
byte state; /* of the lane, written by its owner */

inline drain()
{
    if :: buffered[me] -> served = buffer[me]; buffered[me] = false :: else fi
}

proctype Buffer(byte me)
{
end:
    do
    :: atomic { buffered[me] -> served = buffer[me]; buffered[me] = false }
    od
}

inline read_served()
{
    atomic {
        if
        :: buffered[me] -> seen = buffer[me] /* a CPU sees its own stores */
        :: else -> seen = served
        fi
    }
}

inline wake()
{
    atomic {
        drain();
#ifdef WAKE_ONE
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: asleep[2] -> asleep[2] = false
        :: !asleep[0] && !asleep[1] && !asleep[2]
        fi
#else
        asleep[0] = false; asleep[1] = false; asleep[2] = false
#endif
    }
}

inline tti_lane_enter()
{
    atomic { drain(); ticket = next; next = (next + 1) % WRAP };
    do
    :: read_served();
#ifdef NO_TICKET
       if :: owners == 0 -> break :: else fi;
#endif
       if :: seen == ticket -> break :: else fi;
       atomic { /* the kernel: FUTEX_WAIT compares and sleeps in one step */
           drain();
           if :: served == seen -> asleep[me] = true :: else fi };
       !asleep[me]
    od
}

inline tti_lane_leave()
{
    read_served();
    seen = (seen + 1) % WRAP;
#ifdef LOOK_FIRST
    tail = next;
#endif
#ifdef PLAIN_STORE
    atomic { !buffered[me] -> buffer[me] = seen; buffered[me] = true };
#else
    atomic { drain(); served = seen }; /* exchange, seq_cst */
#endif
#ifndef LOOK_FIRST
    tail = next;
#endif
    if :: tail != seen -> wake() :: else fi
}

proctype Thread(byte me)
{
    byte ticket, seen, tail, before;
    byte round = 0;
    do
    :: round < ROUNDS ->
        tti_lane_enter();
        owners++;
        assert(owners == 1);
        assert(turn == ticket); /* first come, first served */
        before = state;
        state = before + 1;
        turn = (turn + 1) % WRAP;
        owners--;
        tti_lane_leave();
        round++
    :: else -> break
    od
}

init {
    atomic { run Buffer(0); run Buffer(1); run Buffer(2); run Thread(0); run Thread(1); run Thread(2) };
    _nr_pr == 4 && !buffered[0] && !buffered[1] && !buffered[2]; /* only the buffers are left */
    assert(state == THREADS * ROUNDS)
}
