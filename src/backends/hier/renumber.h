/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine's sentence with the ranks of the group. */
#ifndef TTI_BACKENDS_HIER_RENUMBER_H
#define TTI_BACKENDS_HIER_RENUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Copies the sentence `from` and replaces each rank r in it by ranks[r]: in "rank 1", and in lists such as "ranks 0, 2
 * and 3". Numbers from `count` on stay. The copy is cut to `capacity` bytes. */
void tti_hier_renumber(const char *from, const int32_t *ranks, int32_t count, char *to, size_t capacity);

#endif
