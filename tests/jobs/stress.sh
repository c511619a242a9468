#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A hundred short jobs in a row: each begins, adds, runs a barrier and ends; none hangs, fails or leaves anything. Half
# of them run beside processes that load every CPU, so that ranks are preempted at any place.
#
# tutti-test: timeout=300 trees=release,debug
. "$(dirname "$0")/common.inc"

jobs() { # COUNT WHAT
    local i
    for ((i = 1; i <= $1; i++)); do
        timeout --signal=KILL 400 "$tutti" run -n 3 --no-prefix -- "$sum_job" $i \
            >"$work/job.out" 2>"$work/job.err" </dev/null
        check_equal $? 0 "job $i $2"
        check_equal "$(sort "$work/job.out")" "$(printf "$i %d 3 shm\n" 0 1 2)" "job $i $2"
        [ $failures -lt 3 ] || finish
    done
    check_nothing_left "$1 jobs $2"
}

jobs 50 "in a row"

hogs=()
trap 'kill "${hogs[@]}" 2>/dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < $(nproc); i++)); do
    while :; do :; done &
    hogs+=($!)
done
jobs 50 "beside processes that use every CPU"
kill "${hogs[@]}"
wait "${hogs[@]}" 2>/dev/null

finish
