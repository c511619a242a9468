#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=200 trees=release,debug,address,undefined
#
# Two ranks that load the library at run time; one of them unloads it with its group open. See unloaded.c.
set -u

program=$TUTTI_BUILD/tests/dlclose/unloaded
store=unix:unloaded-$$-$RANDOM
"$program" "$TUTTI_LIBRARY" "$store" 1 &
other=$!
"$program" "$TUTTI_LIBRARY" "$store" 0
code=$?
wait "$other"
other_code=$?
[ "$code" -eq 0 ] && [ "$other_code" -eq 0 ]
