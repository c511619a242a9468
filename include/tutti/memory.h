/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * Memory that a group's engine moves without copying it first.
 *
 * Two ways lead there. `tutti_alloc` gives new memory. `tutti_register` turns memory that exists (an arena of gradients, a
 * framework's tensor) into such memory, at the same address. Tensors inside are recognised by their address: no call
 * changes. Sub-groups use the memory of the group they came from.
 *
 * Whether it pays depends on the engine (`tutti_group_capabilities`, TUTTI_CAP_HEAP). Where an engine has nothing of the
 * kind, `tutti_alloc` gives ordinary memory and `tutti_register` does nothing, so programs need no second way.
 */
#ifndef TUTTI_MEMORY_H
#define TUTTI_MEMORY_H

#include <tutti/group.h>
#include <tutti/status.h>

TUTTI_BEGIN_DECLS

TUTTI_END_DECLS

#endif
