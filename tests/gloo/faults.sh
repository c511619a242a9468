#!/bin/bash
# tutti-test: timeout=400 trees=release,debug,address,undefined,thread
# Ranks of a group over Gloo are late, leave, or die: ranks that wait for them get an error in time that names them.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/faults || fail "faults"
