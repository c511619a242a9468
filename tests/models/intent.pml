/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intents: src/engine/memory/intent.c and collectives/zero_copy.c, with tti_fault_raise and tti_fault_check of fault.c.
 *
 * Modelled: three threads in one zero-copy call. Each arrives, waits for all, touches all ranks' buffers in CHUNKS
 * chunks, publishes TTI_PHASE_FINAL and waits until all have. At any wait a rank may give up: it writes its record,
 * raises the alarm, waits until its peers' intents are clear, and returns. Before each chunk a rank stores its intent
 * and reads the alarm. A rank that has returned OK may leave (tti_engine_leave), which raises the alarm, too, but is no
 * failure.
 *
 * Abstracted: the data. `returned` stands for "the owner may free its buffers". A chunk is two steps, so that another
 * rank may run in the middle. Memory is x86's: a plain store of an intent waits in the rank's store buffer of one
 * entry; a seq_cst store (xchg) and the read-modify-writes do not wait, and drain it.
 *
 * Proved: no rank touches a buffer whose owner has returned. A rank that returns OK does so after all have done their
 * share, whichever rank has given up. No deadlock (no invalid end state).
 *
 * ends: no run loops for ever
 * mutant RELEASE_STORE assertion: the intent is stored with release order, and waits in the store buffer
 * mutant READ_FIRST assertion: the alarm is read before the intent is stored
 * mutant NO_WAIT assertion: a rank that gives up returns without waiting for intents
 * mutant WAIT_FIRST assertion: it waits for intents before it raises the alarm
 * mutant ALARM_FIRST assertion: it raises the alarm before its record can be read
 * mutant FINAL_AFTER_FAILURE assertion: a rank that gave up publishes TTI_PHASE_FINAL as if it had done its share
 */
#define RANKS  3
#define CHUNKS 2

bool arrived[RANKS], final[RANKS];
bool intent[RANKS];     /* as peers see it */
bool buffered[RANKS], buffer[RANKS];
byte alarm;
bool state[RANKS];      /* of tti_fault: this rank has failed */
bool returned[RANKS];   /* for the proof */
bool shared[RANKS];

#define OTHER(i) ((me + (i)) % RANKS)

inline drain()
{
    if :: buffered[me] -> intent[me] = buffer[me]; buffered[me] = false :: else fi
}

proctype Buffer(byte me)
{
end:
    do
    :: atomic { buffered[me] -> intent[me] = buffer[me]; buffered[me] = false }
    od
}

inline store_release(value) { atomic { !buffered[me] -> buffer[me] = value; buffered[me] = true } }

inline tti_fault_check()
{
    harm = state[OTHER(1)] || state[OTHER(2)]
}

inline tti_fault_raise()
{
#ifdef WAIT_FIRST
    wait_for_intents();
#endif
#ifndef ALARM_FIRST
    state[me] = true;
#endif
    atomic { drain(); alarm++ }; /* fetch_add, seq_cst */
#ifdef ALARM_FIRST
    state[me] = true
#endif
}

inline wait_for_intents() { !intent[OTHER(1)]; !intent[OTHER(2)] }

/* tti_lane_wait for one peer: goes on if the peer has come so far; else sees a failure, or its deadline passes. */
inline await(there)
{
    do
    :: there -> break
    :: !there && alarm != alarm_seen ->
        look = alarm;
        tti_fault_check();
        if :: harm -> goto failed :: else -> alarm_seen = look fi
    :: !there -> tti_fault_raise(); goto failed
    od
}

inline intend()
{
#ifdef READ_FIRST
    look = alarm;
#endif
#ifdef RELEASE_STORE
    store_release(true);
#else
    atomic { drain(); intent[me] = true };
#endif
#ifndef READ_FIRST
    look = alarm;
#endif
    if
    :: look != alarm_seen ->
        tti_fault_check();
        if :: harm -> store_release(false); goto failed :: else -> alarm_seen = look fi
    :: else
    fi
}

inline touch() { assert(!returned[OTHER(1)] && !returned[OTHER(2)]) }

proctype Rank(byte me)
{
    byte chunk = 0;
    byte look;
    byte alarm_seen = 0;
    bool harm;
    arrived[me] = true;
    await(arrived[OTHER(1)]);
    await(arrived[OTHER(2)]);
    do
    :: chunk < CHUNKS -> intend(); touch(); touch(); store_release(false); chunk++
    :: else -> break
    od;
    shared[me] = true;
    atomic { drain(); final[me] = true }; /* exchange, seq_cst */
    await(final[OTHER(1)]);
    await(final[OTHER(2)]);
    assert(shared[OTHER(1)] && shared[OTHER(2)]);
    returned[me] = true;
    if :: alarm++ :: true fi; /* it may leave */
    goto gone;
failed:
#ifndef NO_WAIT
#ifndef WAIT_FIRST
    wait_for_intents();
#endif
#endif
    returned[me] = true;
#ifdef FINAL_AFTER_FAILURE
    final[me] = true;
#endif
gone: skip
}

init { atomic { run Buffer(0); run Buffer(1); run Buffer(2); run Rank(0); run Rank(1); run Rank(2) } }
