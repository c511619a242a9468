#!/bin/bash
# tutti-test: timeout=200 trees=release,debug,address,undefined,thread
# Which addresses ranks connect over: loopback on one host, what was tried on several, or the one that is named; the group
# says which.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/addresses || fail "addresses"
