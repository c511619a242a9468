#!/bin/bash
# tutti-test: timeout=200 trees=release,debug,address,undefined,thread
# Failures inside Gloo become a status with its sentence, never an exception.
. "$TUTTI_SOURCE/tests/gloo/common.inc"

tests/gloo/boundary "$TUTTI_PLUGIN_PATH/tutti-gloo.so" || fail "boundary"
