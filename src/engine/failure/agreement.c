/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement among ranks of which some may have died, may be dying, or may be stopped. Each rank writes a vote into its own
 * segment, waits until every other one has written one or is gone, and writes down what it has found: its proposal, in its
 * own segment as well. Then it tries to put its number into the decision word by compare-and-swap. One succeeds, and
 * its proposal is everybody's: ranks may have seen different things, but only one of them is asked.
 *
 * A compare-and-swap decides among any number of ranks in one step, however many of them die and wherever (Herlihy,
 * "Wait-free synchronization", 1991), so there are no rounds of flooding, no coordinator that has to be replaced, and
 * no suspicion that has to be right: a rank that was left out because it was late finds the decision, too, and it is the
 * same one. The proposal of a rank that dies after its success can still be read, because its segment stays mapped. Cost: a few
 * cache lines for each rank, and one wake-up.
 *
 * The price is one word that all write and that is no hint (DESIGN keeps the doorbell for hints): whoever scribbles over it
 * can spoil an agreement, as it could by changing its vote while others read it, but nothing else: the word is read once and
 * its rank checked, and a proposal is taken only if it says the round itself.
 *
 * Sleeping: on `event_count`, which is bumped behind every vote and decision, and on the alarm, which deaths ring, and ranks that leave.
 * tests/models/agreement.pml has the proof, with deaths at every step.
 */
#include "engine/failure/agreement.h"

#include <stdio.h>

#include "engine/failure/liveness_monitor.h"
#include "engine/failure/peers.h"
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

/* What has been found so far. */
struct found {
    uint64_t flags;
    uint64_t absent[TTI_AGREEMENT_WORDS];
    uint64_t missing[TTI_AGREEMENT_WORDS]; /* alive, as far as is known, and awaited */
};

static struct tti_agreement_page *page_of(const struct tti_engine *e, int rank)
{
    return (struct tti_agreement_page *)(e->segments[rank] + e->layout.fault + TTI_AGREEMENT_OFFSET);
}

static struct tti_decision_word *decision_word_of(const struct tti_engine *e)
{
    return (struct tti_decision_word *)(e->doorbell + TTI_DECISION_WORD_OFFSET);
}

