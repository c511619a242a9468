/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offered messages: src/engine/p2p/large/zero_copy.c and single_copy.c, with tti_fault_raise and tti_fault_check of fault.c.
 *
 * Modelled: a sender has offered its tensor; the receiver fetches it in CHUNKS chunks and acknowledges. Before each
 * chunk it stores its intent and reads the alarm, and after it clears the intent. The sender may give up at any time:
 * it writes its record, raises the alarm, waits until the intent is clear, and returns. It also returns when it sees
 * the acknowledgement. A third rank may leave, which raises the alarm, too, but is no failure. With PROCESSES the
 * sender may return while the intent is set, and the receiver reads the alarm once more before a chunk counts. Between
 * chunks the receiver may refuse the offer: it grants the message, and the sender writes it to the ring, or gives up
 * without waiting for the intent.
 *
 * Abstracted: the data. `returned` stands for "the owner may use its buffer for something else", `torn` for a chunk
 * during which the owner did. A chunk is two steps, the ring is one. Memory is x86's: a plain store of the intent waits
 * in a store buffer of one entry; a seq_cst store does not wait, and drains it.
 *
 * Proved: threads touch no buffer whose owner has returned. No torn chunk counts. A sender that returns OK has been
 * read completely. No deadlock. The other direction, where the sender writes to the receiver's tensor, is the same with
 * the names exchanged; there a process maps fresh pages over the tensor, and late writes go to pages that no process
 * owns.
 *
 * config THREADS
 * config PROCESSES
 * ends: no run loops for ever
 * mutant RELEASE_STORE assertion: the intent is stored with release order, and waits in the store buffer
 * mutant READ_FIRST assertion: the alarm is read before the intent is stored
 * mutant NO_WAIT assertion: the sender returns without waiting for the intent
 * mutant WAIT_FIRST assertion: it waits for the intent before it raises the alarm
 * mutant ALARM_FIRST assertion: it raises the alarm before its record can be read
 * mutant NO_SECOND_READ PROCESSES assertion: a chunk counts without a second read of the alarm
 * mutant EARLY_GRANT assertion: the offer is refused in the middle of a chunk
 * mutant EARLY_ACKNOWLEDGE assertion: the acknowledgement comes before the last chunk has been read
 */
#define CHUNKS 2

bool intent;            /* as the sender sees it */
bool buffered, buffer;  /* the receiver's store buffer */
byte alarm;
bool state;             /* of the sender's tti_fault */
bool fetched;           /* the acknowledgement */
bool granted;           /* the offer is refused */
bool sent;              /* through the ring */
bool returned;
byte counted;           /* chunks */

inline drain()
{
    if :: buffered -> intent = buffer; buffered = false :: else fi
}

active proctype Buffer()
{
end:
    do
    :: atomic { buffered -> intent = buffer; buffered = false }
    od
}

inline store_intent(value)
{
#ifdef RELEASE_STORE
    atomic { !buffered -> buffer = value; buffered = true }
#else
    atomic { drain(); intent = value }
#endif
}

inline touch()
{
#ifndef PROCESSES
    assert(!returned);
#endif
    torn = torn || returned
}

active proctype Receiver()
{
    byte clean = 0, seen = 0;
    bool torn = false;
    do
    :: counted == CHUNKS ->
        fetched = true; /* with release, but nothing is stored to be read by the sender */
        break
    :: counted < CHUNKS -> /* it refuses the offer, now or when a chunk could not be read */
        granted = true;
        (sent || state);
        break
    :: counted < CHUNKS ->
#ifdef READ_FIRST
        seen = alarm;
        store_intent(true);
#else
        store_intent(true);
        seen = alarm;
#endif
        if
        :: seen != clean && state -> store_intent(false); break
        :: seen != clean && !state -> clean = seen
        :: else
        fi;
        torn = false;
#ifdef EARLY_ACKNOWLEDGE
        if :: counted == CHUNKS - 1 -> fetched = true :: else fi;
#endif
        touch();
#ifdef EARLY_GRANT
        granted = true;
#endif
        touch();
        store_intent(false);
#ifdef PROCESSES
#ifndef NO_SECOND_READ
        if :: alarm != clean -> goto again :: else fi;
#endif
#endif
        assert(!torn);
        counted++;
again:
        skip
    od
}

inline wait_for_intent()
{
    skip;
#ifndef NO_WAIT
#ifdef PROCESSES
    if :: !intent :: skip fi
#else
    !intent
#endif
#endif
}

active proctype Sender()
{
    if
    :: fetched ->
        assert(counted == CHUNKS)
    :: granted ->
        if
        :: sent = true
        :: state = true; alarm++
        fi
    :: true -> /* its deadline, another call's failure, an abort */
#ifdef WAIT_FIRST
        wait_for_intent();
#endif
#ifdef ALARM_FIRST
        alarm++;
        state = true;
#else
        state = true;
        alarm++;
#endif
#ifndef WAIT_FIRST
        wait_for_intent();
#endif
        skip
    fi;
    returned = true
}

active proctype Leaver()
{
    if :: alarm++ :: skip fi
}
