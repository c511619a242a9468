#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=300 trees=release
# Data that are on their way for a long time, while another rank ends its process or destroys the group, or past the deadline.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    double=$(double_of "$flavour") || exit 1
    for mode in left closed kept; do
        launch "$flavour" 2 env LD_PRELOAD="$double" tests/mpi/slow "$mode" || fail "$mode with $flavour"
    done
done
