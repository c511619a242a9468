/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreements: src/engine/failure/agreement.c, on which agree and shrink rest.
 *
 * Modelled: RANKS ranks that go through ROUNDS agreements, of which one may die, at any step of anybody. A rank writes
 * its ballot, looks at everybody's and at who is known to have died, sleeps if somebody is missing, writes its verdict
 * word by word, and tries to put its number into the arbiter's word; then it reads the verdict of whom the arbiter names. Deaths
 * become known, and ring the alarm, some time after they have happened. With LATE nobody dies, but deadlines pass at any
 * time: a rank leaves out whoever is missing then, and who has been left out resigns. With RETURNS a rank may give up once in a
 * round (a deadline, an abort) and call again, perhaps with another flag.
 *
 * Abstracted: the flags are one bit; whoever knows of a death tells all at once (keeper.pml is about how); the bound
 * of sleeps is left out, so that what it makes up for is a deadlock instead of a delay; the two words that ranks sleep on
 * are one; among three ranks there is no sleep at all, and some steps are one. Memory is sequentially consistent:
 * ballots and verdicts are written with release order and read with acquire order, word by word.
 *
 * Proved: all who come to the end of a round have the same outcome, whoever has died where; its flag is true if nobody
 * has said no, and only if nobody has who is not absent (who has called twice has said both); nobody is absent who is neither
 * dead nor late nor has resigned; nobody hears that it has been left out unless it was late; without LATE every rank that stays
 * alive comes to its end (no invalid end state).
 *
 * ends: no run loops for ever
 * config RANKS=2
 * config RANKS=3
 * config RANKS=2 ROUNDS=3 LATE=1
 * config RANKS=2 RETURNS=1
 * mutant PLAIN_STORE RANKS=3 assertion: the arbiter's word is changed by a load and a store
 * mutant DECIDE_FIRST assertion: the arbiter's word is changed before the verdict is complete
 * mutant ROUND_FIRST assertion: a ballot says its round before its flag
 * mutant NO_CHECK RANKS=2 ROUNDS=3 LATE=1 assertion: who reads a verdict does not look whether it is still that round's
 * mutant NO_NEWS end: nobody is woken behind a ballot or a decision
 * mutant NO_ALARM end: nobody is woken behind a death
 * mutant LOOK_FIRST end: what a rank will sleep on is read after it has looked
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

#define SLOT(r, round) ((r) * 2 + (round) % 2)
#define SAID(r, round) said[(r) * (ROUNDS + 1) + (round)]
#define BIT(r)         (1 << (r))

#define RESIGNED       255 /* instead of a round */

#define HEARD(r)       (ballot_round[SLOT(r, round)] >= round || (known & BIT(r)))

/* With three ranks some steps are taken together that two take one by one, and waiting is not by sleeping. */
#if RANKS > 2
#define COARSE atomic
#else
#define COARSE
#endif

byte ballot_round[RANKS * 2], verdict_round[RANKS * 2];
bool ballot_flag[RANKS * 2], verdict_flag[RANKS * 2];
byte verdict_absent[RANKS * 2];
byte decided_round, decided_rank; /* one word */
bool changed[RANKS]; /* news or alarm, since the rank has read them */
bool asleep[RANKS];
bool dead[RANKS];
byte known; /* to be dead, to all */

/* What is to be proved. */
bool said[RANKS * (ROUNDS + 1)]; /* yes */
bool resigned[RANKS];
bool refused[ROUNDS + 1]; /* somebody has said no */
byte late[ROUNDS + 1]; /* who was missing when a deadline passed */
bool ended[ROUNDS + 1], outcome_flag[ROUNDS + 1];
byte outcome_absent[ROUNDS + 1];

/* Of both words that ranks sleep on. */
inline bump()
{
#if RANKS > 2
    skip
#else
    d_step {
        changed[0] = true;
        changed[1] = true;
        asleep[0] = false;
        asleep[1] = false
    }
#endif
}

inline speak()
{
#ifdef ROUND_FIRST
    ballot_round[SLOT(me, round)] = round;
    ballot_flag[SLOT(me, round)] = mine;
#else
    COARSE {
        ballot_flag[SLOT(me, round)] = mine;
        ballot_round[SLOT(me, round)] = round
    };
#endif
#ifndef NO_NEWS
    bump()
#endif
}

/* One rank in one step: what is read of it in between is not what counts. */
inline look_at(i)
{
    d_step {
        if
        :: ballot_round[SLOT(i, round)] == RESIGNED -> absent = absent | BIT(i)
        :: ballot_round[SLOT(i, round)] >= round && ballot_round[SLOT(i, round)] != RESIGNED ->
            flag = flag && ballot_flag[SLOT(i, round)];
            absent = (known & BIT(i) -> absent | BIT(i) : absent)
        :: else ->
            if
            :: known & BIT(i) -> absent = absent | BIT(i)
            :: else -> missing = missing | BIT(i)
            fi
        fi
    }
}

inline look()
{
    COARSE {
        d_step { forget(); flag = true };
        look_at(0);
        look_at(1);
#if RANKS > 2
        look_at(2)
#endif
    }
}

