#!/bin/bash
# tutti-test: timeout=400 trees=release,debug,address,undefined,thread
# Ranks of a group over Gloo are late, leave, or die: who waits for them is told in time, and by name.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/faults || fail "faults"
