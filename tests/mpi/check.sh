#!/bin/bash
# tutti-test: timeout=1500 cpus=99 trees=release
# The conformance suite over each MPI: compared and timed calls, and blocking ones. With TUTTI_TEST_ALL=1 all cases
# with each number of ranks, and each collective with all element types in blocking calls.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

parts="/roots p2p"
blocking="/types/f32 /roots barrier/"
if [ -n "${TUTTI_TEST_ALL:-}" ]; then
    parts=/
    blocking="reduce/ broadcast/ gather scatter all_to_all barrier/"
fi

for flavour in $(flavours); do
    launch "$flavour" 2 ./tutti check --backend mpi --quick || fail "tutti check with $flavour, 2 ranks"
    for ranks in 1 3; do
        for part in $parts; do
            launch "$flavour" "$ranks" ./tutti check --backend mpi --quick --filter "$part" ||
                fail "tutti check with $flavour, $ranks ranks: $part"
        done
    done
    for collective in $blocking; do
        TUTTI_MPI_BLOCKING=always launch "$flavour" 2 ./tutti check --backend mpi --quick --filter "$collective" ||
            fail "tutti check with blocking calls of $flavour: $collective"
    done
    TUTTI_MPI_BLOCKING=always TUTTI_CHECK_CALLS=on launch "$flavour" 2 ./tutti check --backend mpi --quick --filter mismatch ||
        fail "tutti check with blocking calls of $flavour that are compared"
    TUTTI_MPI_BLOCKING=always launch "$flavour" 2 ./tutti check --backend mpi --quick --filter cancel ||
        fail "tutti check with blocking calls of $flavour that are cancelled"
    for level in single serialized; do
        TUTTI_MPI_THREAD_LEVEL=$level launch "$flavour" 2 ./tutti check --backend mpi --quick --filter lanes ||
            fail "tutti check with thread level $level of $flavour"
    done
done
