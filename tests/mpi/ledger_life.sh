#!/bin/bash
# tutti-test: timeout=300 trees=release
# The life of MPI: availability by the launcher's variables alone; started and finalised once; or not started.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

# alone PROGRAM MODE: one process without a launcher, with the variables that are set before this function's name.
alone() {
    env ${TUTTI_TEST_PRELOAD:+LD_PRELOAD="$TUTTI_TEST_PRELOAD"} "tests/mpi/ledger/$1" "$2" || fail "$1 $2"
}

unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE PMI_FD PMI_PORT PMIX_RANK
for flavour in $(ledger_flavours); do
    build life "$flavour"
    alone "life.$flavour" missing
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 alone "life.$flavour" available
    start "$flavour" life application
    start "$flavour" life settings
    start "$flavour" life here "unix:tutti-ledger-$$"
done
