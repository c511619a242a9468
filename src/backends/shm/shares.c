/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank gives shares of its own segment to groups, and alone decides where they lie. It publishes each share in its
 * directory, a hash table in its segment, where the other members find it. First a group has one of HOME places for its
 * list of ranks, by its serial: a program that makes groups of the same ranks again and again finds these lines in its
 * caches. If that is taken, it has places by linear probing. The header says how many places have been needed at most
 * since the root was made, so a rank that waits polls no more of them.
 *
 * A share may serve the next group when no rank accesses it any more: each member of the last group has released its
 * own share, or its process has ended. That stands in the members' directories; a generation in each entry shows that
 * an entry serves another group already. So nothing is sent when a group is closed (epoch-based reclamation). A rank
 * looks when it needs the next share of that kind.
 *
 * tests/models/share_directory.pml checks offers, looks and reuse.
 *
 * Cost of a share that is used again: a few hundred nanoseconds. A new one: some page faults and 2 system calls.
 */
#include "backends/shm/shares.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/failure/peer_death.h"
#include "engine/memory/reset.h"

#define HOME   8u
#define PLACES 17u /* where the entry of a group may be: one of its home, and some by linear probing */
#define LOOKS  4   /* at shares that are not free yet */

/* Shares of one layout. */
struct tti_share_kind {
    struct tti_share_kind *next;
    struct tti_layout layout;
    struct tti_share *free;
    struct tti_share *released; /* the longest released one first */
    struct tti_share **last;
};

static struct tti_directory_entry *own_entry(const struct tti_root *root, uint32_t index)
{
    return &tti_root_directory(root, root->rank)[index];
}

static uint32_t place_of(const struct tti_share_group *group, uint32_t number)
{
    const uint32_t at = number == 0
                            ? (uint32_t)tti_hash_fold(group->group) * HOME + (uint32_t)group->serial % HOME
                            : (uint32_t)tti_hash_fold(tti_hash_number(group->group, (uint32_t)group->serial)) + number;
    return at % TTI_DIRECTORY_ENTRIES;
}

static void set_state(struct tti_root *root, const struct tti_share *share, unsigned state)
{
    /* release: pairs with the acquire in tti_share_find and in is_over */
    atomic_store_explicit(&own_entry(root, share->entry)->state, share->taken << 2 | state, memory_order_release);
}

static void free_all(struct tti_share *share)
{
    while (share) {
        struct tti_share *next = share->next;
        tti_share_abandon(share);
        share = next;
    }
}

static void free_kinds(struct tti_root *root)
{
    while (root->kinds) {
        struct tti_share_kind *next = root->kinds->next;
        free_all(root->kinds->free);
        free_all(root->kinds->released);
        free(root->kinds);
        root->kinds = next;
    }
}

/* ---- where shares lie -------------------------------------------------------------------------------------------- */

static struct tti_share_kind *kind_of(struct tti_root *root, const struct tti_layout *layout)
{
    struct tti_share_kind *kind = root->kinds;
    while (kind && (kind->layout.size != layout->size || kind->layout.lanes != layout->lanes ||
                    kind->layout.stage != layout->stage || kind->layout.stage_far != layout->stage_far ||
                    kind->layout.stage_small != layout->stage_small)) {
        kind = kind->next;
    }
    if (!kind && (kind = calloc(1, sizeof(*kind)))) {
        kind->layout = *layout;
        kind->last = &kind->released;
        kind->next = root->kinds;
        root->kinds = kind;
        root->free_kinds = free_kinds;
    }
    return kind;
}

/* The next place in a block that has room. */
static bool place_share(struct tti_root *root, struct tti_share *share)
{
    const size_t bytes = share->kind->layout.segment_bytes;
    for (unsigned block = 0; block < TTI_ROOT_BLOCKS; block++) {
        const uint64_t begin = tti_root_block_offset(block);
        const uint64_t end = tti_root_block_offset(block + 1);
        share->offset = root->next_offset > begin ? root->next_offset : begin;
        if (share->offset < end && bytes <= end - share->offset) {
            share->base = tti_root_address(root, root->rank, share->offset, bytes);
            if (share->base) {
                root->next_offset = share->offset + bytes;
                atomic_store_explicit(&tti_root_header(root, root->rank)->blocks, block + 1, memory_order_relaxed);
            }
            return share->base != NULL;
        }
    }
    return false;
}

