/* SPDX-License-Identifier: BSD-3-Clause */
/* The users that keep a group from being destroyed. */
#ifndef TTI_CORE_GROUP_USERS_H
#define TTI_CORE_GROUP_USERS_H

#include <tutti/status.h>

struct tti_group;

/* Users of a group besides the caller, which has acquired it. A snapshot: others may come and go meanwhile. */
struct tti_group_users {
    uint32_t works;          /* asynchronous operations of this rank that have not ended */
    uint32_t of_application; /* of them, those that the application completes */
    uint32_t objects;        /* events objects */
    uint32_t calls;          /* threads and callbacks inside a call */
};

struct tti_group_users tti_group_users(const struct tti_group *group);

/* BUSY, with a sentence that lists the users and what to do. */
tutti_status tti_group_error_busy(const struct tti_group *group, const struct tti_group_users *users,
                                  const char *function, tutti_error *error);

#endif
