#!/bin/bash
# tutti-test: timeout=300 trees=release,address,undefined
# Groups that are made in two threads at once, at every thread level where that is allowed.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    for level in serialized multiple; do
        launch "$flavour" 2 tests/mpi/crossed "$level" || fail "$flavour at thread level $level"
    done
done
