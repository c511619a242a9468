#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=900 cpus=3 trees=release
# The same over each MPI, whose own end must come behind all calls of it.
. "$TUTTI_SOURCE/tests/mpi/common.inc"
. "$TUTTI_SOURCE/tests/exit/common.inc"

for flavour in $(flavours); do
    killed=
    if [ "$flavour" = openmpi ]; then
        launcher=(mpirun.openmpi --oversubscribe --allow-run-as-root -n 3 env TUTTI_BACKEND=mpi)
    else
        killed=9
        launcher=(mpiexec.mpich -n 3 env TUTTI_BACKEND=mpi)
    fi
    every "$flavour" "${launcher[@]}"
done
[ "$failures" -eq 0 ]
