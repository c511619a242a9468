#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=900 cpus=99 trees=release
# With each MPI between the hosts, which "auto" finds by itself.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

out=$(mktemp)
trap 'rm -f "$out"' EXIT
for flavour in $(flavours); do
    for layout in AAB ABAB; do
        launch "$flavour" ${#layout} "$TUTTI_SOURCE/tests/hier/on_hosts" "$layout" ./tutti check --quick \
            --filter /types >"$out" 2>&1 || fail "tutti check with $flavour on $layout: $(tail -n 20 "$out")"
        grep -q ', backend hier, ' "$out" || fail "auto did not take hier with $flavour on $layout: $(head -n 5 "$out")"
    done
done
