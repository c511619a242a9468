#!/bin/bash
# tutti-test: timeout=100 trees=release,debug
# A rank of a group over Gloo has no memory for a strided tensor: the group survives.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/no_memory || fail "no_memory"
