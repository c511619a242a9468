#!/bin/bash
# tutti-test: timeout=300 trees=release
# Collectives: results, and the calls of MPI.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

# By default a small call ends in the entry barrier, and a large all_reduce is Tutti's own algorithm.
export TUTTI_MPI_BLOCKING=always

for flavour in $(ledger_flavours); do
    build collectives "$flavour"
    start "$flavour" collectives
done
