/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement among ranks of which some are dead, dying or stopped: wait-free consensus by compare-and-swap (Herlihy,
 * "Wait-free synchronization", 1991). MPI's name for the operation is MPIX_Comm_agree (ULFM).
 *
 *   1. Each rank writes a vote into its own segment.
 *   2. It waits until every other rank has voted, is dead, or has left, or until the deadline.
 *   3. It writes what it has found into its own segment: its proposal.
 *   4. It puts its number into the decision word by compare-and-swap. One rank succeeds; its proposal is the decision.
 *
 * Ranks may find different things in step 2. That does no harm, since all take the same proposal. The algorithm needs
 * no coordinator, no rounds of flooding, and no correct suspicions: a late rank that the decision excludes reads the
 * same decision. A proposal outlives its rank, because the segment stays mapped. Cost for each rank: at most
 * one wake-up per vote, each followed by a read of all n votes: n^2 cache lines at worst.
 *
 * All ranks write the decision word, and it is no hint, unlike the rest of the doorbell. A rank that overwrites it can
 * spoil an agreement, but nothing else: each rank reads the word once, checks the number in it, and takes a proposal
 * only if it has the same round.
 *
 * Ranks sleep on `event_count`, which grows after every vote and decision, and on the alarm, which deaths and leaving
 * ranks raise. tests/models/agreement.pml checks it for few ranks, with deaths at every step.
 */
#include "engine/failure/agreement.h"

#include "engine/failure/absent.h"
#include "engine/failure/fault.h"
#include "engine/failure/peers.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"

#define ROUND_SHIFT 16 /* below it: 1 + rank */
static_assert(TTI_MAX_RANKS < 1 << ROUND_SHIFT, "a rank fits below the round");

struct participant {
    struct tti_engine *e;
    tutti_agreement *a;
    struct tti_agreement_state *own;
    uint64_t round;
    int64_t started_ns;
    int64_t until_ns;
};

/* What a rank has found so far. */
struct found {
    uint64_t flags;
    uint64_t absent[TTI_AGREEMENT_WORDS];
    uint64_t missing[TTI_AGREEMENT_WORDS]; /* as far as known alive, and awaited */
};

static struct tti_agreement_page *page_of(const struct tti_engine *e, int rank)
{
    return (struct tti_agreement_page *)(e->segments[rank] + e->layout.fault + TTI_AGREEMENT_OFFSET);
}

static struct tti_decision_word *decision_word_of(const struct tti_engine *e)
{
    return (struct tti_decision_word *)(e->doorbell + TTI_DECISION_WORD_OFFSET);
}

static void notify_all(const struct tti_engine *e)
{
    /* seq_cst: comes after the vote or the decision; pairs with the acquire in await_decision() */
    atomic_fetch_add_explicit(&decision_word_of(e)->event_count, 1, memory_order_seq_cst);
    tti_wake_own(e, &decision_word_of(e)->event_count);
}

static void cast_vote(const struct participant *s, uint64_t flags)
{
    struct tti_vote *vote = &page_of(s->e, s->e->rank)->votes[s->a->series][s->round % 2];
    /* relaxed: the release store of `round` publishes it */
    atomic_store_explicit(&vote->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&vote->round, s->round, memory_order_release); /* pairs with the acquire in read_votes() */
    notify_all(s->e);
}

static tutti_status left_out(tutti_error *error)
{
    tti_error_set(error, TUTTI_REVOKED,
                  "the other ranks have gone on without this rank, which was too late: destroy the group, and join "
                  "them as a new rank");
    if (error) {
        error->scope = TUTTI_SCOPE_GROUP;
    }
    return TUTTI_REVOKED;
}

static tutti_status exclude_self(const struct participant *s, tutti_error *error)
{
    struct tti_agreement_page *page = page_of(s->e, s->e->rank);
    s->own->excluded = true;
    for (int i = 0; i < 2; i++) {
        /* release: pairs with the acquire in read_votes() */
        atomic_store_explicit(&page->votes[s->a->series][i].round, TTI_AGREEMENT_EXCLUDED, memory_order_release);
    }
    notify_all(s->e);
    return left_out(error);
}

