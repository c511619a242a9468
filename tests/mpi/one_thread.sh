#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release
# At a level of MPI that allows one thread, synchronous calls stay on it, also those of hier.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    double=$(double_of "$flavour") || exit 1
    launch "$flavour" 3 env LD_PRELOAD="$double" DOUBLE_ONE_THREAD=1 "$TUTTI_SOURCE/tests/hier/on_hosts" AAB \
        tests/mpi/one_thread || fail "one thread with $flavour"
done
