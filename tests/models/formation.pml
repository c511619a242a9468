/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sleeping protocol of src/backends/shm/await.c.
 *
 * Modelled: a rank that makes the steps 1 and 2 of forming groups, with tti_shm_notify after each; two ranks in
 * tti_shm_await, after spinning and yielding: one waits for step 1, the other one for step 2. The kernel compares the
 * word and puts the waiter to sleep in one step. A wake-up wakes all that sleep on the word.
 *
 * Abstracted: the bound of a sleep is left out, so a lost wake-up is a deadlock instead of a delay. Memory is
 * sequentially consistent, as the accesses to the word and the count are.
 *
 * Proved: no waiter sleeps for ever (no invalid end state).
 *
 * ends: no run loops for ever
 * mutant NOTIFY_FIRST end: the rank notifies before it makes the step
 * mutant NO_LOOK end: the waiter does not look at the step again after it was counted
 * mutant WORD_LAST end: the waiter reads the word after it has looked
 * mutant NO_CHECK end: the kernel does not compare the word
 */
#define WAITERS 2
#define LAST    2

byte steps;           /* what the owner has published */
byte word;
byte sleepers;
bool asleep[WAITERS]; /* in the kernel's queue of the word */

proctype Owner()
{
    byte made;
    byte any;
    do
    :: made < LAST ->
        made++;
#ifndef NOTIFY_FIRST
        steps = made;
#endif
        word++;
        any = sleepers;
        if
        :: any > 0 -> atomic { asleep[0] = false; asleep[1] = false }
        :: else
        fi;
#ifdef NOTIFY_FIRST
        steps = made;
#endif
    :: else -> break
    od
}

proctype Waiter(byte me; byte target)
{
    byte seen;
    bool over;
    do
    :: over -> break
    :: else ->
        sleepers++;
#ifndef WORD_LAST
        seen = word;
#endif
#ifdef NO_LOOK
        over = false;
#else
        over = steps >= target;
#endif
#ifdef WORD_LAST
        seen = word;
#endif
        if
        :: !over ->
            atomic { /* the kernel, under the lock of its queue */
                if
#ifdef NO_CHECK
                :: true -> asleep[me] = true
#else
                :: word == seen -> asleep[me] = true
                :: else
#endif
                fi };
            !asleep[me];
            over = steps >= target
        :: else
        fi;
        sleepers--
    od
}

init {
    atomic { run Owner(); run Waiter(0, 1); run Waiter(1, LAST) }
}
