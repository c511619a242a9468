#!/bin/bash
# tutti-test: timeout=300 trees=release
# Collectives: results, and what MPI is asked for.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

for flavour in $(ledger_flavours); do
    build collectives "$flavour"
    start "$flavour" collectives
done
