#!/bin/bash
# tutti-test: timeout=200 trees=release,debug
# Groups of one rank that a rank of an MPI job makes for itself, before the world and beside it.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

# the program holds the static library, and the plug-ins are not beside it
export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    told "$flavour" 3 tests/mpi/private || fail "$flavour"
done
