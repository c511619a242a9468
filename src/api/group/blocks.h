/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of tutti_alloc, and the objects that keep tensors in them from call to call. */
#ifndef TTI_API_GROUP_BLOCKS_H
#define TTI_API_GROUP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tti_block;

/* An object that keeps tensors. `freed`: a block has been freed, in which some of them may begin; called under the lock
 * of the blocks. */
struct tti_block_user {
    void (*freed)(struct tti_block_user *user, const void *memory, size_t bytes);
    struct tti_block_user *next;
    struct tti_block_user *previous;
    uint64_t since;
};

void tti_block_user_add(struct tti_block_user *user);
void tti_block_user_remove(struct tti_block_user *user);

/* A block is there. Without memory it is not noted: its users do not learn of its end. */
void tti_block_add(const void *memory, size_t bytes);

/* Its memory is about to be freed, and another thread may get the same address before tti_block_end. NULL: it is not
 * noted. */
struct tti_block *tti_block_begin_end(const void *memory);

/* If it has been freed, notifies the users that were there before. Else it is there as before. */
void tti_block_end(struct tti_block *block, bool freed);

#endif