static void put(uint64_t *ranks, int rank)
{
    ranks[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static bool has(const uint64_t *ranks, int rank)
{
    return (ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

/* Whoever will not come any more, as far as is known here. */
static bool is_gone(const struct tti_engine *e, int rank)
{
    return tti_known_dead(e, rank) || tti_has_left(e, rank) ||
           (e->futex_private == 0 && tti_liveness_died(tti_header(e, rank)));
}

static void announce(const struct tti_engine *e)
{
    /* seq_cst: comes after the vote or the decision; pairs with the acquire before a sitting looks at these */
    atomic_fetch_add_explicit(&decision_word_of(e)->event_count, 1, memory_order_seq_cst);
    tti_wake_own(e, &decision_word_of(e)->event_count);
}

static void cast_vote(const struct participant *s, uint64_t flags)
{
    struct tti_vote *b = &page_of(s->e, s->e->rank)->votes[s->a->series][s->round % 2];
    /* relaxed: who reads it now reads it for a round that is over, or sees the round below first */
    atomic_store_explicit(&b->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&b->round, s->round, memory_order_release); /* pairs with the acquire in read_votes() */
    announce(s->e);
}

static tutti_status left_out(tutti_error *error)
{
    tti_error_set(error, TUTTI_REVOKED,
                  "the other ranks have gone on without this one, which came too late: destroy the "
                  "group, and join them as a new rank");
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
        atomic_store_explicit(&page->votes[s->a->series][i].round, TTI_AGREEMENT_EXCLUDED, memory_order_release);
    }
    announce(s->e);
    return left_out(error);
}

static void read_votes(const struct participant *s, struct found *f)
{
    const struct tti_engine *e = s->e;
    *f = (struct found){.flags = s->a->flags};
    for (int r = 0; r < e->size; r++) {
        const struct tti_vote *b = &page_of(e, r)->votes[s->a->series][s->round % 2];
        const bool gone = r != e->rank && (is_gone(e, r) || has(s->a->absent, r));
        /* acquire: pairs with cast_vote(). After the look whether it has gone: what it said before counts */
        const uint64_t round = atomic_load_explicit(&b->round, memory_order_acquire);
        const bool spoke = round >= s->round && round != TTI_AGREEMENT_EXCLUDED;
        if (spoke) {
            f->flags &= atomic_load_explicit(&b->flags, memory_order_relaxed);
        }
        if (gone || round == TTI_AGREEMENT_EXCLUDED) {
            put(f->absent, r);
        } else if (!spoke) {
            put(f->missing, r);
        }
    }
}

/* Release and acquire, all of it: who reads a word of a newer proposal reads, behind it, that `round` has changed. */
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
    /* acq_rel: pairs with the acquire in await_decision(); the proposal is there. If another one was quicker, its proposal counts */
    if (atomic_compare_exchange_strong_explicit(&decision_word_of(s->e)->decided[s->a->series], &decided, word,
                                                memory_order_acq_rel, memory_order_relaxed)) {
        announce(s->e);
    }
}

/* False: it is not that round's any more, or never was. */
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

/* The round has been decided. BUSY: look again. */
static tutti_status adopt(const struct participant *s, uint64_t decided, tutti_error *error)
{
    const struct tti_engine *e = s->e;
    const uint64_t rank = (decided & ((1u << ROUND_SHIFT) - 1)) - 1;
    struct found f;
    if (rank >= (uint64_t)e->size) {
        return tti_error_set(error, TUTTI_PEER_CORRUPT, "the word that decides between the ranks names rank %llu of %d",
                             (unsigned long long)rank, e->size);
    }
    if (!read_proposal(s, (int)rank, &f)) {
        /* relaxed: it grows with every decision, and only then proposals are written over */
        if (atomic_load_explicit(&decision_word_of(e)->decided[s->a->series], memory_order_relaxed) != decided) {
            return TUTTI_BUSY;
        }
        tti_error_set(error, TUTTI_PEER_CORRUPT, "rank %d was to say what has been agreed on, but says nothing",
                      (int)rank);
        if (error) {
            error->suspect = (int32_t)rank;
        }
        return TUTTI_PEER_CORRUPT;
    }
    s->own->open = false;
    s->a->flags = f.flags;
    memcpy(s->a->absent, f.absent, ((size_t)e->size + 63) / 64 * sizeof(uint64_t));
    return s->a->late == TUTTI_LATE_IS_OUT && has(f.absent, e->rank) ? exclude_self(s, error) : TUTTI_OK;
}

static tutti_status give_up(const struct participant *s, const uint64_t *missing, tutti_error *error)
{
    char names[300];
    const int64_t elapsed = (tti_now_ns() - s->started_ns) / 1000000;
    tti_peers_text(s->e, -1, missing, names, sizeof(names));
    tti_error_set(error, TUTTI_TIMEOUT, "waited %lld ms; not come: %s", (long long)elapsed, names);
    if (error) {
        error->elapsed_ms = elapsed;
        error->suspect = tti_peers_first(missing, s->e->size);
    }
    return TUTTI_TIMEOUT;
}

static void check_missing(struct tti_engine *e, const uint64_t *missing)
{
    for (int r = 0; r < e->size; r++) {
        if (has(missing, r)) {
            tti_fault_check_peer(e, r); /* a death rings the alarm */
        }
    }
}

static tutti_status await_decision(const struct participant *s, tutti_error *error)
{
    struct tti_engine *e = s->e;
    struct tti_decision_word *decision_word = decision_word_of(e);
    int64_t next_check_ns = s->started_ns + TTI_LIVENESS_CHECK_NS;
    for (;;) {
        /* acquire, both: before anything is looked at; what changes later ends the sleep at once */
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
    own->round += !own->open; /* who had given up takes part in the same round again */
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

static bool is_lost(struct tti_engine *e, int rank)
{
    /* relaxed: without a liveness monitor of its own, a process has to be looked for */
    if (e->futex_private == 0 && atomic_load_explicit(&tti_header(e, rank)->life, memory_order_relaxed) == 0) {
        tti_fault_check_peer(e, rank);
    }
    return rank != e->rank && is_gone(e, rank);
}

void tti_engine_lost(struct tti_engine *e, uint64_t *ranks)
{
    memset(ranks, 0, ((size_t)e->size + 63) / 64 * sizeof(*ranks));
    for (int r = 0; r < e->size; r++) {
        if (is_lost(e, r)) {
            put(ranks, r);
        }
    }
}

tutti_status tti_engine_peer_status(struct tti_engine *e, int rank, tutti_error *error)
{
    if (!is_lost(e, rank)) {
        return tti_error_clear(error);
    }
    char text[160];
    tutti_status status = TUTTI_PEER_LEFT;
    if (!tti_has_left(e, rank)) {
        const struct tti_proc_id id = tti_peer_id(e, rank);
        const struct tti_proc look = tti_proc_query(&id);
        status = tti_proc_describe_end(rank, &id, &look, text, sizeof(text));
    } else if (e->futex_private == 0) {
        const struct tti_proc_id id = tti_peer_id(e, rank);
        char process[TTI_PROC_TEXT];
        tti_proc_text(&id, process, sizeof(process));
        snprintf(text, sizeof(text), "rank %d (%s) has destroyed its group or ended", rank, process);
    } else {
        snprintf(text, sizeof(text), "rank %d has destroyed its group, or its thread has ended", rank);
    }
    tti_error_set(error, status, "%s", text);
    error->suspect = rank;
    return status;
}

void tti_engine_revoke(struct tti_engine *e, tutti_operation how)
{
    if (how == TUTTI_OP_ABORT) {
        /* release: pairs with the acquire in await_decision() */
        atomic_fetch_add_explicit(&e->aborts, 1, memory_order_release);
    }
    tti_fault_revoke(e, how); /* rings the alarm, which ends the sleep of a sitting, too */
}
