/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of tutti_alloc, and the objects that keep tensors in them from call to call. */
#ifndef TTI_API_BLOCKS_H
#define TTI_API_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* An object that keeps tensors. `uses`: whether one of them begins in a block; called under the lock of the blocks. */
struct tti_block_user {
    bool (*uses)(const struct tti_block_user *user, const void *memory, size_t bytes);
    _Atomic bool is_freed; /* a block that it uses has been freed; relaxed: the program orders free and use */
    struct tti_block_user *next;
    struct tti_block_user *previous;
};

void tti_block_user_add(struct tti_block_user *user);
void tti_block_user_remove(struct tti_block_user *user);

/* A block is there. Without memory it is not noted: its users do not learn of its end. */
void tti_block_add(const void *memory, size_t bytes);
/* It has been freed: marks its users. */
void tti_block_remove(const void *memory);

#endif
