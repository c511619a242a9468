/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks are on which host, from the identity of every rank's host. All ranks have the same identities, so all
 * compute the same tables. Cost: ranks times hosts, once a group.
 */
#include "backends/hier/hosts.h"

#include <stdlib.h>

/* Numbers the hosts in the order of their first rank, which is written to `first`. */
static void number(struct tti_hosts *h, const uint64_t *hosts, int32_t *first)
{
    for (int32_t r = 0; r < h->size; r++) {
        int32_t host = 0;
        while (host < h->count && hosts && hosts[first[host]] != hosts[r]) {
            host++;
        }
        if (host == h->count) {
            first[h->count++] = r;
        }
        h->host_of[r] = host;
        h->local_rank_of[r] = h->begin[host + 1]++;
    }
}

bool tti_hosts_make(struct tti_hosts *h, const uint64_t *hosts, int32_t size)
{
    const size_t n = (size_t)size;
    int32_t *first = calloc(n, sizeof(*first));
    *h = (struct tti_hosts){.size = size};
    h->host_of = calloc(n, sizeof(*h->host_of));
    h->local_rank_of = calloc(n, sizeof(*h->local_rank_of));
    h->begin = calloc(n + 1, sizeof(*h->begin));
    h->members = calloc(n, sizeof(*h->members));
    if (!first || !h->host_of || !h->local_rank_of || !h->begin || !h->members) {
        free(first);
        tti_hosts_free(h);
        return false;
    }
    number(h, hosts, first);
    free(first);
    h->rails = size;
    for (int32_t i = 0; i < h->count; i++) {
        const int32_t ranks = h->begin[i + 1]; /* so far the entries are numbers of ranks */
        h->rails = ranks < h->rails ? ranks : h->rails;
        h->begin[i + 1] += h->begin[i];
    }
    h->even = h->rails * h->count == size;
    for (int32_t r = 0; r < size; r++) {
        h->members[h->begin[h->host_of[r]] + h->local_rank_of[r]] = r;
    }
    return true;
}

void tti_hosts_free(struct tti_hosts *h)
{
    free(h->host_of);
    free(h->local_rank_of);
    free(h->begin);
    free(h->members);
    *h = (struct tti_hosts){0};
}
