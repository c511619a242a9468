/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A composed backend gets its parts from the core, since backends do not know one another: an engine of any backend for
 * some ranks of the group that is being opened, chosen from the same records as the group's own.
 */
#ifndef TTI_CORE_GROUP_BACKEND_COMPOSE_H
#define TTI_CORE_GROUP_BACKEND_COMPOSE_H

#include "core/membership/rendezvous.h"

struct tti_group;
struct tti_hello;

/* What a composed backend may use while it opens a group. */
struct tti_compose {
    tutti_engines table;
    const struct tti_group *group;
    const struct tti_rendezvous *rendezvous; /* of the backend that composes */
    const struct tti_hello *all;
    int64_t deadline_ns; /* of the opening */
    uint64_t *hosts;     /* one for each rank; NULL: not known */
};

/* `all`: the records of all ranks; NULL: the group has one rank. `group` and `all` must not move until
 * tti_compose_end. */
void tti_compose_init(struct tti_compose *c, const struct tti_group *group, const struct tti_rendezvous *rendezvous,
                      const struct tti_hello *all, int64_t deadline_ns);
void tti_compose_end(struct tti_compose *c);

#endif
