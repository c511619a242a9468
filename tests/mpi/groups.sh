#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release,address,undefined
# Groups that are made while another one has failed, or after one was closed.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    for run in base:serialized base:multiple unread:multiple failed:serialized left:multiple; do
        launch "$flavour" 3 tests/mpi/groups "${run%:*}" "${run#*:}" || fail "$flavour, case and thread level $run"
    done
done
