#!/bin/bash
# tutti-test: timeout=200 trees=release,debug,address,undefined,thread
# Which addresses ranks connect over: loopback on one host, probed addresses on several, or those of the named interface;
# the group's description names the address.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/addresses || fail "addresses"
