/* SPDX-License-Identifier: BSD-3-Clause */
/* The plug-in files of peers. */
#ifndef TOOLS_BENCH_BESIDE_PLUGIN_H
#define TOOLS_BENCH_BESIDE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/beside/peer.h"

/* Whether the peer that `beside` (NAME[:SETTINGS]) names exists; if not, prints the available ones on stderr. */
bool tti_beside_exists(const char *beside);
/* The peer of this name, or NULL and the reason. It stays loaded: its library may have threads. */
const struct tti_bench_peer *tti_beside_load(const char *name, char *why, size_t capacity);

#endif
