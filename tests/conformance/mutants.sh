#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=65 timeout=600 trees=release,debug
#
# Proves that the conformance suite can fail. For every collective, and for every kind of fault that the harness checks,
# one rank's output is changed after the call (TUTTI_CHECK_SABOTAGE, see tools/check/sabotage.c), and the suite has to
# exit with 1, to name that collective, and to count its failures. Without the change, the same cases have to pass.
set -u

tutti=${TUTTI_BUILD:?names the build tree}/tutti
unset RANK WORLD_RANK WORLD_SIZE TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_BACKEND TUTTI_CHECK_SABOTAGE TUTTI_CHECK_STARTED
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
proved=0

fail() {
    echo "FAILED: $1"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 30
    failures=$((failures + 1))
}

# check SABOTAGE FILTER: runs the suite on two threads; the status is in $status.
check() {
    TUTTI_CHECK_SABOTAGE=$1 timeout 400 "$tutti" check --backend local -n 2 --quick --timeout 20 --filter "$2" \
        >"$scratch/out" 2>"$scratch/err"
    status=$?
}

# A collective's numbers in the table: passed, failed, skipped.
row() {
    awk -v name="$1" '$1 == name && NF == 5 { print $2, $3, $4 }' "$scratch/out"
}

caught() {
    local collective=$1 what=$2 passed failed skipped
    check "$collective:$what" "$3"
    read -r passed failed skipped <<<"$(row "$collective")"
    if [ "$status" -ne 1 ]; then
        fail "$collective:$what: exit code $status instead of 1"
    elif [ "${failed:-0}" -lt 1 ]; then
        fail "$collective:$what: the table shows no failure of $collective"
    elif ! grep -q "^FAILED $collective/" "$scratch/out"; then
        fail "$collective:$what: no failed case is named"
    elif ! grep -q "rank 1: $collective/" "$scratch/err"; then
        fail "$collective:$what: the changed rank does not report what is wrong"
    elif ! tail -n 1 "$scratch/out" | grep -Eq '^[0-9]+ passed, [1-9][0-9]* failed, [0-9]+ skipped$'; then
        fail "$collective:$what: the last line is not the count"
    else
        proved=$((proved + 1))
    fi
}

regular="all_reduce reduce broadcast all_gather all_gather_v gather scatter reduce_scatter reduce_scatter_v all_to_all
    all_to_all_v"
chapters="barrier p2p strides group mismatch lanes soak async cancel deadlines async_soak"

# The list here must equal the table in the program.
listed=$("$tutti" check --list --quick -n 2 | cut -d/ -f1 | sort -u | tr '\n' ' ')
expected=$(printf '%s\n' $regular $chapters | sort -u | tr '\n' ' ')
if [ "$listed" != "$expected" ]; then
    echo "FAILED: the suite's collectives are '$listed', this script knows '$expected'"
    failures=$((failures + 1))
fi

for collective in $regular; do
    # a chapter that every regular collective has, and that has all kinds of outputs
    check "" "$collective/layouts/f32"
    if [ "$status" -ne 0 ]; then
        fail "$collective fails without the change"
    fi
    for what in result async guard status; do
        caught "$collective" "$what" "$collective/layouts/f32"
    done
    # only the root's tensor is an input of broadcast, so the changed rank has to be the root
    case $collective in
    broadcast) caught broadcast input broadcast/roots ;;
    *) caught "$collective" input "$collective/layouts/f32" ;;
    esac
done
for collective in $chapters; do
    check "" "$collective/"
    if [ "$status" -ne 0 ]; then
        fail "$collective fails without the change"
    fi
    for what in result async status; do
        # the sequences by chance run other collectives under their own name
        caught "$collective" "$what" "$collective/"
    done
done

# A name that is no collective changes nothing, and a run without cases does not succeed.
check "nothing" "all_reduce/roots"
if [ "$status" -ne 1 ] || ! grep -q '^0 passed, 0 failed, 0 skipped$' "$scratch/out"; then
    fail "a filter that matches nothing has to exit with 1"
fi

echo "$proved faults caught, $failures failures"
[ "$failures" -eq 0 ]