/* New memory, as zeros; what a shortage leaves behind is used by the next share. */
static struct tti_share *share_create(struct tti_root *root, struct tti_share_kind *kind)
{
    struct tti_share *share = calloc(1, sizeof(*share));
    const uint64_t before = root->next_offset;
    if (share) {
        share->kind = kind;
        share->peers = calloc((size_t)kind->layout.size, sizeof(*share->peers));
    }
    if (!share || !share->peers || !place_share(root, share) ||
        tti_memory_commit(root->segments[root->rank].fd, tti_root_segment_bytes(&root->layout) + share->offset,
                          kind->layout.stages, share->base) != TUTTI_OK) {
        root->next_offset = before;
        if (share) {
            free(share->peers);
        }
        free(share);
        return NULL;
    }
    return share;
}

const struct tti_layout *tti_share_layout(const struct tti_share *share)
{
    return &share->kind->layout;
}

size_t tti_share_bytes(const struct tti_share *share)
{
    return share->kind->layout.segment_bytes;
}

size_t tti_share_doorbell_bytes(const struct tti_share *share)
{
    return ((size_t)share->kind->layout.size * (size_t)(share->kind->layout.lanes + 1) + 1) * TTI_LINE;
}

/* The doorbell of groups in which this rank is rank 0. */
static bool get_doorbell(struct tti_root *root, struct tti_share *share)
{
    const size_t bytes = tti_share_doorbell_bytes(share);
    if (share->doorbell == 0) {
        const uint64_t at = tti_root_rooms(root) + (size_t)root->rank * root->doorbell_room + root->next_doorbell;
        if (bytes > root->doorbell_room - root->next_doorbell ||
            tti_memory_populate(root->doorbell.base + at, bytes) != TUTTI_OK) {
            return false;
        }
        share->doorbell = at;
        root->next_doorbell += bytes;
    }
    memset(root->doorbell.base + share->doorbell, 0, bytes);
    return true;
}

/* ---- using shares again ------------------------------------------------------------------------------------------ */

static bool is_over(const struct tti_root *root, const struct tti_peer_share *peer)
{
    /* acquire: pairs with set_state; the peer accesses this rank's share no more */
    const uint64_t state =
        atomic_load_explicit(&tti_root_directory(root, peer->rank)[peer->entry].state, memory_order_acquire);
    return state != (peer->taken << 2 | TTI_SHARE_OFFERED) || tti_segment_is_marked(tti_root_header(root, peer->rank));
}

static bool is_unused(const struct tti_root *root, const struct tti_share *share)
{
    bool over = true;
    for (int r = 0; r < share->kind->layout.size && over; r++) {
        over = r == share->rank || is_over(root, &share->peers[r]);
    }
    return over;
}

static void reuse(struct tti_root *root, struct tti_share *share)
{
    set_state(root, share, TTI_SHARE_FREE);
    own_entry(root, share->entry)->in_use = 0;
    tti_segment_reset(share->base, &share->kind->layout, share->rank);
    share->next = share->kind->free;
    share->kind->free = share;
}

static void append_released(struct tti_share *share)
{
    share->next = NULL;
    *share->kind->last = share;
    share->kind->last = &share->next;
}

static void collect(struct tti_root *root, struct tti_share_kind *kind)
{
    for (int i = 0; i < LOOKS && kind->released && !kind->free; i++) {
        struct tti_share *share = kind->released;
        kind->released = share->next;
        kind->last = kind->released ? kind->last : &kind->released;
        if (is_unused(root, share)) {
            reuse(root, share);
        } else {
            append_released(share);
        }
    }
}

/* ---- the own directory ------------------------------------------------------------------------------------------ */

static bool take_entry(struct tti_root *root, struct tti_share *share, const struct tti_share_group *group)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        const uint32_t index = place_of(group, i);
        _Atomic uint32_t *places = &tti_root_header(root, root->rank)->places;
        struct tti_directory_entry *e = own_entry(root, index);
        if (e->in_use == 0) {
            e->in_use = 1;
            /* relaxed, all: only this process writes them; the state of an offer comes after `places` */
            const uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);
            if (i >= atomic_load_explicit(places, memory_order_relaxed)) {
                atomic_store_explicit(places, i + 1, memory_order_relaxed);
            }
            share->entry = index;
            share->taken = (state >> 2) + 1;
            return true;
        }
    }
    return false;
}

