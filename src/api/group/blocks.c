/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of tutti_alloc, with their sizes, which are no argument of tutti_free. So an object that keeps tensors
 * can refuse to use memory that has been freed. A list suffices: programs have few blocks, and make them at their start.
 * Cost: a walk along the blocks for each alloc and free.
 */
#include "api/group/blocks.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/process/fork.h"

struct block {
    const void *memory;
    size_t bytes;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct block *blocks; /* a block that ended with its group stays until its address is used again */
static struct tti_block_user *users;

static void protect(void)
{
    tti_fork_protect(&lock);
}

static void enter(void)
{
    pthread_once(&once, protect);
    pthread_mutex_lock(&lock);
}

/* The link to the block, or to the end. */
static struct block **find(const void *memory)
{
    struct block **link = &blocks;
    while (*link && (*link)->memory != memory) {
        link = &(*link)->next;
    }
    return link;
}

void tti_block_user_add(struct tti_block_user *user)
{
    enter();
    user->next = users;
    user->previous = NULL;
    if (users) {
        users->previous = user;
    }
    users = user;
    pthread_mutex_unlock(&lock);
}

void tti_block_user_remove(struct tti_block_user *user)
{
    enter();
    if (user->next) {
        user->next->previous = user->previous;
    }
    *(user->previous ? &user->previous->next : &users) = user->next;
    pthread_mutex_unlock(&lock);
}

void tti_block_add(const void *memory, size_t bytes)
{
    enter();
    struct block **link = find(memory);
    if (!*link && (*link = malloc(sizeof(**link))) != NULL) {
        **link = (struct block){.memory = memory};
    }
    if (*link) {
        (*link)->bytes = bytes;
    }
    pthread_mutex_unlock(&lock);
}

void tti_block_remove(const void *memory)
{
    enter();
    struct block **link = find(memory);
    struct block *block = *link;
    if (block) {
        *link = block->next;
    }
    for (struct tti_block_user *u = users; block && u; u = u->next) {
        u->freed(u, block->memory, block->bytes);
    }
    pthread_mutex_unlock(&lock);
    free(block);
}
