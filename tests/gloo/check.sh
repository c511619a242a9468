#!/bin/bash
# tutti-test: timeout=900 cpus=3 trees=release,debug,address,undefined,thread
# The conformance suite over Gloo, also with small chunks. With a sanitizer, only cases that together cover the plug-in's code
# once.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

if [ -n "${TUTTI_SANITIZE:-}" ]; then
    for part in reduce_scatter_v broadcast all_to_all_v p2p mismatch lanes async cancel; do
        ./tutti check --backend gloo --quick -n 2 --filter "$part" || fail "tutti check, 2 ranks: $part"
    done
    exit 0
fi
./tutti check --backend gloo --quick -n 2 || fail "tutti check, 2 ranks"
parts="$TUTTI_SOURCE/tests/conformance/parts"
TUTTI_GLOO_SEGMENT=4096 "$parts" "/sizes /layouts /roots /types/f32 p2p mismatch" ./tutti check --backend gloo -n 3 ||
    fail "tutti check, 3 ranks, small chunks"
"$parts" "/layouts /roots" ./tutti check --backend gloo -n 1 || fail "tutti check, 1 rank"
