/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory store's part in fork. */
#ifndef TTI_STORE_MEMORY_H
#define TTI_STORE_MEMORY_H

/* In a forked child, with the process lock held: the parent's tables are not this process's. */
void tti_memory_forget(void);

#endif
