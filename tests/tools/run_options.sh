#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The command line: refused options and the reasons, --dry-run, --cpus, --bind-to, and where options end.
. "$(dirname "$0")/common.inc"

refused() { # REGEX ARGS...
    expected=$1
    shift
    run_tutti run "$@"
    check_status 2 "run $*"
    check_line err "$expected" "run $*"
    check_line err 'Try .tutti run --help' "run $*"
}

for bad in 0 -1 x 2x '' 4097 99999999999999999999 1.5 ' 2'; do
    refused "^tutti run: -n takes a number of ranks from 1 to 4096, or auto, not '$bad'" -n "$bad" true
done
refused "^tutti run: -n takes a number of ranks from 1 to 4096, or auto, not 'x'" -np x true
refused 'which program\?'
refused 'which program\?' -n 2 --
refused "^tutti run: --timeout takes seconds .*, not '5x'" --timeout 5x true
refused '--timeout must be more than 0' --timeout 0 true
refused "--timeout takes seconds .*, not '-1'" --timeout=-1 true
refused "--grace takes seconds" --grace nan true
refused "--env takes KEY=VALUE, not 'NAME'" --env NAME true
refused "--env takes KEY=VALUE, not '=x'" --env =x true
refused 'the launcher sets TUTTI_RANK for each rank' --env TUTTI_RANK=3 true
refused "--bind-to takes core, numa or none, not 'socket'" --bind-to socket true
refused "--cpus takes CPU numbers .*, not '1-'" --cpus 1- true
refused "--cpus takes CPU numbers .*, not '3-1'" --cpus 3-1 true
refused "CPU 60000 is not available here" --cpus 60000 true
refused '--only-rank 2: the job has ranks 0 to 1' -n 2 --only-rank 2 true
refused "--only-rank takes a number from 0" --only-rank -1 true
refused "--max-restarts takes a number from 0" --max-restarts many true
refused '--backend takes a name' --backend '' true
refused 'which node is this one' --nnodes 2 true
refused "--master-addr takes the name or address of a host, not 'a b'" --master-addr 'a b' true
refused "--master-addr takes the name or address of a host, not ''" --master-addr '' true

run_tutti run -np 2 --dry-run true
check_status 0 "-np"
check_count out 'TUTTI_RANK=' 2 "-np"
run_tutti run --help
check_status 0 "--help"
check_line out '^Usage: tutti run \[OPTION\.\.\.\]' "--help"
check_line out 'tutti run -n 4 --timeout 10m' "--help has examples"

# Options of the program are the program's.
run_tutti run -n 1 echo -n 3 --timeout x
check_equal "$(cat "$work/out")" "3 --timeout x" "options end at the program"
run_tutti run -n 1 -- printf '%s\n' --help
check_equal "$(cat "$work/out")" "--help" "options end at --"

# auto and the default: the affinity mask (and a quota, which can only make it fewer).
cpu=$(awk '/^Cpus_allowed_list:/ {print $2}' /proc/self/status | sed 's/[,-].*//')
taskset -c "$cpu" "$tutti" run sh -c 'echo $TUTTI_WORLD_SIZE' >"$work/out" 2>"$work/err" </dev/null
check_equal "$(cat "$work/out")" "1" "one CPU in the mask, one rank"
run_tutti run -n auto --cpus "$cpu" sh -c 'echo $TUTTI_WORLD_SIZE; grep Cpus_allowed_list /proc/self/status'
check_line out '^1$' "--cpus counts for auto"
check_line out "^Cpus_allowed_list:[[:space:]]$cpu\$" "--cpus binds"

# More ranks than CPUs share them.
run_tutti run -n 5 --cpus "$cpu" --bind-to core grep Cpus_allowed_list /proc/self/status
check_status 0 "oversubscription"
check_count out "Cpus_allowed_list:[[:space:]]$cpu\$" 5 "oversubscription"
run_tutti run -n 2 --bind-to numa true
check_status 0 "--bind-to numa"

# With at least as many cores as ranks no CPU is shared.
if [ "$(nproc)" -ge 2 ]; then
    cores=$(cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list 2>/dev/null | sort -u | wc -l)
    if [ "$cores" -ge 2 ]; then
        run_tutti run -n 2 --no-prefix --bind-to core grep Cpus_allowed_list /proc/self/status
        check_equal "$(sort -u "$work/out" | wc -l)" 2 "--bind-to core separates"
    fi
fi

# --dry-run starts nothing and prints what a shell can run.
run_tutti run -n 2 --dry-run --backend local --env 'GREETING=hello world' \
    sh -c 'echo $TUTTI_RANK $GREETING >&2; touch "$0"' "$work/started"
check_status 0 "--dry-run"
check_count out '^# rank [01] on CPUs [0-9,-]+$' 2 "--dry-run"
check_count out '^env TUTTI_RANK=[01] TUTTI_WORLD_SIZE=2 .*TUTTI_BACKEND=local' 2 "--dry-run"
check_equal "$(ls "$work/started" 2>/dev/null)" "" "--dry-run starts nothing"
sh "$work/out" 2>"$work/err"
check_line err '^1 hello world$' "what --dry-run prints can be run"

run_tutti run -n 2 --verbose true
check_line err '^tutti run: job run-[0-9]+-[0-9a-f]{16}, 2 ranks of ' "--verbose"
check_count err '^tutti run: rank [01] started \(pid [0-9]+' 2 "--verbose"
check_count err '^tutti run: rank [01] ended after ' 2 "--verbose"

finish