inline write_proposal()
{
#if !defined(LATE) && !defined(DECIDE_FIRST)
    d_step { /* nobody reads it before it is decided, and it is written once */
#endif
    verdict_round[SLOT(me, round)] = 0;
    verdict_flag[SLOT(me, round)] = flag;
    verdict_absent[SLOT(me, round)] = absent | missing;
    verdict_round[SLOT(me, round)] = round
#if !defined(LATE) && !defined(DECIDE_FIRST)
    }
#endif
}

inline decide()
{
#ifdef PLAIN_STORE
    if
    :: decided_round < round -> atomic { decided_round = round; decided_rank = me }
    :: else
    fi;
    bump()
#else
    COARSE {
        atomic {
            if
            :: decided_round < round -> decided_round = round; decided_rank = me
            :: else
            fi
        };
#ifndef NO_NEWS
        bump()
#endif
    }
#endif
}

/* What is not looked at again makes no difference between states. */
inline forget() { flag = false; absent = 0; missing = 0; who = 0 }

inline propose()
{
#ifdef DECIDE_FIRST
    decide();
    write_proposal();
#else
    write_proposal();
    decide();
#endif
    d_step { forget() }
}

/* `who` was named by the arbiter. */
inline adopt()
{
#if !defined(LATE) && !defined(DECIDE_FIRST)
    d_step { /* written once, and read when it is complete */
#endif
#ifndef NO_CHECK
    valid = verdict_round[SLOT(who, round)] == round;
#else
    valid = true;
#endif
    d_step { flag = verdict_flag[SLOT(who, round)]; absent = verdict_absent[SLOT(who, round)] };
#if !defined(NO_CHECK) && !defined(DECIDE_FIRST)
    valid = valid && verdict_round[SLOT(who, round)] == round
#else
    valid = true
#endif
#if !defined(LATE) && !defined(DECIDE_FIRST)
    }
#endif
}

inline judge()
{
    d_step {
        if
        :: ended[round] -> assert(outcome_flag[round] == flag && outcome_absent[round] == absent)
        :: else -> ended[round] = true; outcome_flag[round] = flag; outcome_absent[round] = absent
        fi;
        assert(flag || refused[round]);
        r = 0;
        do
        :: r < RANKS ->
            assert(!flag || (absent & BIT(r)) || SAID(r, round));
            assert(!(absent & BIT(r)) || dead[r] || resigned[r] || (late[round] & BIT(r)));
            r++
        :: else -> break
        od;
        r = 0
    }
}

inline resign()
{
    resigned[me] = true;
    ballot_round[SLOT(me, 0)] = RESIGNED;
    ballot_round[SLOT(me, 1)] = RESIGNED
}

proctype Rank(byte me)
{
    byte round = 0, r, who, absent, missing;
    bool mine, flag, valid, out;
#ifdef RETURNS
    bool back;
#endif
    {
        do
        :: round < ROUNDS && !out ->
            round++;
#ifdef LATE
            mine = (me + round) % 2;
#else
            if :: mine = true :: me == RANKS - 1 -> mine = false fi;
#endif
            d_step { SAID(me, round) = mine; refused[round] = refused[round] || !mine };
            speak();
            do
            :: true ->
                COARSE {
#ifndef LOOK_FIRST
                    changed[me] = (RANKS > 2);
#endif
                    atomic {
                        if
                        :: decided_round > round -> out = true
                        :: decided_round == round -> who = decided_rank; valid = true
                        :: else -> valid = false
                        fi
                    }
                };
                if
                :: out ->
#ifdef LATE
                    break
#else
                    assert(false)
#endif
                :: !out && valid ->
                    adopt();
                    if
                    :: valid -> judge(); break
                    :: else -> /* it is being written over: then there was a later decision */
                        assert(decided_round > round)
                    fi
                :: else ->
                    look();
                    if
                    :: missing == 0 -> propose()
#ifdef RETURNS
                    :: !back ->
                        back = true;
                        if :: mine = true :: mine = false fi;
                        d_step {
                            SAID(me, round) = SAID(me, round) || mine;
                            refused[round] = refused[round] || !mine;
                            forget()
                        };
                        speak()
#endif
#ifdef LATE
                    :: missing != 0 -> late[round] = late[round] | missing; propose()
#endif
#ifdef LATE
                    :: missing != 0 /* it looks again */
#else
                    :: missing != 0 ->
#ifdef LOOK_FIRST
                        changed[me] = false;
#endif
                        d_step { forget(); asleep[me] = !changed[me] };
#if RANKS > 2
                        decided_round >= round || (HEARD(0) && HEARD(1) && HEARD(2))
#else
                        !asleep[me]
#endif
#endif
                    fi
                fi
            od;
#ifdef LATE
            if
            :: out
            :: !out && absent & BIT(me) -> out = true /* TUTTI_LATE_IS_OUT */
            :: !out                           /* TUTTI_LATE_IS_ABSENT */
            fi;
            if
            :: out -> resign()
            :: else
            fi;
#endif
#ifdef RETURNS
            back = false;
#endif
            atomic { forget(); mine = false }
        :: else -> break
        od
    } unless { dead[me] }
}

proctype Death(byte r)
{
    if
    :: true /* it stays */
    :: dead[r] = true;
       known = known | BIT(r);
#ifndef NO_ALARM
       bump()
#endif
    fi
}

init {
    atomic {
        run Rank(0);
        run Rank(1);
#if RANKS > 2
        run Rank(2);
#endif
#ifndef LATE
        run Death(RANKS - 1)
#endif
    }
}
