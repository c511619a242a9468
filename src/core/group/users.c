/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every user of a group is counted in its handle: asynchronous operations until they have ended, events objects until
 * they are destroyed, threads and callbacks while they are inside a call. The first two have counts of their own. The
 * calls are the difference.
 */
#include "core/group/users.h"

#include <stdio.h>

#include "base/error.h"
#include "core/async/work/pool.h"
#include "core/group/group_table.h"

struct tti_group_users tti_group_users(const struct tti_group *group)
{
    struct tti_group_users users;
    users.works = tti_work_pending(group->handle, &users.of_application);
    users.objects = atomic_load_explicit(&group->events.objects, memory_order_relaxed); /* a snapshot */
    const uint32_t all = tti_handles_users(&tti_groups, group->handle) - 1;
    const uint32_t known = users.works + users.objects;
    users.calls = all > known ? all - known : 0;
    return users;
}

tutti_status tti_group_error_busy(const struct tti_group *group, const struct tti_group_users *users,
                                  const char *function, tutti_error *error)
{
    char works[120] = "";
    char objects[120] = "";
    if (users->works > 0) {
        snprintf(works, sizeof(works), "; %u asynchronous operation%s pending: wait for %s first", users->works,
                 users->works == 1 ? " is" : "s are", users->works == 1 ? "it" : "them");
    }
    if (users->objects > 0) {
        snprintf(objects, sizeof(objects), "; %u events object%s there: destroy %s first", users->objects,
                 users->objects == 1 ? " is" : "s are", users->objects == 1 ? "it" : "them");
    }
    return tti_error_set(
        error, TUTTI_BUSY, "%s: the group of %d rank%s (backend %s, own rank %d) is in use%s%s%s", function,
        group->size, group->size == 1 ? "" : "s", group->backend->name, group->rank, works, objects,
        users->calls > 0 ? "; another thread or a callback is inside a call on it: let that return first" : "");
}
