/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the stores of one process share: a lock for their lists, and the descriptors that a forked child must not keep.
 * A child that is forked without exec inherits every socket. An inherited listener would keep the name of a dead server
 * occupied, and an inherited connection would hide the end of its process. So the child closes them at once.
 */
#ifndef TTI_STORE_FORK_SAFETY_H
#define TTI_STORE_FORK_SAFETY_H

#include <pthread.h>
#include <sys/socket.h>

/* Guards the lists of servers, of memory stores and of private descriptors. Held briefly, and across fork. */
void tti_stores_lock(void);
void tti_stores_unlock(void);
/* In each forked child, `forget` drops the parent's state. It runs under the lock. Call this one under the lock; a
 * second call with the same function does nothing. */
void tti_stores_forget_after_fork(void (*forget)(void));
/* Waits on a condition that belongs to this lock. */
void tti_stores_wait(pthread_cond_t *condition);

/* socket() and accept() for non-blocking, close-on-exec descriptors that a forked child closes. -1 with errno. */
int tti_private_socket(int domain);
int tti_private_accept(int listener);
/* Makes an open descriptor one of them; returns it. */
int tti_private_adopt(int fd);
/* close() for any of them; -1 is ignored. */
void tti_private_close(int fd);
/* The same for a connection: the other side sees its end at once, even if a child that was just forked, or one that
 * was made without the fork handlers, holds a copy. */
void tti_private_shutdown(int fd);

#endif
