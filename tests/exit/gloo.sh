#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=600 trees=release,debug
# The same over Gloo, alone and between the hosts of hier.
. "$TUTTI_SOURCE/tests/exit/common.inc"

if [ ! -r "$TUTTI_PLUGIN_PATH/tutti-gloo.so" ]; then
    echo "skipped: Gloo is not installed (Debian: libgloo-dev)"
    exit 77
fi
every gloo env TUTTI_BACKEND=gloo ./tutti run -n 3 --
every hier env TUTTI_BACKEND=hier TUTTI_HIER_OUTER=gloo ./tutti run -n 3 -- "$TUTTI_SOURCE/tests/hier/on_hosts" AAB
[ "$failures" -eq 0 ]
