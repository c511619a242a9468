/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: src/core/messages/messages.c, with what it uses of work/stage.c and of the engine's messages.
 *
 * Modelled: a thread that posts one work: a SMALL one, which the timer passes to the worker after a moment; a
 * LARGE one, for which the worker is notified; or one with a CALLBACK, which only the worker may end. The worker. A
 * thread that waits for the work (without a limit, or with one that may pass at any time). A thread that cancels it,
 * twice. A thread that tests it, and then perhaps has it pushed. And the other rank, whose message is first announced,
 * and then arrives. A thread of this rank must read both: a message that is announced is matched, so the work has
 * begun; a message that has arrived ends it.
 *
 * Abstracted: the sleep of the engine. A thread that attends to a batch sleeps until a round would make progress or
 * the batch has ended. The worker, which attends to all, sleeps until a round would make progress, `completed` has
 * changed since it last read it, or wake_p2p has been called since it attended last. The bound of 5 ms is left out.
 * What runs under a lock is one step. The worker's sleep elsewhere is a guard: lane.pml has proved it. Left out are
 * deadlines, and tokens, which may fire before the work is posted.
 *
 * Proved: the work ends once, a CALLBACK on the worker, also if no thread waits for it. The answer to a cancel agrees
 * with the end, and a work is not too late before it has begun. Only the thread that has claimed the work touches its
 * batch, and no thread does after the end. No thread sleeps for ever (no invalid end state).
 *
 * config WAITER=1 CANCELLER=1
 * config WAITER=1 TESTER=1
 * config CANCELLER=1 TESTER=1
 * mutant NO_PUSHED TESTER=1 assertion: a thread that gives the work back does not notify the worker again
 * mutant NOTIFY_ONLY CANCELLER=1 assertion: the worker is notified, but does not return from attend_p2p for that
 * mutant NO_WAKE WAITER=1 TESTER=1 end: a thread that gives the work back does not wake its waiter
 * mutant NO_COMPARE WAITER=1 TESTER=1 end: the kernel does not compare the word before a waiter sleeps
 * mutant ANY_THREAD WAITER=1 assertion: any thread claims a work with a callback
 * mutant TOO_EAGER CANCELLER=1 assertion: a message that has been matched is withdrawn all the same
 * mutant NO_LOCK CANCELLER=1 assertion: a cancel does not exclude that another thread ends the batch meanwhile
 * mutant FORGETFUL CANCELLER=1 assertion: a second cancel calls the engine again, which returns too late
 * mutant MOVER assertion: no fault, but what the 5 ms are for: a round of another thread ends the messages when the
 *     worker has read them and is about to attend
 */
#define SMALL    0
#define LARGE    1
#define CALLBACK 2
byte kind;

/* The state of the work. */
#define MADE    0
#define POSTED  1
#define RUNNING 2
#define ENDED   3
byte stage;
bool sleeper, pushed, cancel;
bool asleep; /* the waiter */

bool is_posted; /* under the lock of the messages */
bool handed;    /* the call has returned */

/* The engine: the batch, and what the other rank has done. */
bool batch, begun, done, cancelled;
bool announced, arrived;
bool completed, woken; /* since the worker read; since it attended last */

bool notified; /* the event counter differs from what the worker has read */
bool resting, attending;
#define CHANGE (completed || woken || MOVABLE)

/* For the proof. */
byte ends;
bool end_cancelled;
bool in_hand; /* a thread has claimed it */

#define MOVABLE ((announced && !begun || arrived && begun) && !done)

inline round()
{
    atomic {
        if :: announced && !done -> begun = true :: else fi;
        if :: arrived && !done -> done = true; completed = true :: else fi
    }
}

inline tti_worker_notify() { notified = true }

inline notify_worker()
{
    tti_worker_notify();
#ifndef NOTIFY_ONLY
    woken = true
#endif
}

inline has_ended()
{
    atomic { assert(batch && in_hand); round(); over = done }
}

inline finish(on_worker)
{
    assert(on_worker || kind != CALLBACK);
    is_posted = false; /* unlink_work, under the lock */
    atomic { assert(batch && done); batch = false; end_cancelled = cancelled };
    atomic {
        ends++;
        assert(ends == 1);
        in_hand = false;
        stage = ENDED;
        if :: sleeper -> sleeper = false; asleep = false :: else fi
    }
}

inline give_back()
{
    atomic {
        in_hand = false;
        stage = POSTED;
#ifndef NO_WAKE
        if :: sleeper -> asleep = false :: else fi;
#endif
        sleeper = false;
#ifdef NO_PUSHED
        notify = (pushed && !handed)
#else
        notify = pushed
#endif
    };
    if :: notify -> notify = false; tti_worker_notify() :: else fi
}

inline claim()
{
    atomic {
        mine = (stage == POSTED);
        if :: mine -> stage = RUNNING; assert(!in_hand); in_hand = true :: else fi
    }
}

