/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes: src/core/call/lane.c, with the doorbell and the sleep of worker.c and the waiting of lane_runner.c.
 *
 * Modelled: a thread that submits operation A and then B, and three others that begin once A has been submitted or, for
 * the last, at any time. One waits for A (without a limit, with one that does not pass, with one that may pass at any
 * time). One tests A and then perhaps pushes it. One makes a synchronous call. And there is the lane's worker. Each of
 * A and B is SMALL (it arrives when it begins, and stays open without a notification), LARGE, or has a CALLBACK, so
 * that only the worker may run it. The names are those of the C code.
 *
 * Abstracted: what runs under the lock of the queue is one step. An operation that runs ends, whichever thread runs it;
 * `poll` may return anything. The deadline of the synchronous call is earlier than that of the operation in front, or
 * not. The worker's event counter is compared with one value only, so whether it has changed is one bit. Where the
 * order of two accesses counts, the first is a read-modify-write, which no store buffer delays. The kernel compares and
 * sleeps in one step.
 *
 * Proved: each operation runs once, in the order in which they took their places. There is one owner at a time.
 * Callbacks run on the worker. A waiter does not run what is behind its own work. No thread sleeps for ever (no invalid
 * end state). At the end nothing is open but a SMALL operation that no thread waits for, and that no other waits
 * behind.
 *
 * config WAITER=1 SECOND=1
 * config WAITER=1 SYNC=1
 * config WAITER=1 TESTER=1
 * config SYNC=1 SECOND=1
 * config SYNC=1 TESTER=1
 * config SECOND=1 TESTER=1
 * mutant NO_PUSHED TESTER=1 WAITER=1 end: a thread that puts a work back does not notify the worker again
 * mutant CLAIM_QUEUED TESTER=1 assertion: a thread that tests a work claims one that only the worker may run
 * mutant BEYOND WAITER=1 SECOND=1 assertion: a waiter runs what lies behind the work that it waits for
 * mutant NO_SLEEPER WAITER=1 TESTER=1 end: a thread that puts a work back does not read the flag of a sleeper
 * mutant NO_SECOND_READ WAITER=1 TESTER=1 end: a waiter sets its flag and sleeps, without reading the state again
 * mutant NO_NOTIFY_BEHIND SECOND=1 assertion: a work that queues behind an open one does not notify the worker
 * mutant NO_WITHDRAW SYNC=1 assertion: a call that gives up stays in the queue
 * mutant SILENT_WITHDRAW SYNC=1 SECOND=1 assertion: a call that gives up does not notify the worker, though a work behind
 *     it has left that to it
 * mutant BLIND_LEAVE WAITER=1 SYNC=1 end: a thread that leaves stores 0 without reading WAITING
 * mutant LOSE_WAITING SYNC=1 SECOND=1 assertion: a claim clears WAITING
 * mutant NOTIFY_LATE WAITER=1 TESTER=1 end: the notifier reads `asleep` before it changes the event counter
 * mutant TWO_STEPS WAITER=1 assertion: a claim is a load and a store
 * mutant OVERTAKE SYNC=1 assertion: a thread takes a lane that is not BUSY, though a work is open
 * mutant OPEN_TO_ALL WAITER=1 assertion: any thread claims a work with a callback
 */
#define A      0
#define B      1
#define CALL   2 /* the synchronous one */
#define NONE 3

/* The state of the lane: `head` and the bit `waiting` are one word. The bit WORKER follows from `kind`. */
#define IDLE    0
#define BUSY    1
#define OPEN(w) (2 + (w))
byte head;
bool waiting;
chan queue = [3] of { byte };
bool granted;

#define SMALL    0
#define LARGE    1
#define CALLBACK 2
byte kind[2];

/* The state of a work. */
#define QUEUED    1
#define ARRIVED   2
#define RUNNING   3
#define ENDED     4
#define SLEEPER   8
#define PUSHED    16
#define STAGE(s)  ((s) % SLEEPER)
#define FLAGS(s)  ((s) - STAGE(s))
#define SLEEPS(s) ((s) % PUSHED >= SLEEPER)
byte state[2];
bool handed; /* other threads have the handle of A */
bool asleep; /* the waiter, in the kernel's queue of A's state */

/* The worker. */
bool changed;   /* the event counter differs from what the worker has read */
bool worker_asleep; /* `asleep` in worker.h */
bool resting;

/* For the proof. */
byte owners, places, last;
byte place[3];
bool ran[3];
bool due[2]; /* must run, even if no thread waits for it */

#define NEVER 0
#define LONG  1
#define SHORT 2

inline tti_worker_notify()
{
#ifdef NOTIFY_LATE
    wake = worker_asleep;
    changed = true;
#else
    changed = true;
    wake = worker_asleep;
#endif
    if :: wake -> resting = false :: else fi
}

inline move(w, stage) { atomic { state[w] = FLAGS(state[w]) + stage } }

