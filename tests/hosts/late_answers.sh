#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release
# Gloo between hosts: a rank reaches the other rank of its host by loopback at once, but the address that the other hosts
# reach, too, answers only later. The ranks agree on that one.
. "$(dirname "$0")/common.inc"

if [ ! -r "$build/lib/tutti/plugins/tutti-gloo.so" ]; then
    echo "skipped: Gloo is not installed (Debian: libgloo-dev)"
    exit 77
fi
"${CC:-cc}" -O1 -Wall -Wextra -D_GNU_SOURCE -shared -fPIC "$here/preload/late_accept.c" -o "$work/late_accept.so" ||
    fail "compiling late_accept.c"

run_hosts --hosts 2 --ranks 2 -- env LD_PRELOAD="$work/late_accept.so" TUTTI_BACKEND=gloo \
    TUTTI_PLUGIN_PATH="$build/lib/tutti/plugins" "$hello" init
check_status 0 "late answers"
check_count out 'joined [0-3] 4$' 4 "late answers"
finish