#ifdef ANY_THREAD
#define FOR_WORKER false
#else
#define FOR_WORKER (kind == CALLBACK)
#endif

inline try_claimed(on_worker)
{
    has_ended();
    if :: over -> finish(on_worker) :: else -> give_back() fi;
    mine = false
}

proctype Poster()
{
    bool mine, notify, over;
    batch = true; /* post_p2p */
    round();
    atomic { stage = RUNNING; in_hand = true };
    pushed = (kind != SMALL);
    is_posted = true; /* link_work, under the lock */
    if
    :: kind == CALLBACK -> give_back(); notify_worker()
    :: else -> try_claimed(false)
    fi;
    handed = true
}

/* Later, the timer. */
proctype Timer()
{
    handed && kind == SMALL;
    atomic { if :: is_posted -> pushed = true :: else fi };
    if :: pushed -> notify_worker() :: else fi
}

proctype Worker()
{
    bool mine, notify, over, left, stale;
end:
    do
    :: atomic { notified -> notified = false; resting = false };
       do
       :: left = false;
          claim();
          if
          :: mine -> try_claimed(true); atomic { left = !over; over = false }
          :: else
          fi;
          if
          :: !left -> break
          :: left -> /* attend_p2p without a batch */
              left = false;
              atomic { stale = woken; woken = false };
              completed = false; /* the worker reads the counter */
              if
              :: !stale ->
                  round();
                  attending = true;
end_attending:    CHANGE;
                  attending = false
              :: else
              fi
          fi
       od;
       atomic { if :: !notified -> resting = true :: else fi }
    od
}

proctype Waiter(bool limited)
{
    bool mine, notify, over, seen_sleeper, seen_pushed, seen_cancel;
    byte seen;
    handed;
    do
    :: atomic { seen = stage; seen_sleeper = sleeper; seen_pushed = pushed; seen_cancel = cancel };
       if
       :: stage == ENDED -> break
       :: stage != ENDED && limited -> break
       :: stage != ENDED
       fi;
       if :: !FOR_WORKER -> claim() :: else fi;
       if
       :: mine -> /* attend */
           atomic { mine = false; seen = MADE; seen_sleeper = false; seen_pushed = false; seen_cancel = false };
           do
           :: has_ended();
              if
              :: over -> finish(false); break
              :: !over && limited -> give_back(); break
              :: !over -> done || MOVABLE || limited
              fi
           od;
           if :: !over -> tti_worker_notify() :: else fi;
           break
       :: else ->
           atomic { /* tti_work_sleep */
               if
#ifdef NO_COMPARE
               :: seen_sleeper ->
#else
               :: seen_sleeper && sleeper && seen == stage && seen_pushed == pushed && seen_cancel == cancel ->
#endif
                   asleep = true
               :: !seen_sleeper && !sleeper && seen == stage && seen_pushed == pushed && seen_cancel == cancel ->
                   sleeper = true
               :: else
               fi;
               seen = MADE; seen_sleeper = false; seen_pushed = false; seen_cancel = false
           };
           if
           :: !asleep
           :: limited -> asleep = false; break
           fi
       fi
    od
}

inline cancel_messages()
{
    atomic { /* under the lock of the messages; the engine has one for the second half */
        answer = cancel;
#ifdef FORGETFUL
        answer = false;
#endif
        now = (!answer && is_posted);
#ifdef NO_LOCK
    };
    atomic {
#endif
        if
        :: now ->
            assert(batch);
#ifdef TOO_EAGER
            now = !done;
#else
            now = (!begun && !done);
#endif
            if :: now -> cancelled = true; done = true; completed = true; cancel = true; pushed = true :: else fi
        :: else
        fi;
        answer = answer || now;
        assert(answer || begun);
        assert(!answer || !begun)
    };
    if :: now -> notify_worker() :: else fi;
}

proctype Canceller()
{
    bool answer, now;
    handed;
    cancel_messages();
    cancel_messages();
    assert(ends == 0 || answer == end_cancelled)
}

proctype Tester()
{
    bool mine, notify, over;
    handed;
    if :: !FOR_WORKER -> claim() :: else fi;
    if :: mine -> try_claimed(false) :: else fi;
    if
    :: pushed = true; notify_worker() /* tti_work_push */
    :: true
    fi
}

proctype Other()
{
    announced = true;
    arrived = true
}

proctype Mover()
{
    handed;
    round()
}

init {
    atomic {
        if :: kind = SMALL :: kind = LARGE :: kind = CALLBACK fi;
        resting = true;
        run Worker();
        run Poster();
        run Other();
#ifdef WAITER
        if :: run Waiter(false) :: run Waiter(true) fi;
#endif
#ifdef CANCELLER
        run Canceller();
#endif
#ifdef TESTER
        run Tester();
#endif
        if :: kind == SMALL -> run Timer() :: else fi;
#ifdef MOVER
        run Mover()
#endif
    };
    _nr_pr == 2 && (resting && !notified || attending && !CHANGE);
    assert(ends == 1 && end_cancelled == cancel)
}
