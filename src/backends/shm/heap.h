/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap of backend shm: memory files that all members of a group map for writing.
 *
 * A heap belongs to one rank of a group that was not made from another one, and to the groups that this rank has made from
 * it since: they share what is mapped, and count references. Each group sees it through a view, whose table (engine/memory/heap.h)
 * names the own regions that all ranks of that group have mapped. Region 1 is the arena of tutti_alloc, made and mapped
 * when a group first needs it; each range of tutti_register is another one.
 *
 * A rank keeps book of who has mapped its regions, and of nothing else: whoever hears a name has been told of the region
 * in a collective call. That is why groups that overlap need not know of one another.
 */
#ifndef TTI_BACKENDS_SHM_HEAP_H
#define TTI_BACKENDS_SHM_HEAP_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_heap;
struct tti_heap_view;

/* Who moves a group's messages in the heap, beside the threads that take memory away, and knows how the group is. */
struct tti_heap_group_ops {
    void *user;
    /* Whether a message of this rank that has not ended has its tensor in the range, or a part of it. */
    bool (*use)(void *user, const void *memory, size_t bytes);
    /* Whether no thread of this rank touches memory any more that it looked up before this withdrawal (engine/memory/heap.h). Waits for
     * pieces of messages; not for collectives, which may wait for other ranks. */
    bool (*quiesced)(void *user, uint64_t withdrawal);
    /* Why the group has failed; OK if it has not. NULL: nobody knows. */
    tutti_status (*failure)(void *user, tutti_error *error);
};

static inline tutti_status tti_heap_group_failure(const struct tti_heap_group_ops *group, tutti_error *error)
{
    return group->failure ? group->failure(group->user, error) : TUTTI_OK;
}

/* `parent` is the view of the group that this one is made from, NULL if there is none. Nothing is mapped yet. */
tutti_status tti_heap_view_open(const tutti_open_info *info, struct tti_heap_view *parent, struct tti_heap_view **view,
                                tutti_error *error);

/* For the engine; as long as the view. */
struct tti_heap *tti_heap_view_table(struct tti_heap_view *view);

/* From now on they are asked; NULL: they are gone. What they point to is copied. */
void tti_heap_view_attach(struct tti_heap_view *view, const struct tti_heap_group_ops *group_ops);

/* With the last view goes the heap: registered ranges become private again, allocated ones are gone. NULL is allowed. */
void tti_heap_view_close(struct tti_heap_view *view);

/* As the functions of tutti_backend_ops. */
tutti_status tti_heap_alloc(struct tti_heap_view *view, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error);
tutti_status tti_heap_release(struct tti_heap_view *view, void *memory, tutti_error *error);
tutti_status tti_heap_register(struct tti_heap_view *view, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error);
tutti_status tti_heap_unregister(struct tti_heap_view *view, void *memory, const tutti_exchange *exchange,
                                 tutti_error *error);

#endif
