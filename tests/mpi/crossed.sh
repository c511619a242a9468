#!/bin/bash
# tutti-test: timeout=300 trees=release,address,undefined
# Groups that two threads create at once, at every thread level that allows it.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    for level in serialized multiple; do
        launch "$flavour" 2 tests/mpi/crossed "$level" || fail "$flavour at thread level $level"
    done
done
