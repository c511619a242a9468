#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release,debug,address,undefined
# A rank leaves, or does not enter a call, with the other ranks on its host or on another one.
set -u
export TUTTI_BACKEND=hier TUTTI_HIER_OUTER=shm
unset RANK WORLD_RANK WORLD_SIZE TUTTI_RANK TUTTI_WORLD_SIZE
failures=0
for layout in AAB ABAB; do
    for how in left late; do
        timeout 400 "$TUTTI_BUILD/tutti" run -n ${#layout} -- "$TUTTI_SOURCE/tests/hier/on_hosts" "$layout" \
            "$TUTTI_BUILD/tests/hier/peer_left" "$how" || {
            echo "FAILED: $layout, $how"
            failures=$((failures + 1))
        }
    done
done
[ "$failures" -eq 0 ]