/* In one step with what makes the lane this thread's. */
inline own() { owners++; assert(owners == 1) }
inline take_place(id) { places++; place[id] = places }

inline perform(id)
{
    assert(!ran[id] && place[id] > last);
    ran[id] = true;
    last = place[id]
}

inline leave(on_worker)
{
    atomic {
        if
#ifdef BLIND_LEAVE
        :: true ->
#else
        :: !waiting ->
#endif
            head = IDLE; owners--; slow = false
        :: waiting -> slow = true
        fi
    };
    if
    :: slow ->
        atomic { /* leave_slow, under the lock */
            owners--;
            if
            :: queue ? next
            :: empty(queue) -> next = NONE
            fi;
            waiting = nempty(queue);
            if
            :: next == NONE -> head = IDLE
            :: next == CALL -> head = BUSY; granted = true
            :: else -> head = OPEN(next)
            fi
        };
        if :: next < CALL && !on_worker -> tti_worker_notify() :: else fi
    :: else
    fi
}

inline put_open(w)
{
    atomic {
        if
        :: !waiting -> head = OPEN(w); owners--; slow = false
        :: else -> slow = true
        fi
    };
    if
    :: slow ->
        atomic { head = OPEN(w); waiting = true; owners-- };
        tti_worker_notify()
    :: else ->
        if
#ifndef NO_SLEEPER
        :: SLEEPS(state[w]) -> tti_worker_notify()
#endif
#ifndef NO_PUSHED
        :: state[w] >= PUSHED -> tti_worker_notify()
#endif
        :: else
        fi
    fi
}

#ifdef OPEN_TO_ALL
#define FOR_WORKER(w) false
#else
#define FOR_WORKER(w) (kind[w] == CALLBACK)
#endif
#define CAN_CLAIM(only, on_worker) \
    (head >= OPEN(A) && (only == NONE || head == OPEN(only)) && (on_worker || !FOR_WORKER(head - OPEN(A))))

/* mine: what this thread has claimed, or NONE. */
inline claim(only, on_worker)
{
#ifdef TWO_STEPS
    atomic { if :: CAN_CLAIM(only, on_worker) -> mine = head - OPEN(A) :: else -> mine = NONE fi };
    if :: mine != NONE -> atomic { head = BUSY; own() } :: else fi
#else
    atomic {
        if
        :: CAN_CLAIM(only, on_worker) ->
            mine = head - OPEN(A);
            head = BUSY;
#ifdef LOSE_WAITING
            waiting = false;
#endif
            own()
        :: else -> mine = NONE
        fi
    }
#endif
}

inline publish(w)
{
    atomic { slow = SLEEPS(state[w]); state[w] = ENDED };
    if :: slow && w == A -> asleep = false :: else fi
}

inline end_work(w, on_worker)
{
    assert(on_worker || kind[w] != CALLBACK);
    move(w, RUNNING);
    atomic { perform(w) };
    leave(on_worker);
    publish(w)
}

#define HAS_BEGUN(w) (STAGE(state[w]) != QUEUED && STAGE(state[w]) != ARRIVED)

/* For the worker or a synchronous call; `later`: the deadline of what is open is later than that of the call. */
inline run_open(on_worker, later)
{
    claim(NONE, on_worker);
    if
    :: mine == NONE -> done = false
    :: mine != NONE && later -> put_open(mine); tti_worker_notify(); done = false
    :: mine != NONE && !later -> end_work(mine, on_worker); done = true
    fi
}

/* For a thread that waits for `awaited`, without a limit. */
inline tti_lane_queue_run_open(awaited)
{
    done = false;
    if
    :: HAS_BEGUN(awaited)
    :: !HAS_BEGUN(awaited) ->
        claim(NONE, false);
        if
        :: mine == NONE
#ifndef BEYOND
        :: mine != NONE && HAS_BEGUN(awaited) -> put_open(mine); tti_worker_notify()
        :: mine != NONE && !HAS_BEGUN(awaited) ->
#else
        :: mine != NONE ->
#endif
            assert(mine == awaited || !ran[awaited]);
            end_work(mine, false);
            done = true
        fi
    fi
}

inline tti_lane_queue_try_finish(w)
{
    if
#ifdef CLAIM_QUEUED
    :: true ->
#else
    :: STAGE(state[w]) == ARRIVED ->
#endif
        claim(w, false);
        if
        :: mine == NONE
        :: mine != NONE && STAGE(state[w]) == ARRIVED -> end_work(w, false)
        :: mine != NONE -> put_open(w)
        fi
    :: else
    fi
}

inline push(w)
{
    due[w] = true;
    atomic { if :: state[w] < PUSHED -> state[w] = state[w] + PUSHED :: else fi };
    tti_worker_notify()
}

