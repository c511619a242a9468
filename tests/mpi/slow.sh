#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release
# Data that are on their way for a long time, while another rank ends its process, or past the deadline.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    double=$PWD/tests/mpi/double.slow.$flavour.so
    "mpicc.$flavour" -std=gnu17 -Wall -shared -fPIC "$TUTTI_SOURCE/tests/mpi/double/double.c" -o "$double" ||
        fail "compiling for $flavour"
    for mode in left kept; do
        launch "$flavour" 2 env LD_PRELOAD="$double" tests/mpi/slow "$mode" || fail "$mode with $flavour"
    done
done
