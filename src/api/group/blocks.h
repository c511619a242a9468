/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of tutti_alloc, and the objects that keep tensors in them from call to call. */
#ifndef TTI_API_BLOCKS_H
#define TTI_API_BLOCKS_H

#include <stddef.h>

/* An object that keeps tensors. `freed`: a block has been freed, in which some of them may begin; called under the lock
 * of the blocks. */
struct tti_block_user {
    void (*freed)(struct tti_block_user *user, const void *memory, size_t bytes);
    struct tti_block_user *next;
    struct tti_block_user *previous;
};

void tti_block_user_add(struct tti_block_user *user);
void tti_block_user_remove(struct tti_block_user *user);

/* A block is there. Without memory it is not noted: its users do not learn of its end. */
void tti_block_add(const void *memory, size_t bytes);
/* It has been freed: notifies its users. */
void tti_block_remove(const void *memory);

#endif
