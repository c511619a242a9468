#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: seconds=70 timeout=300 trees=release,debug
# A host vanishes, or its link is cut: the launchers on all other hosts end in time and name it. A job that is killed
# from outside leaves nothing behind on any host.
# tutti-test: timeout=300
. "$(dirname "$0")/common.inc"
silence="--run-option=--node-timeout --run-option=30"

# A host that does not serve the store. `stay` does not end by itself: its launcher must end it.
run_hosts --hosts 3 --ranks 1,2,1 $silence --since hello --drop 1@0.3 -- "$hello" stay
check_status 125 "host1 is dropped"
for host in host0 host2; do
    check_line err "^\[$host\] tutti run: node 1 \(host1\) is lost: no message of it has arrived for 30\.0 s" "$host names host1"
done
check_count err 'is lost' 2 "no other host is named"

# The host that serves the store.
run_hosts --hosts 2 --ranks 1 $silence --since here --cut 0@0.3 -- sh -c 'echo here; exec sleep 200'
check_status 125 "the link of host0 is cut"
check_line err '^\[host1\] tutti run: node 0 \(host0\) is lost: ' "host1 names host0"
check_line err '^\[host0\] tutti run: node 1 \(host1\) is lost: ' "and the other way round"

# A rank fails: the launcher of every node names it, and exits with its code.
run_hosts --hosts 2 --ranks 2 -- sh -c '[ $TUTTI_RANK != 3 ] || kill -SEGV $$; exec sleep 200'
check_status 139 "a rank dies"
check_count err 'rank 3 on node 1 \(host1\) killed by SIGSEGV after ' 2 "both nodes name it"
check_count err 'tutti run:' 2 "and no other rank"

# The script that makes the hosts is killed: nothing outlives it.
"$hosts" run --tutti "$build/tutti" --hosts 2 --ranks 2 -- "$hello" stay >"$work/out" 2>"$work/err" </dev/null &
script=$!
both_stay() {
    [ "$(grep -c hello "$work/out")" = 4 ]
}
checks=$((checks + 1))
eventually both_stay || fail "the job that is to be killed has not begun"
kill -KILL $script
wait $script 2>/dev/null
check_no_processes "after SIGKILL to scripts/hosts"

finish
