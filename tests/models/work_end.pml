/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a work: tti_work_publish, sleep, watch, unwatch and the eventfd of src/core/async/work/stage.c; drop and
 * retire of work/pool.c.
 *
 * Modelled: the thread that ends the work; two that watch it, one until it is notified, the other until it unwatches;
 * one that sleeps until the end, or one that opens the eventfd and polls it; and one that releases the handle at any
 * time. Each has the handle at first, and is too late if another thread releases it before. The state is one word: its
 * stage and the flags. So is the count of users with the bit ALIVE.
 *
 * Abstracted: the order of the list of watches. Read-modify-writes and loads take effect in program order (seq_cst).
 *
 * Proved: a thread that registers in time sees the end once: a sleeper wakes, a watch is notified, the eventfd becomes
 * readable (no invalid end state). A watch is not notified after tti_work_unwatch has returned, nor if it came too
 * late. No thread touches the work or its eventfd after the last user has dropped it, and that happens once.
 *
 * ends: no run loops for ever
 * config SLEEPS=1
 * config POLLS=1
 * mutant PLAIN_PUBLISH end: the end is published by a load and a store
 * mutant NO_COMPARE SLEEPS=1 end: the kernel does not compare the word before the waiter sleeps
 * mutant READ_FIRST end: a watch reads the state before it sets its flag
 * mutant NO_SIGNAL POLLS=1 end: the thread that makes the eventfd does not read the state
 * mutant STAYS_IN assertion: a watch that came too late stays in the list
 * mutant NO_WAIT assertion: tti_work_unwatch does not wait for a notification under way
 * mutant DROP_FIRST assertion: the work is dropped before the watches are notified
 * mutant NO_USER assertion: a waiter does not count as a user
 */
#define WATCHERS 2
#define NO_WATCHER   WATCHERS

/* The state. */
bool ended, sleeper, watched, eventfd;

/* The other word. */
bool alive = true; /* the handle */
byte users = 2;    /* the handle and the operation */

bool given_back;
bool open, readable; /* the descriptor */
bool asleep;
bool lock;
chan watches = [WATCHERS] of { byte };
byte notifying = NO_WATCHER;
bool exists[WATCHERS]; /* the struct of the watch */
bool notified[WATCHERS];

inline touch() { assert(!given_back) }
inline take_lock() { atomic { !lock -> lock = true; touch() } }
inline unlock() { lock = false }

/* held: whether the handle was still alive */
inline tti_work_acquire()
{
    atomic {
        held = alive;
#ifndef NO_USER
        if :: held -> users++ :: else fi
#endif
    }
}

inline last_drop()
{
    users--;
    if
    :: users == 0 && !alive -> assert(!given_back); given_back = true; open = false
    :: else
    fi
}

inline tti_work_drop() { atomic { last_drop() } }

inline drop_held()
{
#ifndef NO_USER
    tti_work_drop()
#else
    skip
#endif
}

inline signal_descriptor() { assert(open && !readable); readable = true }

inline notify_watches()
{
    take_lock();
    do
    :: watches ? watch ->
        notifying = watch;
        unlock();
        assert(exists[watch] && !notified[watch]);
        notified[watch] = true;
        assert(exists[watch]); /* it wakes its owner with a word of the watch */
        take_lock();
        notifying = NO_WATCHER
    :: empty(watches) -> break
    od;
    unlock()
}

proctype Publisher()
{
    bool was_sleeper, was_eventfd, was_watched;
    byte watch;
#ifdef PLAIN_PUBLISH
    atomic { was_sleeper = sleeper; was_eventfd = eventfd; was_watched = watched };
    atomic { ended = true; sleeper = false; eventfd = was_eventfd; watched = was_watched };
#else
    atomic {
        touch();
        was_sleeper = sleeper; was_eventfd = eventfd; was_watched = watched;
        ended = true;
        sleeper = false
    };
#endif
#ifdef DROP_FIRST
    tti_work_drop();
#endif
    if :: was_sleeper -> asleep = false :: else fi;
    if :: was_eventfd -> atomic { touch(); signal_descriptor() } :: else fi;
    if :: was_watched -> notify_watches() :: else fi;
#ifndef DROP_FIRST
    tti_work_drop()
#endif
}

proctype Sleeper()
{
    bool held, seen_sleeper, seen_eventfd, seen_watched;
    tti_work_acquire();
    if
    :: held ->
        do
        :: atomic { touch(); seen_sleeper = sleeper; seen_eventfd = eventfd; seen_watched = watched };
           if
           :: ended -> touch(); break
           :: else
           fi;
           atomic {
               touch();
               if
               :: seen_sleeper && /* the kernel */
#ifndef NO_COMPARE
                  !ended && sleeper && seen_eventfd == eventfd && seen_watched == watched
#else
                  true
#endif
                  -> asleep = true
               :: else ->
                   if
                   :: !seen_sleeper && !ended && !sleeper && seen_eventfd == eventfd && seen_watched == watched ->
                       sleeper = true
                   :: else
                   fi
               fi
           };
           !asleep
        od;
        drop_held()
    :: else
    fi
}

inline tti_work_watch()
{
    take_lock();
    watches ! me;
#ifdef READ_FIRST
    in_time = !ended;
    watched = true;
#else
    atomic { watched = true; in_time = !ended };
#endif
#ifndef STAYS_IN
    if :: !in_time -> watches ?? eval(me) :: else fi;
#endif
    unlock()
}

inline tti_work_unwatch()
{
    take_lock();
    if :: watches ?? [eval(me)] -> watches ?? eval(me) :: else fi;
#ifndef NO_WAIT
    do
    :: notifying == me -> unlock(); notifying != me; take_lock()
    :: else -> break
    od;
#endif
    unlock()
}

proctype Watcher(byte me; bool unwatches_early)
{
    bool held, in_time;
    tti_work_acquire();
    if
    :: held ->
        exists[me] = true;
        tti_work_watch();
        if
        :: in_time ->
            if
            :: notified[me]
            :: unwatches_early
            fi;
            tti_work_unwatch()
        :: else -> assert(ended)
        fi;
        exists[me] = false;
        assert(!notified[me] || in_time);
        drop_held()
    :: else
    fi
}

proctype Poller()
{
    bool held, late;
    tti_work_acquire();
    if
    :: held ->
        take_lock();
        open = true;
        atomic { eventfd = true; late = ended };
        if
#ifdef NO_SIGNAL
        :: false
#else
        :: late -> signal_descriptor()
#endif
        :: else
        fi;
        unlock();
        readable;
        drop_held()
    :: else
    fi
}

proctype Releaser()
{
    atomic { alive = false };
    tti_work_drop()
}

init {
    atomic {
        run Publisher();
        run Releaser();
        run Watcher(0, false);
        run Watcher(1, true);
#ifdef SLEEPS
        run Sleeper();
#endif
#ifdef POLLS
        run Poller()
#endif
    };
    _nr_pr == 1;
    assert(given_back && ended && !open && empty(watches))
}
