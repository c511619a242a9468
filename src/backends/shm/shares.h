/* SPDX-License-Identifier: BSD-3-Clause */
/* The shares of segments that groups get from their root: see shares.c. */
#ifndef TTI_BACKENDS_SHM_SHARES_H
#define TTI_BACKENDS_SHM_SHARES_H

#include "backends/shm/root.h"

/* A group that is being formed: all its members compute the same. */
struct tti_share_group {
    uint64_t group; /* see struct tti_directory_entry */
    uint64_t serial;
    int size;
    int rank; /* own one */
};

/* What a member offers. */
struct tti_share_offer {
    unsigned state; /* TTI_SHARE_* */
    uint32_t entry;
    uint64_t taken; /* how often the entry had been taken, with this time */
    uint64_t offset;
    uint64_t doorbell;
};

/* Another member's entry. */
struct tti_peer_share {
    int rank; /* of the root */
    uint32_t entry;
    uint64_t taken;
};

/* A share of the own segment. */
struct tti_share {
    struct tti_share *next;
    struct tti_share_kind *kind;
    unsigned char *base;
    uint64_t offset;
    uint64_t doorbell; /* 0: none yet */
    uint64_t taken;    /* how often `entry` had been taken, with this time */
    uint32_t entry;
    int rank;                     /* own one in the group that uses it, or has used it */
    struct tti_peer_share *peers; /* what the others of that group use: kind->layout.size entries */
};

/* A share for that group, as if it were new, with an entry that no rank can see yet; NULL: there is none. */
struct tti_share *tti_share_take(struct tti_root *root, const struct tti_layout *layout,
                                 const struct tti_share_group *group);

/* Makes the entry visible to the others. */
void tti_share_offer(struct tti_root *root, const struct tti_share *share, const struct tti_share_group *group);

/* Whether `rank` of the root offers a share for the group, as its rank `place`. Any state but FREE; the caller checks
 * it. */
bool tti_share_find(const struct tti_root *root, int rank, const struct tti_share_group *group, int place,
                    struct tti_share_offer *offer);

/* All members have found each other. Member `place` is `rank` of the root, with this share. */
void tti_share_pair(struct tti_share *share, int place, int rank, const struct tti_share_offer *offer);

/* The group is closed: the share is used again when the others have closed it, too, or have ended. */
void tti_share_release(struct tti_root *root, struct tti_share *share);

/* From now on the others see that this rank has taken its offer back. */
void tti_share_withdraw(struct tti_root *root, const struct tti_share *share);

/* After that. No member uses the share, or some may: then it is never used again. */
void tti_share_return(struct tti_root *root, struct tti_share *share);
void tti_share_abandon(struct tti_share *share);

const struct tti_layout *tti_share_layout(const struct tti_share *share);
size_t tti_share_bytes(const struct tti_share *share);
size_t tti_share_doorbell_bytes(const struct tti_share *share);

#endif
