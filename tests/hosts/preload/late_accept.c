/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loaded before a rank's libraries (late_answers.sh), in the place of a busy machine or a slow network: for a second,
 * listeners at other addresses than loopback accept nobody.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LATE_S = 1, PAUSE_NS = 1000000 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int is_loopback(int fd)
{
    struct sockaddr_in name = {.sin_family = AF_UNSPEC};
    socklen_t length = sizeof(name);
    getsockname(fd, (struct sockaddr *)&name, &length);
    return name.sin_family != AF_INET || ntohl(name.sin_addr.s_addr) >> 24 == 127;
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
    static double first_s;
    first_s = first_s == 0 ? now_s() : first_s;
    if (!is_loopback(fd) && now_s() < first_s + LATE_S) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL); /* the listener stays readable */
        errno = EAGAIN;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, length, flags);
}
