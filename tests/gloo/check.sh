#!/bin/bash
# tutti-test: timeout=900 serial=1
# The conformance suite over Gloo; with small pieces everything that is not tiny goes in many.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

./tutti check --backend gloo --quick -n 2 || fail "tutti check, 2 ranks"
[ -n "${TUTTI_SANITIZE:-}" ] && exit 0
TUTTI_GLOO_SEGMENT=4096 ./tutti check --backend gloo --quick -n 3 || fail "tutti check, 3 ranks, small pieces"
./tutti check --backend gloo --quick -n 1 || fail "tutti check, 1 rank"
