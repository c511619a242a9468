/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreements: src/engine/failure/agreement.c, which agree and shrink use.
 *
 * Modelled: RANKS ranks that run ROUNDS agreements. One of them may die, at any step of any rank. A rank writes its
 * vote, reads all votes and the known deaths, sleeps if a vote is missing, writes its proposal word by word, and tries
 * to put its number into the decision word. Then it reads the proposal of the rank that the decision word names. A
 * death becomes known, and raises the alarm, some time after it has happened. With LATE no rank dies, but deadlines
 * pass at any time: a rank then excludes the ranks whose votes are missing, and an excluded rank votes no more. With
 * RETURNS a rank may give up once in a round (a deadline, an abort) and call again, perhaps with another flag.
 *
 * Abstracted: the flags are one bit. A death becomes known to all ranks at once (liveness_monitor.pml proves how). The
 * bound of sleeps is left out, so what it makes up for is a deadlock instead of a delay. The two words that ranks sleep
 * on are one. Among three ranks there is no sleep at all, and some steps are one. Memory is sequentially consistent:
 * votes and proposals are written with release order and read with acquire order, word by word.
 *
 * Proved: all ranks that end a round have the same decision, whichever rank died where. Its flag is true if no rank has
 * voted no, and only if every rank that is not absent has voted yes (a rank that called twice has voted both). Only
 * ranks that are dead, late or excluded are absent. Only late ranks are excluded. Without LATE every rank that stays
 * alive ends (no invalid end state).
 *
 * ends: no run loops for ever
 * config RANKS=2
 * config RANKS=3
 * config RANKS=2 ROUNDS=3 LATE=1
 * config RANKS=2 RETURNS=1
 * mutant PLAIN_STORE RANKS=3 assertion: a load and a store change the decision word
 * mutant DECIDE_FIRST assertion: the decision word is changed before the proposal is complete
 * mutant ROUND_FIRST assertion: a vote has its round before its flag
 * mutant NO_CHECK RANKS=2 ROUNDS=3 LATE=1 assertion: a rank reads a proposal without checking its round again
 * mutant NO_EVENT end: no rank is woken after a vote or a decision
 * mutant NO_ALARM end: no rank is woken after a death
 * mutant READ_FIRST end: a rank reads the words that it sleeps on after it has read the votes
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

#define SLOT(r, round) ((r) * 2 + (round) % 2)
#define VOTED_YES(r, round) voted_yes[(r) * (ROUNDS + 1) + (round)]
#define BIT(r)         (1 << (r))

#define EXCLUDED       255 /* instead of a round */

#define VOTED_OR_DEAD(r)       (vote_round[SLOT(r, round)] >= round || (known & BIT(r)))

/* With three ranks some steps are one that are several with two, and ranks wait without sleeping. */
#if RANKS > 2
#define COARSE atomic
#else
#define COARSE
#endif

byte vote_round[RANKS * 2], proposal_round[RANKS * 2];
bool vote_flag[RANKS * 2], proposal_flag[RANKS * 2];
byte proposal_absent[RANKS * 2];
byte decided_round, decided_rank; /* one word */
bool changed[RANKS]; /* event counter or alarm, since the rank has read them */
bool asleep[RANKS];
bool dead[RANKS];
byte known; /* dead ranks that all know */

/* For the proof. */
bool voted_yes[RANKS * (ROUNDS + 1)]; /* yes */
bool excluded[RANKS];
bool refused[ROUNDS + 1]; /* a rank has voted no */
byte late[ROUNDS + 1]; /* ranks that were missing when a deadline passed */
bool ended[ROUNDS + 1], outcome_flag[ROUNDS + 1];
byte outcome_absent[ROUNDS + 1];

/* Changes both words that ranks sleep on. */
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

inline vote()
{
#ifdef ROUND_FIRST
    vote_round[SLOT(me, round)] = round;
    vote_flag[SLOT(me, round)] = mine;
#else
    COARSE {
        vote_flag[SLOT(me, round)] = mine;
        vote_round[SLOT(me, round)] = round
    };
#endif
#ifndef NO_EVENT
    bump()
#endif
}

