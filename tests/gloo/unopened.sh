#!/bin/bash
# tutti-test: timeout=200 trees=release,debug,address,undefined,thread
# Only groups that need a plug-in open its file.
. "$TUTTI_SOURCE/tests/gloo/common.inc"
exec tests/gloo/unopened