static void read_votes(const struct participant *s, struct found *f)
{
    const struct tti_engine *e = s->e;
    *f = (struct found){.flags = s->a->flags};
    for (int r = 0; r < e->size; r++) {
        const struct tti_vote *vote = &page_of(e, r)->votes[s->a->series][s->round % 2];
        const bool gone = r != e->rank && (tti_is_absent(e, r) || tti_peers_has(s->a->absent, r));
        /* acquire: pairs with cast_vote(). Read after `gone`: a vote cast before the end counts */
        const uint64_t round = atomic_load_explicit(&vote->round, memory_order_acquire);
        const bool voted = round >= s->round && round != TTI_AGREEMENT_EXCLUDED;
        if (voted) {
            f->flags &= atomic_load_explicit(&vote->flags, memory_order_relaxed);
        }
        if (gone || round == TTI_AGREEMENT_EXCLUDED) {
            tti_peers_add(f->absent, r);
        } else if (!voted) {
            tti_peers_add(f->missing, r);
        }
    }
}

/* Release and acquire, all words: a rank that reads a word of a newer proposal then reads that `round` has changed. */
static void write_proposal(const struct participant *s, const struct found *f)
{
    struct tti_proposal *v = &page_of(s->e, s->e->rank)->proposals[s->a->series][s->round % 2];
    atomic_store_explicit(&v->round, 0, memory_order_release);
    atomic_store_explicit(&v->flags, f->flags, memory_order_release);
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&v->token[i], s->a->token[i], memory_order_release);
    }
    for (int i = 0; i < TTI_AGREEMENT_WORDS; i++) {
        atomic_store_explicit(&v->absent[i], f->absent[i] | f->missing[i], memory_order_release);
    }
    atomic_store_explicit(&v->round, s->round, memory_order_release);
}

static void propose(const struct participant *s, const struct found *f, uint64_t decided)
{
    write_proposal(s, f);
    const uint64_t word = s->round << ROUND_SHIFT | (uint64_t)(s->e->rank + 1);
    /* acq_rel: pairs with the acquire in await_decision(); the proposal is there. If it fails, another rank has
     * decided */
    if (atomic_compare_exchange_strong_explicit(&decision_word_of(s->e)->decided[s->a->series], &decided, word,
                                                memory_order_acq_rel, memory_order_relaxed)) {
        notify_all(s->e);
    }
}

/* False: it is not of this round, or no longer. */
static bool read_proposal(const struct participant *s, int rank, struct found *f)
{
    const struct tti_proposal *v = &page_of(s->e, rank)->proposals[s->a->series][s->round % 2];
    tutti_agreement *a = s->a;
    if (atomic_load_explicit(&v->round, memory_order_acquire) != s->round) {
        return false;
    }
    f->flags = atomic_load_explicit(&v->flags, memory_order_acquire);
    for (int i = 0; i < 2; i++) {
        a->token[i] = atomic_load_explicit(&v->token[i], memory_order_acquire);
    }
    for (int i = 0; i < TTI_AGREEMENT_WORDS; i++) {
        f->absent[i] = atomic_load_explicit(&v->absent[i], memory_order_acquire);
    }
    return atomic_load_explicit(&v->round, memory_order_relaxed) == s->round;
}

/* The round is decided: takes the decision over. BUSY: the word has changed, read it again. */
static tutti_status adopt(const struct participant *s, uint64_t decided, tutti_error *error)
{
    const struct tti_engine *e = s->e;
    const uint64_t rank = (decided & ((1u << ROUND_SHIFT) - 1)) - 1;
    struct found f;
    if (rank >= (uint64_t)e->size) {
        return tti_error_set(error, TUTTI_PEER_CORRUPT,
                             "the decision word of this agreement names rank %llu, but the group has %d ranks",
                             (unsigned long long)rank, e->size);
    }
    if (!read_proposal(s, (int)rank, &f)) {
        /* relaxed: it grows with every decision, and proposals are overwritten only after that */
        if (atomic_load_explicit(&decision_word_of(e)->decided[s->a->series], memory_order_relaxed) != decided) {
            return TUTTI_BUSY;
        }
        tti_error_set(error, TUTTI_PEER_CORRUPT, "rank %d has decided this agreement, but its proposal is missing",
                      (int)rank);
        if (error) {
            error->suspect = (int32_t)rank;
        }
        return TUTTI_PEER_CORRUPT;
    }
    s->own->open = false;
    s->a->flags = f.flags;
    memcpy(s->a->absent, f.absent, ((size_t)e->size + 63) / 64 * sizeof(uint64_t));
    return s->a->late == TUTTI_LATE_IS_OUT && tti_peers_has(f.absent, e->rank) ? exclude_self(s, error) : TUTTI_OK;
}

