/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The labelled places: functions of libc through which the library makes system calls. A program's own definitions come
 * before libc's, also for the shared library. So these functions see every call, and then call the real ones.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "faults/support/round.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0
#else
#define OWN_ALLOCATOR 1
#endif

static _Atomic int32_t armed; /* PLACE_TIME: none */
static _Atomic int32_t left;  /* calls until it happens */
static _Atomic bool failing;
static void (*happens)(void *user);
static void *happens_to;

static void arm(enum place place, int32_t occurrence)
{
    atomic_store(&left, occurrence);
    atomic_store(&armed, (int32_t)place);
}

void place_arm(enum place place, int32_t occurrence, void (*happen)(void *user), void *user)
{
    happens = happen;
    happens_to = user;
    arm(place, occurrence);
}

void place_fail(enum place place, int32_t occurrence)
{
    atomic_store(&failing, true);
    arm(place, occurrence);
}

void place_disarm(void)
{
    atomic_store(&armed, PLACE_TIME);
    atomic_store(&failing, false);
}

bool place_is_seen(enum place place)
{
    return place != PLACE_MEMORY || OWN_ALLOCATOR;
}

#if !defined(__SANITIZE_THREAD__) /* which understands none of this */

/* True: the call has to fail. */
static bool pass(enum place place)
{
    if (atomic_load_explicit(&armed, memory_order_relaxed) != (int32_t)place) {
        return false;
    }
    const int32_t before = atomic_fetch_sub(&left, 1);
    if (atomic_load(&failing)) {
        return before <= 1;
    }
    if (before == 1) {
        atomic_store(&armed, PLACE_TIME);
        happens(happens_to);
    }
    return false;
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        abort();
    }
    return found;
}

/* The function that is defined here, as libc or a sanitizer has it. */
#define REAL(name)                                                                                                     \
    static __typeof__(name) *_Atomic real;                                                                             \
    if (!atomic_load_explicit(&real, memory_order_relaxed)) {                                                          \
        atomic_store_explicit(&real, (__typeof__(name) *)(uintptr_t)find(#name), memory_order_relaxed);                \
    }

#if OWN_ALLOCATOR
static bool allocation_fails(void)
{
    return pass(PLACE_MEMORY);
}

#include "allocator.h"
#endif

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap);
    if (pass(PLACE_MAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(address, bytes, protection, flags, fd, offset);
}

int munmap(void *address, size_t bytes)
{
    REAL(munmap);
    pass(PLACE_UNMAP);
    return real(address, bytes);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    REAL(fallocate);
    if (pass(PLACE_COMMIT)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, mode, offset, bytes);
}

int memfd_create(const char *name, unsigned flags)
{
    REAL(memfd_create);
    if (pass(PLACE_FILE)) {
        errno = ENFILE;
        return -1;
    }
    return real(name, flags);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*function)(void *),
                   void *restrict argument)
{
    REAL(pthread_create);
    return pass(PLACE_THREAD) ? EAGAIN : real(thread, attributes, function, argument);
}

int sched_yield(void)
{
    REAL(sched_yield);
    pass(PLACE_YIELD);
    return real();
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    REAL(clock_gettime);
    pass(PLACE_CLOCK);
    return real(clock, time);
}

static enum place place_of(long number, long futex)
{
    switch (number) {
    case SYS_futex:
        return (futex & FUTEX_CMD_MASK) == FUTEX_WAKE ? PLACE_WAKE : PLACE_SLEEP;
    case SYS_membarrier:
        return PLACE_BARRIER;
    default:
        return number == 449 /* futex_waitv */ ? PLACE_SLEEP : PLACE_COUNT;
    }
}

long syscall(long number, ...)
{
    REAL(syscall);
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    pass(place_of(number, a[1]));
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    pass(PLACE_SEND);
    return real(fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    REAL(recvmsg);
    pass(PLACE_RECEIVE);
    return real(fd, message, flags);
}

ssize_t recv(int fd, void *memory, size_t bytes, int flags)
{
    REAL(recv);
    pass(PLACE_RECEIVE);
    return real(fd, memory, bytes, flags);
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    REAL(connect);
    pass(PLACE_CONNECT);
    return real(fd, address, length);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
    REAL(accept4);
    pass(PLACE_CONNECT);
    return real(fd, address, length, flags);
}

int poll(struct pollfd *fds, nfds_t count, int limit_ms)
{
    REAL(poll);
    pass(PLACE_POLL);
    return real(fds, count, limit_ms);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int limit_ms)
{
    REAL(epoll_wait);
    pass(PLACE_POLL);
    return real(fd, events, most, limit_ms);
}

int close(int fd)
{
    REAL(close);
    pass(PLACE_CLOSE);
    return real(fd);
}

#endif
