/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack of free works (a Treiber stack with a counter against ABA): take and give in src/core/async/work/pool.c.
 *
 * Modelled: two threads that take works and give them back, in any order. The head is one word: a count of changes and
 * the first free work. A thread reads next_free apart from it, perhaps of a work that is no longer free.
 *
 * Abstracted: growing. The count does not wrap: a thread would have to pause between two instructions for 2^32 changes.
 * Loads and stores take effect in program order, which acquire and release give.
 *
 * Proved: no work is handed out twice, and none is lost.
 *
 * ends: no run loops for ever
 * mutant NO_COUNT assertion: the head is the first free work alone
 * mutant NEXT_LATE assertion: a work is linked to the next one after it has become the first
 * mutant NO_COMPARE assertion: the head is stored, not exchanged
 */
#define WORKS 2
#define STEPS 5 /* of each thread */
#define NONE  0 /* works are 1 .. WORKS */

byte first, changes; /* one word */
byte next_free[WORKS + 1];
byte users[WORKS + 1];

inline exchange(value)
{
    atomic {
        if
#ifdef NO_COMPARE
        :: true ->
#else
        :: first == seen && changes == count ->
#endif
            first = value;
#ifndef NO_COUNT
            changes++;
#endif
            break
        :: else -> seen = first; count = changes
        fi
    }
}

inline take()
{
    atomic { seen = first; count = changes };
    do
    :: seen == NONE -> break
    :: seen != NONE -> next = next_free[seen]; exchange(next)
    od;
    if :: seen != NONE -> users[seen]++; assert(users[seen] == 1); held[seen] = true :: else fi
}

inline give(w)
{
    held[w] = false;
    users[w]--;
    atomic { seen = first; count = changes };
    do
    ::
#ifndef NEXT_LATE
       next_free[w] = seen;
#endif
       exchange(w)
    od;
#ifdef NEXT_LATE
    next_free[w] = seen
#endif
}

proctype Thread()
{
    byte seen, count, next;
    byte steps = 0;
    bool held[WORKS + 1];
    do
    :: steps < STEPS -> steps++; take()
    :: steps < STEPS && held[1] -> steps++; give(1)
    :: steps < STEPS && held[2] -> steps++; give(2)
    :: steps == STEPS && held[1] -> give(1)
    :: steps == STEPS && held[2] -> give(2)
    :: steps == STEPS && !held[1] && !held[2] -> break
    od
}

init {
    atomic { first = 1; next_free[1] = 2; run Thread(); run Thread() };
    _nr_pr == 1;
    assert(first != NONE && next_free[first] == 3 - first && next_free[3 - first] == NONE)
}