/* Reads one rank in one step: values read in between do not matter. */
inline read_vote(i)
{
    d_step {
        if
        :: vote_round[SLOT(i, round)] == EXCLUDED -> absent = absent | BIT(i)
        :: vote_round[SLOT(i, round)] >= round && vote_round[SLOT(i, round)] != EXCLUDED ->
            flag = flag && vote_flag[SLOT(i, round)];
            absent = (known & BIT(i) -> absent | BIT(i) : absent)
        :: else ->
            if
            :: known & BIT(i) -> absent = absent | BIT(i)
            :: else -> missing = missing | BIT(i)
            fi
        fi
    }
}

inline read_votes()
{
    COARSE {
        d_step { forget(); flag = true };
        read_vote(0);
        read_vote(1);
#if RANKS > 2
        read_vote(2)
#endif
    }
}

inline write_proposal()
{
#if !defined(LATE) && !defined(DECIDE_FIRST)
    d_step { /* no rank reads it before the decision, and it is written once */
#endif
    proposal_round[SLOT(me, round)] = 0;
    proposal_flag[SLOT(me, round)] = flag;
    proposal_absent[SLOT(me, round)] = absent | missing;
    proposal_round[SLOT(me, round)] = round
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
#ifndef NO_EVENT
        bump()
#endif
    }
#endif
}

/* Resets what is not read again, so that it makes no difference between states. */
inline forget() { flag = false; absent = 0; missing = 0; proposer = 0 }

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

/* The decision word names `proposer`. */
inline adopt()
{
#if !defined(LATE) && !defined(DECIDE_FIRST)
    d_step { /* written once, and complete when it is read */
#endif
#ifndef NO_CHECK
    valid = proposal_round[SLOT(proposer, round)] == round;
#else
    valid = true;
#endif
    d_step { flag = proposal_flag[SLOT(proposer, round)]; absent = proposal_absent[SLOT(proposer, round)] };
#if !defined(NO_CHECK) && !defined(DECIDE_FIRST)
    valid = valid && proposal_round[SLOT(proposer, round)] == round
#else
    valid = true
#endif
#if !defined(LATE) && !defined(DECIDE_FIRST)
    }
#endif
}

inline check_outcome()
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
            assert(!flag || (absent & BIT(r)) || VOTED_YES(r, round));
            assert(!(absent & BIT(r)) || dead[r] || excluded[r] || (late[round] & BIT(r)));
            r++
        :: else -> break
        od;
        r = 0
    }
}

inline exclude_self()
{
    excluded[me] = true;
    vote_round[SLOT(me, 0)] = EXCLUDED;
    vote_round[SLOT(me, 1)] = EXCLUDED
}

proctype Rank(byte me)
{
    byte round = 0, r, proposer, absent, missing;
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
            d_step { VOTED_YES(me, round) = mine; refused[round] = refused[round] || !mine };
            vote();
            do
            :: true ->
                COARSE {
#ifndef READ_FIRST
                    changed[me] = (RANKS > 2);
#endif
                    atomic {
                        if
                        :: decided_round > round -> out = true
                        :: decided_round == round -> proposer = decided_rank; valid = true
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
                    :: valid -> check_outcome(); break
                    :: else -> /* it is overwritten: then there was a later decision */
                        assert(decided_round > round)
                    fi
                :: else ->
                    read_votes();
                    if
                    :: missing == 0 -> propose()
#ifdef RETURNS
                    :: !back ->
                        back = true;
                        if :: mine = true :: mine = false fi;
                        d_step {
                            VOTED_YES(me, round) = VOTED_YES(me, round) || mine;
                            refused[round] = refused[round] || !mine;
                            forget()
                        };
                        vote()
#endif
#ifdef LATE
                    :: missing != 0 -> late[round] = late[round] | missing; propose()
#endif
#ifdef LATE
                    :: missing != 0 /* it reads again */
#else
                    :: missing != 0 ->
#ifdef READ_FIRST
                        changed[me] = false;
#endif
                        d_step { forget(); asleep[me] = !changed[me] };
#if RANKS > 2
                        decided_round >= round || (VOTED_OR_DEAD(0) && VOTED_OR_DEAD(1) && VOTED_OR_DEAD(2))
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
            :: out -> exclude_self()
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
