#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: timeout=240
# A job that goes on when a rank fails: exit codes, messages, and the example that trains on with the remaining ranks.
. "$(dirname "$0")/common.inc"

survive=$build/examples/survive
if [ ! -x "$survive" ]; then
    echo "skipped: $survive is not built"
    exit 77
fi

# With and without a death the model is the same: the remaining ranks go on from the last step that all had finished.
for victim in 0 2; do
    run_tutti run -n 3 --keep-going --timeout 400 -- "$survive" --kill $victim --at 50 --steps 400
    check_status 0 "rank $victim dies"
    check_line err "^tutti run: rank $victim killed by SIGKILL after .*; 2 go on\$" "rank $victim dies"
    check_line out "step 50: .*rank $victim \\(process [0-9]+\\)" "the remaining ranks name it"
    check_count out '^\[[0-9]\] 2 ranks go on from step 49$' 2 "both remaining ranks go on"
    check_line out '400 steps on 2 ranks at the end: .*the same parameters everywhere' "they finish all steps"
done

run_tutti run -n 2 --timeout 400 -- "$survive" --steps 400
check_status 0 "no rank dies"
check_line out '400 steps on 2 ranks' "no rank dies"

# Without the option the launcher ends all of them.
run_tutti run -n 3 --timeout 400 -- sh -c 'if [ $TUTTI_RANK = 1 ]; then kill -KILL $$; fi; exec sleep 100'
check_status 137 "without --keep-going"

run_tutti run -n 3 --keep-going -- sh -c 'exit $((TUTTI_RANK + 3))'
check_no_line err ' 0 go' "all fail"
for index in 0 1 2; do
    check_count err "^tutti run: rank $index exited with code $((index + 3)) after" 1 "all fail: each is named once"
done
[ "$status" -ge 3 ] && [ "$status" -le 5 ] || fail "all fail: exit code $status"

run_tutti run -n 2 --keep-going -- sh -c 'exit $((TUTTI_RANK * 3))'
check_status 0 "one fails, whichever ends last"
check_line err 'rank 1 exited with code 3' "one fails"

run_tutti run --keep-going --nnodes 2 --node-rank 0 --master-addr localhost true
check_status 2 "several nodes"
check_line err 'keep-going works on one node' "several nodes"
finish
