/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks are on which host. A rank's number among the ranks of its host is its local rank. Rail j joins the ranks
 * with local rank j of all hosts; there are as many rails as the smallest host has ranks.
 */
#ifndef TTI_BACKENDS_HIER_HOSTS_H
#define TTI_BACKENDS_HIER_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

struct tti_hosts {
    int32_t size;
    int32_t count;
    int32_t rails;
    bool even;              /* every host has `rails` ranks */
    int32_t *host_of;       /* of each rank: the number of its host; hosts count in the order of their first rank */
    int32_t *local_rank_of; /* of each rank */
    int32_t *begin;         /* count + 1 entries: where each host's ranks begin in `members` */
    int32_t *members;       /* ranks, host by host, each in order of rank */
};

/* `hosts`: the identity of each rank's host; NULL: all ranks are on one. False: there is no memory. */
bool tti_hosts_make(struct tti_hosts *h, const uint64_t *hosts, int32_t size);
void tti_hosts_free(struct tti_hosts *h);

static inline int32_t tti_host_ranks(const struct tti_hosts *h, int32_t host)
{
    return h->begin[host + 1] - h->begin[host];
}

/* The rank with that local rank. */
static inline int32_t tti_host_member(const struct tti_hosts *h, int32_t host, int32_t local_rank)
{
    return h->members[h->begin[host] + local_rank];
}

#endif
