#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Signals to the launcher reach the ranks; SIGINT twice kills; ignored ones stay ignored.
. "$(dirname "$0")/common.inc"

# start ARGS: in the background, with SIGINT as in a terminal (a shell ignores it for background jobs).
start() {
    : >"$work/out"
    env --default-signal=INT,QUIT "$tutti" "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

end() {
    wait "$launcher"
    status=$?
}

start run -n 2 "$rank" catch
wait_for_lines out ready 2
for name in USR1 USR2 HUP INT; do
    kill -"$name" "$launcher"
    wait_for_lines out "caught SIG$name" 2
done
kill -TERM "$launcher"
end
check_status 0 "ranks that end well on SIGTERM"
check_count out 'caught SIGTERM' 2 "SIGTERM once for each rank"

start run -n 2 sh -c 'echo ready; exec sleep 60'
wait_for_lines out ready 2
kill -TERM "$launcher"
end
check_status 143 "ranks die of the forwarded SIGTERM"
check_line err 'rank [01] killed by SIGTERM' "forwarded SIGTERM"

start run -n 2 sh -c 'echo ready; exec sleep 60'
wait_for_lines out ready 2
kill -INT "$launcher"
end
check_status 130 "ranks die of the forwarded SIGINT"

none_pending() { grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$launcher/status"; }
start run -n 2 --grace 60 "$rank" stubborn
wait_for_lines out ready 2
kill -INT "$launcher"
checks=$((checks + 1))
eventually none_pending || fail "the launcher does not take SIGINT" # two pending signals would count as one
kill -INT "$launcher"
end
check_status 130 "SIGINT twice"
check_line err 'interrupted again: killing all ranks' "SIGINT twice"
check_no_processes "SIGINT twice"

# nohup: a signal that the launcher ignores is not passed on.
: >"$work/out"
env --ignore-signal=HUP "$tutti" run -n 2 "$rank" catch >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out ready 2
kill -HUP "$launcher"
kill -USR1 "$launcher"
wait_for_lines out 'caught SIGUSR1' 2
kill -TERM "$launcher"
end
check_status 0 "nohup"
check_no_line out 'SIGHUP' "nohup"

# Ranks that die of a signal that was passed on are not started again; ranks that handle it and fail later are.
for name in USR1 USR2 TERM; do
    start run -n 2 --max-restarts 1 sh -c 'echo ready; [ $TUTTI_RESTART_COUNT = 1 ] || exec sleep 120'
    wait_for_lines out ready 2
    kill -"$name" "$launcher"
    end
    check_status $((128 + $(kill -l "$name"))) "ranks that die of SIG$name"
    check_no_line err restarting "ranks that die of SIG$name"
done
start run -n 2 --max-restarts 1 sh -c '
    trap "exit 3" USR1; echo ready; [ $TUTTI_RESTART_COUNT = 1 ] && exit 0; while :; do sleep 0.05; done'
wait_for_lines out ready 2
kill -USR1 "$launcher"
end
check_status 0 "ranks that handle SIGUSR1 and fail"
check_count err restarting 1 "ranks that handle SIGUSR1 and fail"

# Whole groups: a rank's own children get the signal too.
start run -n 1 sh -c 'trap : USR2; "$0" catch & wait; wait' "$rank"
wait_for_lines out ready 1
kill -USR2 "$launcher"
wait_for_lines out 'caught SIGUSR2' 1
kill -TERM "$launcher"
end
check_no_processes "a rank's children"

# Ranks that have left the job's process group: rank 0 leads a group of its own, rank 1 is in that of its child.
start run -n 2 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec setsid "$0" catch; fi; exec "$0" guest' "$rank"
wait_for_lines out ready 2
kill -HUP "$launcher"
wait_for_lines out 'caught SIGHUP' 2
kill -TERM "$launcher"
end
check_status 0 "ranks outside the job's group"
check_count out 'caught SIG(HUP|TERM)' 4 "ranks outside the job's group get each signal once"
check_no_processes "ranks outside the job's group"

start run -n 2 timeout 120 sh -c 'echo ready; sleep 120 & wait'
wait_for_lines out ready 2
kill -TERM "$launcher"
end
check_status 143 "a command with a group of its own"
check_no_processes "a command with a group of its own"

# Stopped and continued as one. The ranks start no processes: a shell whose child stops between vfork and exec waits for
# it in state D, not T.
start run -n 2 sh -c 'echo ready; exec sleep 120'
wait_for_lines out ready 2
state_of() { awk '/^State:/ {print $2}' "/proc/$1/status" 2>/dev/null; }
rank_states() {
    grep -ls "^PPid:[[:space:]]$launcher\$" /proc/[0-9]*/status | while read -r child; do
        [ "$(cat "${child%status}comm")" != tutti-guard ] && awk '/^State:/ {print $2}' "$child"
    done | sort -u | tr -d '\n'
}
all_stopped() { [ "$(rank_states)" = T ] && [ "$(state_of "$launcher")" = T ]; }
none_stopped() { [[ "$(rank_states)" =~ ^[SR]+$ ]]; }
kill -TSTP "$launcher"
checks=$((checks + 1))
eventually all_stopped || fail "SIGTSTP: ranks are $(rank_states), launcher is $(state_of "$launcher")"
kill -CONT "$launcher"
checks=$((checks + 1))
eventually none_stopped || fail "SIGCONT: ranks are $(rank_states)"
kill -TERM "$launcher"
end
check_status 143 "after SIGCONT"

finish
