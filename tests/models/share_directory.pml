/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory of shares: src/backends/shm/shares.c, and subgroup.c that uses it.
 *
 * Modelled: two ranks that form GROUPS groups one after the other. Each has SHARES shares and as many entries, which
 * serve one group after the other. The entry of a group is the first one of its places that is not in use. A rank
 * offers its share, looks for the peer's, uses it, and releases its own. Unless PATIENT, it may give up after any look
 * that finds nothing. Then both agree by the store: if neither has the group, their shares are used again; otherwise
 * the rank that gave up uses its share no more, and ends. Once, rank 0 also serves a group in which rank 1 is not, with
 * the share and the entry that the next group has.
 *
 * Abstracted: a share's memory is the number of the group that it serves; 0 = cleared. Memory is sequentially
 * consistent: shares.c has release and acquire where the order of its stores and loads matters. A rank without a share
 * waits for one instead of making one. A group has two members, ranks make one after the other, and none dies.
 *
 * Proved: a rank finds the share that serves the very group it forms, and as long as it uses that, its owner gives it to
 * no other group and does not clear it. A share can be used again in the end: no rank waits for ever (no invalid end
 * state).
 *
 * config SHARES=1
 * config SHARES=2
 * config SHARES=1 PATIENT
 * config SHARES=2 PATIENT
 * mutant NO_SECOND_LOOK assertion: the state is not read again after the fields
 * mutant NUMBER_ONLY assertion: of the state only the number of uses is compared
 * mutant KIND_ONLY assertion: of the state only the kind is compared
 * mutant TAKEN_AT_ONCE SHARES=2 assertion: an entry is visible from its taking on, with the fields of its last group
 * mutant NO_NUMBER PATIENT end: a share counts as used as long as the peer's entry is offered, to whichever group
 * mutant REUSE_AT_ONCE assertion: a released share serves the next group without a look at the peer's entry
 * mutant RETURN_ALWAYS assertion: a share that was withdrawn is used again though the peer has the group
 */
#ifndef SHARES
#define SHARES 1
#endif
#define GROUPS  3
#define ENTRIES SHARES
#define OTHER   99 /* the group in which the other rank is not */

#define FREE      0
#define OFFERED   1
#define RELEASED  2
#define WITHDRAWN 3
#define STATE(taken, kind) ((taken) * 4 + (kind))
#define KIND(state)  ((state) % 4)
#define TAKEN(state) ((state) / 4)

byte state[2 * ENTRIES], serial[2 * ENTRIES], offset[2 * ENTRIES]; /* the entries: what both see */
byte serves[2 * SHARES];                                           /* the memory of the shares */
byte formed[2], gave_up[2];                                        /* in the store: the last group */
bool ended[2];

#define OWN_ENTRY(i)  (me * ENTRIES + (i))
#define PEER_ENTRY(i) ((1 - me) * ENTRIES + (i))
#define OWN_SHARE(i)  (me * SHARES + (i))
#define PEER_SHARE(i) ((1 - me) * SHARES + (i))

#ifdef REUSE_AT_ONCE
#define IS_OVER(i) true
#else
#ifdef NO_NUMBER
#define IS_OVER(i) (KIND(state[peer_entry[i]]) != OFFERED)
#else
#define IS_OVER(i) (state[peer_entry[i]] != STATE(peer_taken[i], OFFERED))
#endif
#endif

#define OFFERS(place) (KIND(state[PEER_ENTRY(place)]) != FREE && serial[PEER_ENTRY(place)] == group)

inline reuse(i)
{
    state[OWN_ENTRY(entry[i])] = STATE(taken[i], FREE);
    in_use[entry[i]] = false;
    serves[OWN_SHARE(i)] = 0;
    released[i] = false;
    busy[i] = false
}

/* A share that serves no group, or of which all accesses are over. */
inline take_share()
{
    if
    :: !busy[0] -> share = 0
    :: busy[0] && released[0] && IS_OVER(0) -> share = 0; reuse(0)
#if SHARES == 2
    :: !busy[1] -> share = 1
    :: busy[1] && released[1] && IS_OVER(1) -> share = 1; reuse(1)
#endif
    fi;
    busy[share] = true
}

inline take_entry()
{
    if
    :: !in_use[group % ENTRIES] -> entry[share] = group % ENTRIES
    :: else -> entry[share] = (group + 1) % ENTRIES; assert(!in_use[entry[share]])
    fi;
    in_use[entry[share]] = true;
    taken[share] = TAKEN(state[OWN_ENTRY(entry[share])]) + 1;
#ifdef TAKEN_AT_ONCE
    state[OWN_ENTRY(entry[share])] = STATE(taken[share], OFFERED)
#endif
}

inline offer(number)
{
    serves[OWN_SHARE(share)] = number;
    serial[OWN_ENTRY(entry[share])] = number;
    offset[OWN_ENTRY(entry[share])] = share;
    state[OWN_ENTRY(entry[share])] = STATE(taken[share], OFFERED)
}

/* One look at one place. */
inline find(place)
{
    seen = state[PEER_ENTRY(place)];
    found = KIND(seen) != FREE && serial[PEER_ENTRY(place)] == group;
    if
    :: found ->
        at = offset[PEER_ENTRY(place)];
#ifdef NUMBER_ONLY
        found = TAKEN(state[PEER_ENTRY(place)]) == TAKEN(seen)
#else
#ifdef KIND_ONLY
        found = KIND(state[PEER_ENTRY(place)]) == KIND(seen)
#else
#ifndef NO_SECOND_LOOK
        found = state[PEER_ENTRY(place)] == seen
#endif
#endif
#endif
    :: else
    fi
}

inline use()
{
    assert(serves[PEER_SHARE(at)] == group);
    assert(serves[PEER_SHARE(at)] == group)
}

proctype Rank(byte me)
{
    byte group = 1;
    byte share, at, seen, place;
    bool found, has, served_other;
    /* of the own entries and shares */
    bool in_use[ENTRIES], busy[SHARES], released[SHARES];
    byte entry[SHARES], taken[SHARES], peer_entry[SHARES], peer_taken[SHARES];
    do
    :: group > GROUPS -> break
    :: else ->
        if
        :: me == 0 && !served_other ->
            served_other = true;
            take_share();
            take_entry();
            offer(OTHER);
            reuse(share)
        :: true
        fi;
        take_share();
        take_entry();
        offer(group);
        has = false;
        place = group % ENTRIES;
        do
        :: find(place);
            if
            :: found -> has = KIND(seen) != WITHDRAWN; break
            :: else ->
                place = (place + 1) % ENTRIES;
                if
                :: OFFERS(0) || OFFERS(ENTRIES - 1) /* looking earlier finds nothing */
#ifndef PATIENT
                :: break
#endif
                fi
            fi
        od;
        if
        :: has ->
            formed[me] = group;
            peer_entry[share] = PEER_ENTRY(place);
            peer_taken[share] = TAKEN(seen);
            use();
            state[OWN_ENTRY(entry[share])] = STATE(taken[share], RELEASED);
            released[share] = true
        :: else ->
            state[OWN_ENTRY(entry[share])] = STATE(taken[share], WITHDRAWN);
            gave_up[me] = group;
            formed[1 - me] >= group || gave_up[1 - me] >= group || ended[1 - me];
#ifdef RETURN_ALWAYS
            reuse(share)
#else
            if
            :: gave_up[1 - me] == group -> reuse(share)
            :: else -> break
            fi
#endif
        fi;
        group++
    od;
    ended[me] = true
}

init {
    atomic { run Rank(0); run Rank(1) }
}