static tutti_status give_up(const struct participant *s, const uint64_t *missing, tutti_error *error)
{
    char names[300];
    const int64_t elapsed = (tti_now_ns() - s->started_ns) / 1000000;
    tti_peers_text(s->e, -1, missing, names, sizeof(names));
    tti_error_set(error, TUTTI_TIMEOUT, "waited %lld ms; not arrived: %s", (long long)elapsed, names);
    if (error) {
        error->elapsed_ms = elapsed;
        error->suspect = tti_peers_first(missing, s->e->size);
    }
    return TUTTI_TIMEOUT;
}

static void check_missing(struct tti_engine *e, const uint64_t *missing)
{
    for (int r = 0; r < e->size; r++) {
        if (tti_peers_has(missing, r)) {
            tti_fault_check_peer(e, r); /* a death raises the alarm */
        }
    }
}

static tutti_status await_decision(const struct participant *s, tutti_error *error)
{
    struct tti_engine *e = s->e;
    struct tti_decision_word *decision_word = decision_word_of(e);
    int64_t next_check_ns = s->started_ns + TTI_LIVENESS_CHECK_NS;
    for (;;) {
        /* acquire, both: read before everything else, so a later change ends the sleep at once */
        const uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
        const uint32_t events = atomic_load_explicit(&decision_word->event_count, memory_order_acquire);
        /* acquire: pairs with propose() */
        const uint64_t decided = atomic_load_explicit(&decision_word->decided[s->a->series], memory_order_acquire);
        struct found f;
        tutti_status status;
        if (decided >> ROUND_SHIFT > s->round) {
            return exclude_self(s, error);
        }
        if (decided >> ROUND_SHIFT == s->round) {
            if ((status = adopt(s, decided, error)) != TUTTI_BUSY) {
                return status;
            }
            continue;
        }
        /* acquire: pairs with tti_engine_revoke */
        if (atomic_load_explicit(&e->aborts, memory_order_acquire) != s->a->aborts) {
            return tti_error_set(error, TUTTI_REVOKED, "another thread of this rank has aborted the group");
        }
        read_votes(s, &f);
        const bool complete = tti_peers_first(f.missing, e->size) < 0;
        const int64_t now = complete ? 0 : tti_now_ns();
        if (complete || (now >= s->until_ns && s->a->late != TUTTI_LATE_IS_ERROR)) {
            propose(s, &f, decided);
            continue;
        }
        if (now >= s->until_ns) {
            return give_up(s, f.missing, error);
        }
        if (now >= next_check_ns) {
            next_check_ns = now + TTI_LIVENESS_CHECK_NS;
            check_missing(e, f.missing);
        }
        tti_sleep(e, 0, NULL, NULL, 0, alarm, &decision_word->event_count, events, s->until_ns);
    }
}

tutti_status tti_engine_agree(struct tti_engine *e, tutti_agreement *a, tutti_error *error)
{
    struct tti_agreement_state *own = &e->agreements[a->series];
    if (own->excluded) {
        return left_out(error);
    }
    own->round += !own->open; /* after a timeout, a rank takes part in the same round again */
    own->open = true;
    const int64_t now = tti_now_ns();
    const struct participant s = {.e = e,
                                  .a = a,
                                  .own = own,
                                  .round = own->round,
                                  .started_ns = now,
                                  .until_ns = tti_deadline_ns(now, a->timeout_ms)};
    cast_vote(&s, a->flags);
    return await_decision(&s, error);
}

void tti_engine_revoke(struct tti_engine *e, tutti_operation how)
{
    if (how == TUTTI_OP_ABORT) {
        /* release: pairs with the acquire in await_decision() */
        atomic_fetch_add_explicit(&e->aborts, 1, memory_order_release);
    }
    tti_fault_revoke(e, how); /* raises the alarm, which also ends the sleep in await_decision() */
}
