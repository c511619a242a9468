#!/bin/bash
# tutti-test: timeout=300 trees=release
# Messages: results, and the calls of MPI.
. "$TUTTI_SOURCE/tests/mpi/ledger.inc"

for flavour in $(ledger_flavours); do
    build messages "$flavour"
    start "$flavour" messages
done
