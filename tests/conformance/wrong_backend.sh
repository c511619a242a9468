#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=240 trees=release,debug
#
# Proves that the conformance suite fails for a wrong backend. It is in a plug-in file, tests/plugin/wrong.c, with one
# fault at a time; without a fault, the same cases pass.
set -u

tutti=${TUTTI_BUILD:?names the build tree}/tutti
unset RANK WORLD_RANK WORLD_SIZE TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_BACKEND TUTTI_CHECK_SABOTAGE TUTTI_CHECK_STARTED
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# expect STATUS PATTERN FAULT FILTER [OPTION...]: the exit code of the suite, and a line of its output (both streams).
expect() {
    local wanted=$1 pattern=$2 fault=$3 filter=$4
    shift 4
    TUTTI_TEST_WRONG=$fault timeout 400 "$tutti" check --plugin "$TUTTI_BUILD/tests/plugin/wrong.so" --backend wrong -n 2 \
        --filter "$filter" "$@" >"$scratch/out" 2>&1
    local status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -Eq -- "$pattern" "$scratch/out"; then
        echo "FAILED: fault '$fault' in $filter: exit code $status (wanted $wanted), wanted a line like '$pattern' in"
        tail -n 20 "$scratch/out" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

expect 0 '^[1-9][0-9]* passed, 0 failed, 0 skipped$' none large-types
for collective in all_reduce reduce reduce_scatter; do
    for dtype in f32 f64; do
        expect 1 "^FAILED $collective/large-types/$dtype/avg/" avg $collective/large-types/$dtype/avg
    done
done
expect 1 '^FAILED all_reduce/large-types/f32/avg/' avg all_reduce/large-types --quick
expect 0 '^[1-9][0-9]* passed, 0 failed, 0 skipped$' none all_reduce/huge
expect 1 '^FAILED all_reduce/huge/.*/in-place$' in_place all_reduce/huge

# A rank that hangs for ten times the deadline ends the run, and its case counts as failed.
expect 1 '^tutti check: rank [01]: deadlines/late/3: the rank hangs: no step for 20 s; its latest operation: (all_reduce|barrier) .*, not ended$' \
    hang deadlines/late/3 --timeout 2
if ! grep -q '^0 passed, 1 failed, 0 skipped$' "$scratch/out"; then
    echo "FAILED: the hanging case is not counted"
    failures=$((failures + 1))
fi

echo "$failures failures"
[ "$failures" -eq 0 ]
