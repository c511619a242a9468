#!/bin/bash
# tutti-test: timeout=200 trees=release,debug,address,undefined,thread
# Plug-in files are opened by those groups that take what is in them, or would.
. "$TUTTI_SOURCE/tests/gloo/common.inc"
exec tests/gloo/unopened
