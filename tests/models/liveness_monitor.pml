/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deaths: src/engine/failure/liveness_monitor.c, with fail_group and tti_fault_check of fault.c and the sleep of
 * wait.c.
 *
 * Modelled: three processes of one group, each with a monitor, and in process 0 a rank that waits for something that
 * never comes. Process 2 dies, process 1 may die as well, each at any step of any process. The kernel marks the life
 * word of a process that dies and wakes one of the monitors that sleep on it, in one step. It compares the words and
 * puts a monitor to sleep in one step, too. A monitor that is killed while it sleeps leaves its queues. A monitor that
 * was woken before it dies has used up the wake-up.
 *
 * Abstracted: the bounds of sleeps, 250 ms and 5 ms, are left out, so what they make up for is a deadlock instead of a
 * delay. So are reads of /proc, several groups, words beyond those that the kernel accepts, and processes that are
 * stopped.
 *
 * Proved: a rank that stays alive sees a death, whichever other process dies meanwhile (no invalid end state), and sees
 * none before there is one.
 *
 * ends: no run loops for ever
 * mutant SKIP_MARKED end: a monitor does not list a word that was marked after it had read it
 * mutant NO_COMPARE end: the kernel does not compare the words before it puts the monitor to sleep
 * mutant NO_WORD end: process 1 has no life word, so the wake-up that it was given is lost
 * mutant ALARM_FIRST end: the alarm is raised before the record can be read
 * mutant NO_ALARM end: the monitor writes the record only, and raises no alarm
 */
#define PROCESSES 3

bool dead[PROCESSES];
bool word[PROCESSES];       /* marked: FUTEX_OWNER_DIED */
bool record[PROCESSES];     /* of the process: fail_group */
byte alarm;
bool monitor_asleep[PROCESSES];
bool listed[PROCESSES * PROCESSES]; /* monitor * PROCESSES + word: among the words that it sleeps on */
bool rank_asleep;

#define OTHER(i)      ((me + (i)) % PROCESSES)
#define LISTED(k, r)  listed[(k) * PROCESSES + (r)]
#define SLEEPS(k, r)  (monitor_asleep[k] && LISTED(k, r))

inline wake_all_monitors(r)
{
    if :: SLEEPS(0, r) -> monitor_asleep[0] = false :: else fi;
    if :: SLEEPS(1, r) -> monitor_asleep[1] = false :: else fi;
    if :: SLEEPS(2, r) -> monitor_asleep[2] = false :: else fi
}

/* The kernel marks the word, and wakes one monitor that sleeps on it. */
inline exit_robust_list(r)
{
    word[r] = true;
    if
    :: SLEEPS(0, r) -> monitor_asleep[0] = false
    :: SLEEPS(1, r) -> monitor_asleep[1] = false
    :: SLEEPS(2, r) -> monitor_asleep[2] = false
    :: !SLEEPS(0, r) && !SLEEPS(1, r) && !SLEEPS(2, r)
    fi
}

proctype Death(byte r)
{
    if
    :: r == 1 /* it stays */
    :: atomic {
           dead[r] = true;
           monitor_asleep[r] = false
       };
       atomic {
#ifdef NO_WORD
           if :: r != 1 -> exit_robust_list(r) :: else fi
#else
           exit_robust_list(r)
#endif
       }
    fi
}

inline tti_raise_alarm()
{
    atomic { alarm++; rank_asleep = false }
}

inline tti_fault_death()
{
#ifdef ALARM_FIRST
    tti_raise_alarm();
    record[me] = true
#else
    record[me] = true;
#ifndef NO_ALARM
    tti_raise_alarm()
#endif
#endif
}

inline check_word(r)
{
    if
    :: word[r] && !known[r] ->
        atomic { wake_all_monitors(r) };
        known[r] = true;
        tti_fault_death()
    :: else
    fi
}

/* add_peers: the monitor sleeps on the words of the processes whose death it has not recorded. */
inline list(r)
{
#ifdef SKIP_MARKED
    LISTED(me, r) = !known[r] && !word[r]
#else
    LISTED(me, r) = !known[r]
#endif
}

proctype Monitor(byte me)
{
    bool known[PROCESSES];
    {
        do
        :: check_word(OTHER(1));
           check_word(OTHER(2));
           atomic { list(OTHER(1)); list(OTHER(2)) };
           atomic { /* the kernel, under the locks of its queues */
               if
#ifdef NO_COMPARE
               :: true -> monitor_asleep[me] = true
#else
               :: (LISTED(me, OTHER(1)) && word[OTHER(1)]) || (LISTED(me, OTHER(2)) && word[OTHER(2)])
               :: else -> monitor_asleep[me] = true
#endif
               fi
           };
end:       !monitor_asleep[me]
        od
    } unless { dead[me] }
}

proctype Rank()
{
    byte seen = 0;
    byte alarm_now;
    do
    :: alarm_now = alarm; /* check_failures */
       if
       :: alarm_now != seen && (record[0] || record[1] || record[2]) -> break /* tti_fault_check finds one */
       :: else -> seen = alarm_now
       fi;
       atomic {
           if
           :: alarm == seen -> rank_asleep = true
           :: else
           fi
       };
       !rank_asleep
    od;
    assert(dead[1] || dead[2])
}

init {
    atomic {
        run Death(1); run Death(2);
        run Monitor(0); run Monitor(1); run Monitor(2);
        run Rank()
    }
}
