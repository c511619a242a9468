/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap of backend shm: memory files that all members of a group map for writing.
 *
 * A heap belongs to one rank of a group without a parent, and to all groups that this rank makes from that one: they
 * share the mappings, and count references. Each group has a view, whose table (engine/memory/heap.h) names the own
 * regions that all ranks of that group have mapped. Region 1 is the arena of tutti_alloc, made and mapped when a group
 * first needs it; each range of tutti_register is another region.
 *
 * A rank records which members have mapped its regions, and nothing else. A rank learns of a region in a collective
 * call before it gets a name in it. So groups that overlap do not depend on one another.
 */
#ifndef TTI_BACKENDS_SHM_HEAP_HEAP_H
#define TTI_BACKENDS_SHM_HEAP_HEAP_H

#include <tutti/backend.h>

#include "backends/shm/heap/group_ops.h"

struct tti_heap;
struct tti_heap_view;

/* `parent` is the view of the group that this one is made from, NULL if there is none. Nothing is mapped yet. */
tutti_status tti_heap_view_open(const tutti_open_info *info, struct tti_heap_view *parent, struct tti_heap_view **view,
                                tutti_error *error);

/* For the engine. Valid as long as the view. */
struct tti_heap *tti_heap_view_table(struct tti_heap_view *view);

/* Sets the group ops, which are copied; NULL: there are none any more. */
void tti_heap_view_attach(struct tti_heap_view *view, const struct tti_heap_group_ops *group_ops);

/* The last view ends the heap: registered ranges become private again, allocated ones are unmapped. NULL is allowed. */
void tti_heap_view_close(struct tti_heap_view *view);

#endif