struct tti_share *tti_share_take(struct tti_root *root, const struct tti_layout *layout,
                                 const struct tti_share_group *group)
{
    pthread_mutex_lock(&root->lock);
    struct tti_share_kind *kind = kind_of(root, layout);
    struct tti_share *share = NULL;
    if (kind) {
        collect(root, kind);
        share = kind->free ? kind->free : share_create(root, kind);
        if (share == kind->free && share) {
            kind->free = share->next;
        }
    }
    if (share && ((group->rank == 0 && !get_doorbell(root, share)) || !take_entry(root, share, group))) {
        share->next = kind->free;
        kind->free = share;
        share = NULL;
    }
    if (share) {
        share->rank = group->rank; /* the entry stays FREE for the others: it still has the fields of another group */
    }
    pthread_mutex_unlock(&root->lock);
    return share;
}

void tti_share_offer(struct tti_root *root, const struct tti_share *share, const struct tti_share_group *group)
{
    struct tti_directory_entry *e = own_entry(root, share->entry);
    atomic_thread_fence(memory_order_release); /* pairs with the fence in tti_share_find, whose last load finds FREE */
    /* relaxed, all: the state comes after them */
    atomic_store_explicit(&e->group, group->group, memory_order_relaxed);
    atomic_store_explicit(&e->serial, group->serial, memory_order_relaxed);
    atomic_store_explicit(&e->offset, share->offset, memory_order_relaxed);
    atomic_store_explicit(&e->doorbell, group->rank == 0 ? share->doorbell : 0, memory_order_relaxed);
    atomic_store_explicit(&e->place, (uint64_t)group->size << 32 | (uint32_t)group->rank, memory_order_relaxed);
    set_state(root, share, TTI_SHARE_OFFERED);
}

bool tti_share_find(const struct tti_root *root, int rank, const struct tti_share_group *group, int place,
                    struct tti_share_offer *offer)
{
    struct tti_directory_entry *directory = tti_root_directory(root, rank);
    /* relaxed: an old number is as if the rank came a moment later */
    const uint32_t places = atomic_load_explicit(&tti_root_header(root, rank)->places, memory_order_relaxed);
    for (uint32_t i = 0; i < places && i < PLACES; i++) {
        const uint32_t index = place_of(group, i);
        struct tti_directory_entry *e = &directory[index];
        /* acquire: pairs with set_state */
        const uint64_t state = atomic_load_explicit(&e->state, memory_order_acquire);
        if ((state & 3) == TTI_SHARE_FREE || atomic_load_explicit(&e->group, memory_order_relaxed) != group->group ||
            atomic_load_explicit(&e->serial, memory_order_relaxed) != group->serial ||
            atomic_load_explicit(&e->place, memory_order_relaxed) != ((uint64_t)group->size << 32 | (uint32_t)place)) {
            continue;
        }
        *offer = (struct tti_share_offer){.state = (unsigned)(state & 3),
                                          .entry = index,
                                          .taken = state >> 2,
                                          .offset = atomic_load_explicit(&e->offset, memory_order_relaxed),
                                          .doorbell = atomic_load_explicit(&e->doorbell, memory_order_relaxed)};
        atomic_thread_fence(memory_order_acquire); /* the loads above come before the next one */
        /* Between two groups the entry is FREE: a state that has changed may be another group's. */
        return atomic_load_explicit(&e->state, memory_order_relaxed) == state;
    }
    return false;
}

void tti_share_pair(struct tti_share *share, int place, int rank, const struct tti_share_offer *offer)
{
    share->peers[place] = (struct tti_peer_share){.rank = rank, .entry = offer->entry, .taken = offer->taken};
}

void tti_share_release(struct tti_root *root, struct tti_share *share)
{
    pthread_mutex_lock(&root->lock);
    set_state(root, share, TTI_SHARE_RELEASED);
    append_released(share);
    pthread_mutex_unlock(&root->lock);
}

void tti_share_withdraw(struct tti_root *root, const struct tti_share *share)
{
    set_state(root, share, TTI_SHARE_WITHDRAWN);
}

void tti_share_abandon(struct tti_share *share)
{
    free(share->peers);
    free(share);
}

void tti_share_return(struct tti_root *root, struct tti_share *share)
{
    pthread_mutex_lock(&root->lock);
    reuse(root, share);
    pthread_mutex_unlock(&root->lock);
}
