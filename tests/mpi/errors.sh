#!/bin/bash
# tutti-test: timeout=300 trees=release
# Failures in MPI and calls that do not end: errors quote MPI's text, groups fail on all ranks, and every hang is reported.
. "$TUTTI_SOURCE/tests/mpi/common.inc"

export TUTTI_PLUGIN_PATH=$PWD/lib/tutti/plugins

for flavour in $(flavours); do
    double=$(double_of "$flavour") || exit 1
    launch "$flavour" 2 env LD_PRELOAD="$double" DOUBLE_FAIL_RANK=1 DOUBLE_FAIL_CALL=3 tests/mpi/errors failure ||
        fail "MPI's failures with $flavour"
    report=$PWD/tests/mpi/report.$flavour
    absent=(env LD_PRELOAD="$double" DOUBLE_FAIL_RANK=1 DOUBLE_FAIL_CALL=1 DOUBLE_FAIL_ABSENT=1)
    rm -f "$report" "$report.seen" "$report.end"
    text=$(launch "$flavour" 2 "${absent[@]}" tests/mpi/errors stuck "$report" 2>&1) &&
        fail "calls that do not end exit with 0 under $flavour: $text"
    [ -e "$report.seen" ] || fail "calls that do not end with $flavour: $text; $(cat "$report")"
    grep -Eq "rank 1 has waited [0-9]+ ms in MPI_Finalize for ranks that do not arrive, after its group of 2 has failed: " \
        "$report.end" || fail "the end of a process with $flavour: $text; $(cat "$report.end")"
    rm -f "$report"
    text=$(launch "$flavour" 2 "${absent[@]}" tests/mpi/errors inside "$report" 2>&1) &&
        fail "a thread in a call at the end with $flavour: $text"
    grep -Eq "rank 0 cannot end MPI: its group of 2 has failed \(.*\), and a thread is still in all_reduce" "$report" ||
        fail "a thread in a call at the end with $flavour: $text; $(cat "$report")"
done
