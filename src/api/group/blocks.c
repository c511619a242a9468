/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of tutti_alloc, with their sizes, which are no argument of tutti_free. So an object that keeps tensors
 * can refuse to use memory that has been freed. A list suffices: programs have few blocks, and make them at their
 * start. Cost: a walk along the blocks for each alloc and free.
 */
#include "api/group/blocks.h"

#include <stdlib.h>

#include "base/process/fork.h"

struct tti_block {
    const void *memory;
    size_t bytes;
    uint64_t ending; /* the time at which its end began; 0: it has not */
    struct tti_block *next;
};

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static struct tti_block *blocks; /* a block that ended with its group stays until its address is used again */
static struct tti_block_user *users;
static uint64_t now = 1; /* counts users that came and blocks that began to end */

/* The block that is there, or NULL. */
static struct tti_block *find(const void *memory)
{
    struct tti_block *b = blocks;
    while (b && (b->memory != memory || b->ending != 0)) {
        b = b->next;
    }
    return b;
}

void tti_block_user_add(struct tti_block_user *user)
{
    tti_fork_mutex_lock(&lock);
    user->next = users;
    user->previous = NULL;
    if (users) {
        users->previous = user;
    }
    users = user;
    user->since = now++;
    tti_fork_mutex_unlock(&lock);
}

void tti_block_user_remove(struct tti_block_user *user)
{
    tti_fork_mutex_lock(&lock);
    if (user->next) {
        user->next->previous = user->previous;
    }
    *(user->previous ? &user->previous->next : &users) = user->next;
    tti_fork_mutex_unlock(&lock);
}

void tti_block_add(const void *memory, size_t bytes)
{
    tti_fork_mutex_lock(&lock);
    struct tti_block *b = find(memory);
    if (!b && (b = malloc(sizeof(*b))) != NULL) {
        *b = (struct tti_block){.memory = memory, .next = blocks};
        blocks = b;
    }
    if (b) {
        b->bytes = bytes;
    }
    tti_fork_mutex_unlock(&lock);
}

struct tti_block *tti_block_begin_end(const void *memory)
{
    tti_fork_mutex_lock(&lock);
    struct tti_block *b = find(memory);
    if (b) {
        b->ending = now++;
    }
    tti_fork_mutex_unlock(&lock);
    return b;
}

static void unlink_block(const struct tti_block *block)
{
    struct tti_block **link = &blocks;
    while (*link != block) {
        link = &(*link)->next;
    }
    *link = block->next;
}

void tti_block_end(struct tti_block *block, bool freed)
{
    if (!block) {
        return;
    }
    tti_fork_mutex_lock(&lock);
    if (freed) {
        unlink_block(block);
        for (struct tti_block_user *u = users; u; u = u->next) {
            if (u->since < block->ending) { /* a later one uses another block at the same address */
                u->freed(u, block->memory, block->bytes);
            }
        }
    } else {
        block->ending = 0;
    }
    tti_fork_mutex_unlock(&lock);
    if (freed) {
        free(block);
    }
}
