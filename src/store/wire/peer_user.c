/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/wire/peer_user.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/host/text_file.h"

#define USUAL_OVERFLOW 65534u

bool tti_peer_is_same_user(int fd, int *pid)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    if (pid) {
        *pid = known ? (int)peer.pid : 0;
    }
    return known && peer.uid == geteuid();
}

static unsigned overflow_user(void)
{
    char text[16];
    unsigned user;
    tti_read_text(text, sizeof(text), "/proc/sys/kernel/overflowuid");
    return sscanf(text, "%u", &user) == 1 ? user : USUAL_OVERFLOW;
}

/* Whether all 2^32 - 1 users are mapped here, as outside of every user namespace (-1 is no user). */
static bool all_have_numbers(void)
{
    uint64_t sum = 0;
    FILE *file = fopen("/proc/self/uid_map", "re");
    if (file) {
        unsigned inside;
        unsigned outside;
        unsigned count;
        while (fscanf(file, "%u %u %u", &inside, &outside, &count) == 3) {
            sum += count;
        }
        fclose(file);
    }
    return sum >= UINT32_MAX;
}

bool tti_user_is_distinct(void)
{
    return geteuid() != overflow_user() || all_have_numbers();
}
