#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=900 cpus=3 trees=release
# The same over each MPI, which must be finalised after all calls of it: one operation for each way to wait, or all
# kinds with TUTTI_TEST_ALL=1.
. "$TUTTI_SOURCE/tests/mpi/common.inc"
. "$TUTTI_SOURCE/tests/exit/common.inc"

kinds="recv barrier_timed all_reduce_large thread_recv several destroy-recv"
[ -z "${TUTTI_TEST_ALL:-}" ] || kinds=
for flavour in $(flavours); do
    if [ "$flavour" = openmpi ]; then
        launcher=(mpirun.openmpi --oversubscribe --allow-run-as-root -n 3 env TUTTI_BACKEND=mpi)
    else
        launcher=(mpiexec.mpich -n 3 env TUTTI_BACKEND=mpi)
    fi
    every "$flavour" "${launcher[@]}"
done
[ "$failures" -eq 0 ]
