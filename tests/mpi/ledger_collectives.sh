#!/bin/bash
# tutti-test: timeout=300 trees=release
# Collectives: results, and what MPI is asked for.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

# By default a small call ends with the exchange that compares it, and a large all_reduce is one of Tutti's own.
export TUTTI_MPI_BLOCKING=always

for flavour in $(ledger_flavours); do
    build collectives "$flavour"
    start "$flavour" collectives
done
