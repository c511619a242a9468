/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleeping protocol of src/engine/wait/publish.c and wait.c.
 *
 * Modelled: two waiters in tti_lane_wait_slow, after spinning and yielding; a publisher that calls tti_publish for its
 * values 1 and 2; a third rank that calls tti_raise_alarm. In one case both values come, and the alarm may be raised
 * for a reason that does not concern the waiters. In the other case the publisher stops before any value, and the alarm
 * is raised for that. The kernel compares the words and puts the waiter to sleep in one step. A wake-up wakes all that
 * sleep on the word.
 *
 * Abstracted: the 5 ms bound of a sleep is left out, so a lost wake-up is a deadlock instead of a delay. The deadline,
 * the fault records (`fails` stands for them) and channels are left out, too. Memory is x86's: a plain store waits in a
 * store buffer of one entry while later loads run ahead; a read-modify-write does not wait. The sleeper's barrier on
 * all CPUs drains the publisher's buffer. With EXCHANGE there is no such barrier, and the publisher exchanges.
 *
 * Proved: no waiter sleeps for ever (no invalid end state); a waiter that gives up has a reason.
 *
 * ends: no run loops for ever
 * config BARRIERS=1
 * config EXCHANGE=1
 * mutant NO_BARRIER end: the sleeper runs no barrier, and the publisher does not exchange
 * mutant LOAD_FIRST end: the publisher reads the mask before it stores the word
 * mutant NO_CHECK end: the kernel does not compare the words again
 * mutant NO_ALARM end: the sleeper does not list the alarm among its words
 * mutant SHARED_BIT end: the waiters are threads of one rank, so one may clear the bit that the other needs
 * mutant COUNT_FIRST end: the rank that raises the alarm reads the number of sleepers before
 * mutant ALARM_STALE cycle: the waiter does not store the value of the alarm that it has checked
 */
#define WAITERS 2
#define LAST    2 /* the last value published */

byte word, alarm;      /* what all CPUs see */
bool buffered;         /* the publisher's store buffer */
byte buffer;
bool mask[WAITERS];    /* sleepers(e, publisher, channel) */
bool asleep[WAITERS];  /* in the kernel's queue of the word, and, if it listed it, in that of the alarm */
bool listed[WAITERS];
bool fails;
byte sleepers; /* tti_alarm_sleepers(e) */

#ifdef SHARED_BIT
#define BIT(w) 0
#else
#define BIT(w) w
#endif

inline drain()
{
    if :: buffered -> word = buffer; buffered = false :: else fi
}

proctype Buffer()
{
end:
    do
    :: atomic { buffered -> word = buffer; buffered = false }
    od
}

inline tti_publish(value)
{
#ifdef LOAD_FIRST
    any = mask[0] || mask[1];
    word = value;
#else
#ifdef EXCHANGE
    atomic { drain(); word = value }; /* exchange, seq_cst */
#else
    atomic { !buffered -> buffer = value; buffered = true }; /* store, release */
#endif
    atomic { any = mask[0] || mask[1] };
#endif
    if
    :: any -> atomic { drain(); asleep[0] = false; asleep[1] = false } /* a system call drains the buffer, too */
    :: else
    fi
}

proctype Publisher()
{
    byte value = 1;
    bool any;
    do
    :: fails -> break /* it dies here */
    :: value <= LAST -> tti_publish(value); value++
    :: !fails && value > LAST -> break
    od
}

proctype Alarm()
{
    bool any;
    if
    :: !fails /* nothing happens */
    :: true ->
#ifdef COUNT_FIRST
       any = sleepers != 0;
#endif
       alarm++; /* fetch_add, seq_cst */
#ifndef COUNT_FIRST
       any = sleepers != 0;
#endif
       if
       :: any -> atomic { asleep[0] = asleep[0] && !listed[0]; asleep[1] = asleep[1] && !listed[1] }
       :: else
       fi
    fi
}

proctype Waiter(byte me; byte target)
{
    byte seen, now, alarm_now;
    byte alarm_seen = 0;
    do
    :: seen = word;
       if :: seen >= target -> break :: else fi;
       alarm_now = alarm; /* check_failures */
       if
       :: alarm_now != alarm_seen && fails -> break /* tti_fault_check finds the record */
       :: else ->
#ifndef ALARM_STALE
           alarm_seen = alarm_now
#endif
       fi;
       /* tti_sleep */
       atomic { mask[BIT(me)] = true }; /* fetch_or, seq_cst */
       sleepers++; /* fetch_add, seq_cst */
#if !defined(EXCHANGE) && !defined(NO_BARRIER)
       atomic { drain() }; /* tti_membarrier */
#endif
       now = word;
       alarm_now = alarm;
       if
       :: now == seen && alarm_now == alarm_seen ->
           atomic { /* the kernel, under the lock of its queues */
               if
#ifdef NO_CHECK
               :: true ->
#else
               :: word == seen && alarm == alarm_seen ->
#endif
                   asleep[me] = true;
#ifndef NO_ALARM
                   listed[me] = true
#endif
               :: else
               fi };
           !asleep[me]
       :: else
       fi;
       sleepers--; /* fetch_sub */
       atomic { mask[BIT(me)] = false } /* fetch_and */
    od;
    assert(seen >= target || fails)
}

init {
    atomic {
        if
        :: fails = true
        :: fails = false
        fi;
        run Buffer(); run Publisher(); run Alarm(); run Waiter(0, 1); run Waiter(1, LAST)
    }
}
