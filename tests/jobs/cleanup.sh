#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A job leaves nothing behind, however it ends: normally, by a rank that exits, or by SIGKILL to a rank, to the
# launcher, or to all processes at once, in the middle of a reduction. The launcher's exit code is that of the first
# cause.
#
# tutti-test: timeout=240
. "$(dirname "$0")/common.inc"

# start RANKS ARGS...: an endless job in the background, with all of its ranks in the loop; sets launcher and pids.
start() {
    local ranks=$1
    shift
    : >"$work/job.out"
    "$tutti" run -n "$ranks" --no-prefix -- "$endless_job" "$@" >"$work/job.out" 2>"$work/job.err" </dev/null &
    launcher=$!
    checks=$((checks + 1))
    eventually has_ready "$ranks" || fail "the ranks of a job do not get into their loop"
    pids=$(sed -n 's/^ready [0-9]* //p' "$work/job.out")
}

has_ready() { # COUNT
    [ "$(grep -c '^ready' "$work/job.out")" -ge "$1" ]
}

ended() { # PID: of a child of this shell
    ! kill -0 "$1" 2>/dev/null || [ "$(awk '/^State:/ {print $2}' "/proc/$1/status" 2>/dev/null)" = Z ]
}

# finish_job CODE WHAT: the launcher ends with CODE.
finish_job() {
    local code=0
    checks=$((checks + 1))
    if ! eventually ended "$launcher"; then
        fail "$2: the launcher does not end"
        kill -KILL "$launcher"
    fi
    wait "$launcher" 2>/dev/null || code=$?
    check_equal "$code" "$1" "$2: exit code"
    check_nothing_left "$2"
}

"$tutti" run -n 3 --no-prefix -- "$sum_job" 5 100 >"$work/job.out" 2>"$work/job.err" </dev/null
check_equal $? 0 "a good job"
check_equal "$(sort "$work/job.out")" "$(printf '5 %d 3 shm\n' 0 1 2)" "a good job"
check_nothing_left "a good job"

for rank in 0 2; do
    start 3 exit $rank 3
    finish_job 3 "rank $rank exits with 3 in the middle"
    check_equal "$(grep -c "rank $rank exited with code 3" "$work/job.err")" 1 "the rank that exited is named"
done

start 3 linger 0 3
finish_job 3 "rank 0's process ends after those of the others"
check_equal "$(grep -c "rank 0 exited with code 3" "$work/job.err")" 1 "the rank that left is named"

# Ranks 0 and 1 are a world of their own, and begin when the launcher has seen rank 2 end with 0.
"$tutti" run -n 3 -- sh -c '
    [ $TUTTI_RANK != 2 ] || { echo $$ >"$0.new"; mv "$0.new" "$0"; exit 0; }
    until [ -e "$0" ] && ! [ -e "/proc/$(cat "$0")" ]; do sleep 0.02; done
    export TUTTI_WORLD_SIZE=2 TUTTI_LOCAL_WORLD_SIZE=2
    exec "$1" linger 0 3' "$work/ended" "$endless_job" >"$work/job.out" 2>"$work/job.err" </dev/null &
launcher=$!
finish_job 3 "a rank that left, after another one had ended well"
check_equal "$(grep -c "rank 0 exited with code 3" "$work/job.err")" 1 "the rank that left is named"

for rank in 1 2 3; do
    start 3
    kill -KILL "$(echo "$pids" | sed -n ${rank}p)"
    finish_job 137 "one of the ranks is killed"
done

start 4
kill -KILL "$launcher"
finish_job 137 "the launcher is killed"

start 3
# shellcheck disable=SC2086
kill -KILL $pids
finish_job 137 "all ranks are killed"

start 3
# shellcheck disable=SC2086
kill -KILL "$launcher" $pids
finish_job 137 "launcher and ranks are killed"

start 3
# shellcheck disable=SC2046
kill -KILL $(leftovers | cut -d" " -f1)
finish_job 137 "launcher, guard and ranks are killed"

start 2
kill -TERM "$launcher"
finish_job 143 "the launcher gets SIGTERM"

# A stopped rank, then all processes are killed: no process waits for the stopped one.
start 3
kill -STOP "$(echo "$pids" | head -n 1)"
kill -KILL "$launcher"
finish_job 137 "a stopped rank"

# Without a launcher that cleans up: ranks with a store of their own.
for rank in 0 1 2; do
    TUTTI_STORE=unix:$TUTTI_TEST_ID TUTTI_RANK=$rank TUTTI_WORLD_SIZE=3 "$endless_job" \
        >"$work/rank$rank.out" 2>"$work/rank$rank.err" </dev/null &
done
loops() {
    [ "$(cat "$work"/rank?.out | grep -c '^ready')" = 3 ]
}
checks=$((checks + 1))
eventually loops || fail "ranks without a launcher"
# shellcheck disable=SC2046
kill -KILL $(sed -n 's/^ready [0-9]* //p' "$work"/rank?.out)
wait
check_nothing_left "ranks without a launcher"

finish
