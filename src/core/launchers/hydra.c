/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hydra gives its processes a rank and a size but no name of the job. A request over PMI_FD would return one, but hydra
 * takes every process that sends there for an MPI process: its end without MPI_Finalize ends the whole job, and a
 * finalize from here would break a later MPI_Init. So nothing is sent. The other end of that socket belongs to the
 * proxy, the process that starts all ranks of one job on one host. The proxy's pid and start time name the job.
 *
 * After MPI_Finalize PMI_FD is closed, and its number may belong to another file. Then, and for a launcher without
 * PMI_FD, the ancestors are searched for the proxy, by its name.
 */
#include "core/launchers/hydra.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"

#define MAX_ANCESTORS 64

struct process {
    int parent;
    unsigned long long started; /* in clock ticks since the host booted */
    bool is_proxy;
};

static bool look_up(int pid, struct process *process)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    /* "pid (name) state parent ...": the name may contain anything, so its end is the last parenthesis. */
    char *name = strchr(text, '(');
    char *end = strrchr(text, ')');
    if (!name || !end || end < name ||
        sscanf(end + 1, " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &process->parent, &process->started) != 2) {
        return false;
    }
    *end = '\0';
    process->is_proxy = strstr(name, "pmi_proxy") != NULL;
    return true;
}

/* The process at the other end of PMI_FD, or -1. */
static int peer_of_pmi_fd(void)
{
    const char *text = getenv("PMI_FD");
    struct ucred peer;
    socklen_t length = sizeof(peer);
    int64_t fd = -1;
    if (!text || !tti_parse_integer(text, 0, INT_MAX, &fd) ||
        getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return -1;
    }
    return peer.pid;
}

bool tti_hydra_job(char *text, size_t capacity)
{
    int peer = peer_of_pmi_fd();
    int pid = getppid();
    for (int i = 0; i < MAX_ANCESTORS && pid > 0; i++) {
        struct process process;
        if (!look_up(pid, &process)) {
            return false;
        }
        if (pid == peer || process.is_proxy) {
            snprintf(text, capacity, "%d-%llu", pid, process.started);
            return true;
        }
        pid = process.parent;
    }
    return false;
}
