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

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"
#include "base/process/proc_stat.h"

#define MAX_ANCESTORS 64

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
        struct tti_proc_stat process;
        if (!tti_proc_stat(pid, &process)) {
            return false;
        }
        if (pid == peer || strstr(process.name, "pmi_proxy")) {
            snprintf(text, capacity, "%d-%llu", pid, (unsigned long long)process.started);
            return true;
        }
        pid = process.parent;
    }
    return false;
}
