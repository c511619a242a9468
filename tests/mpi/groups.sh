#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release,address,undefined
# Groups that are made while another one has failed.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    for level in serialized multiple; do
        launch "$flavour" 3 tests/mpi/groups base "$level" || fail "a failed base with $flavour at thread level $level"
    done
done
