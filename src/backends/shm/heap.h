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

#include <tutti/backend.h>

#include "backends/shm/heap_group_ops.h"

struct tti_heap;
struct tti_heap_view;

/* `parent` is the view of the group that this one is made from, NULL if there is none. Nothing is mapped yet. */
tutti_status tti_heap_view_open(const tutti_open_info *info, struct tti_heap_view *parent, struct tti_heap_view **view,
                                tutti_error *error);

/* For the engine; as long as the view. */
struct tti_heap *tti_heap_view_table(struct tti_heap_view *view);

/* From now on they are asked; NULL: they are gone. What they point to is copied. */
void tti_heap_view_attach(struct tti_heap_view *view, const struct tti_heap_group_ops *group_ops);

/* With the last view goes the heap: registered ranges become private again, allocated ones are gone. NULL is allowed. */
void tti_heap_view_close(struct tti_heap_view *view);

#endif
