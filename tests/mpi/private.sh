#!/bin/bash
# tutti-test: timeout=200 trees=release,debug
# Groups of one rank that a rank of an MPI job creates for itself, before the world and while it is open.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

# the program is linked to the static library, and the plug-ins are elsewhere
export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins
for flavour in $(flavours); do
    output_of "$flavour" 3 tests/mpi/private || fail "$flavour"
done