/* The fast way, or take_or_queue; `open`: it lies behind an open one. */
inline enter(id)
{
    atomic {
        open = false;
#ifdef OVERTAKE
        entered = (head != BUSY);
#else
        entered = (head == IDLE);
#endif
        if :: entered -> head = BUSY; own(); take_place(id) :: else fi
    };
    if
    :: !entered ->
        atomic { /* under the lock */
            take_place(id);
            if
            :: head == IDLE -> head = BUSY; own(); entered = true
            :: else -> queue ! id; open = (head != BUSY && !waiting); waiting = true
            fi
        }
    :: else
    fi
}

inline begin(w)
{
    done = false;
    if
    :: kind[w] != LARGE ->
        move(w, RUNNING);
        move(w, ARRIVED);
        if
        :: kind[w] == SMALL -> end_work(w, false); done = true
        :: true
        fi
    :: else
    fi;
    if
    :: !done -> put_open(w); if :: kind[w] != SMALL -> tti_worker_notify() :: else fi
    :: else
    fi
}

inline tti_lane_queue_submit(w)
{
    state[w] = QUEUED;
    due[w] = (kind[w] != SMALL);
    enter(w);
    if
    :: entered -> begin(w)
    :: !entered ->
        due[w] = true;
        if :: w == B -> due[A] = true :: else fi;
#ifndef NO_NOTIFY_BEHIND
        if :: open -> tti_worker_notify() :: else fi
#endif
    fi
}

proctype Submitter()
{
    byte mine, next;
    bool slow, wake, done, entered, open;
    tti_lane_queue_submit(A);
    handed = true;
#ifdef SECOND
    tti_lane_queue_submit(B)
#endif
}

proctype Worker()
{
    byte mine, next;
    bool slow, wake, done;
    do
    :: changed = false;
       do
       :: run_open(true, false);
          if :: done :: else -> break fi
       od;
       worker_asleep = true;
       if
       :: !changed ->
           atomic { if :: !changed -> resting = true :: else fi };
end:       !resting
       :: else
       fi;
       worker_asleep = false
    od
}

proctype Waiter(byte limit)
{
    byte mine, next, seen;
    bool slow, wake, done;
    handed;
    if
    :: limit != NEVER -> /* poll_for_a_while */
        if
        :: tti_lane_queue_try_finish(A)
        :: true
        fi;
        push(A)
    :: else
    fi;
    do
    :: seen = state[A];
       done = false;
       if
       :: STAGE(seen) == ENDED -> break
       :: STAGE(seen) != ENDED && limit == NEVER -> tti_lane_queue_run_open(A)
       :: STAGE(seen) != ENDED && limit == SHORT -> break
       :: STAGE(seen) != ENDED && limit != NEVER
       fi;
       if
       :: done
       :: !done && !SLEEPS(seen) ->
           atomic { if :: state[A] == seen -> state[A] = seen + SLEEPER :: else fi };
#ifdef NO_SECOND_READ
           atomic { if :: state[A] == seen + SLEEPER -> asleep = true :: else fi };
           !asleep
#endif
       :: !done && SLEEPS(seen) ->
           atomic { if :: state[A] == seen -> asleep = true :: else fi };
           if
           :: !asleep
           :: limit == SHORT -> break
           fi
       fi
    od
}

proctype Caller(bool later; bool limited)
{
    byte mine, next;
    bool slow, wake, done, entered, open;
    enter(CALL);
    if
    :: !entered ->
        do
        :: granted -> break
        :: !granted ->
            if
            :: run_open(false, later)
            :: limited -> done = false /* its deadline passes while it yields */
            fi;
            if
            :: done
            :: !done ->
                if
                :: granted -> break
                :: limited ->
#ifdef NO_WITHDRAW
                    goto gone;
#endif
                    atomic { if :: queue ?? [CALL] -> queue ?? CALL; entered = true :: else fi };
                    if
                    :: entered ->
#ifndef SILENT_WITHDRAW
                        tti_worker_notify();
#endif
                        goto gone
                    :: else -> granted; break
                    fi
                fi
            fi
        od;
        atomic { own() }
    :: else
    fi;
    atomic { perform(CALL) };
    leave(false);
gone: skip
}

proctype Tester()
{
    byte mine, next;
    bool slow, wake, done;
    handed;
    tti_lane_queue_try_finish(A);
    if :: push(A) :: true fi /* it may open an eventfd, or release A */
}

init {
    atomic {
        if :: kind[A] = SMALL :: kind[A] = LARGE :: kind[A] = CALLBACK fi;
        run Worker();
        run Submitter();
#ifdef SECOND
        if :: kind[B] = SMALL :: kind[B] = LARGE :: kind[B] = CALLBACK fi;
#endif
#ifdef WAITER
        if :: run Waiter(NEVER) :: run Waiter(LONG) :: run Waiter(SHORT) fi;
#endif
#ifdef SYNC
        if :: run Caller(false, false) :: run Caller(false, true) :: run Caller(true, true) fi;
#endif
#ifdef TESTER
        run Tester()
#endif
    };
    _nr_pr == 2 && resting; /* only the worker is left */
    assert((ran[A] || !due[A]) && (ran[B] || !due[B]));
    assert(owners == 0 && head != BUSY && empty(queue))
}
