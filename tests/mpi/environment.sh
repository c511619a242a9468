#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=100 trees=release,debug
# Reductions of floats while each rank rounds in another direction.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    for blocking in always never; do
        launch "$flavour" 3 tests/mpi/environment "$blocking" || fail "$flavour, mpi.blocking=$blocking"
    done
done
