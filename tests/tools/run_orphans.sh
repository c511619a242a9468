#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No process survives its job: grandchildren, daemons, and everything when the launcher itself is killed.
. "$(dirname "$0")/common.inc"

alive() { [ -d "/proc/$1" ] && [ "$(awk '/^State:/ {print $2}' "/proc/$1/status" 2>/dev/null)" != Z ]; }
gone() { ! alive "$1"; }

check_gone() { # PID WHAT
    checks=$((checks + 1))
    [ -n "$1" ] || fail "$2: no process to look for"
    eventually gone "$1" || fail "$2: process $1 still runs"
}

# A background child of a rank that ended well.
run_tutti run -n 2 sh -c 'sleep 60 & echo child $!'
check_status 0 "a child left behind"
for pid in $(sed -n 's/.*child //p' "$work/out"); do
    check_gone "$pid" "a child left behind"
done
check_count out child 2 "a child left behind"

# A daemon in its own session that ignores SIGTERM.
run_tutti run -n 2 --grace 0.3 "$rank" daemon-exit
check_status 0 "a daemon left behind"
check_count out daemon 2 "a daemon left behind"
for pid in $(sed -n 's/.*daemon //p' "$work/out"); do
    check_gone "$pid" "a daemon left behind"
done

# Grandchildren of a job that fails.
run_tutti run -n 2 --grace 0.3 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec "$0" daemon; fi
    until grep -q daemon "$1"; do sleep 0.02; done; exit 3' "$rank" "$work/out"
check_status 3 "a daemon of a failed job"
check_gone "$(sed -n 's/.*daemon //p' "$work/out")" "a daemon of a failed job"
check_no_processes "a failed job"

# A rank that SIGKILL does not end: the launcher gives up, but what the rank has started in another session ends.
: >"$work/out"
"$tutti" run -n 2 --grace 0 sh -c '
    if [ $TUTTI_RANK = 1 ]; then until [ -e "$1" ]; do sleep 0.02; done; exit 3; fi
    setsid sleep 1000 & echo "rank $$ child $!"; exec "$0" stubborn' "$rank" "$work/held" \
    >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out ready 1
"$rank" hold "$(sed -n 's/.*rank \([0-9]*\) child.*/\1/p' "$work/out")" >"$work/hold.out" &
holder=$!
wait_for_lines hold.out 'holds|fails' 1
: >"$work/held"
wait "$launcher"
status=$?
if grep -q holds "$work/hold.out"; then # not every user may trace a process
    check_status 125 "a rank that does not end"
    check_line err '1 process did not die of SIGKILL' "a rank that does not end"
    check_gone "$(sed -n 's/.*child //p' "$work/out")" "a child of a rank that does not end"
    kill "$holder"
fi
wait "$holder" 2>/dev/null
check_no_processes "a rank that did not end"

# The launcher is killed: ranks, their children and daemons all end.
: >"$work/out"
"$tutti" run -n 2 sh -c 'sleep 60 & "$0" daemon & echo ready; "$0" stubborn' "$rank" \
    >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out 'ready' 4
wait_for_lines out 'daemon' 2
kill -KILL "$launcher"
wait "$launcher"
status=$?
check_status 137 "the launcher was killed"
for pid in $(sed -n 's/.*daemon //p' "$work/out"); do
    check_gone "$pid" "a daemon after the launcher was killed"
done
check_no_processes "the launcher was killed"

# The guard is killed first: signals still arrive, and the ranks still die with the launcher.
guard_of() {
    grep -ls "^PPid:[[:space:]]$1\$" /proc/[0-9]*/status | while read -r child; do
        [ "$(cat "${child%status}comm")" = tutti-guard ] && basename "${child%/status}"
    done
}
: >"$work/out"
"$tutti" run -n 2 "$rank" catch >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out ready 2
has_guard() {
    guard=$(guard_of "$launcher")
    [ -n "$guard" ]
}
eventually has_guard # its name comes after its fork
kill -KILL "$guard"
check_gone "$guard" "the guard"
kill -USR1 "$launcher"
wait_for_lines out 'caught SIGUSR1' 2
kill -KILL "$launcher"
wait "$launcher"
check_no_processes "guard and launcher were killed"

# Two jobs at once: killing one leaves the other alone.
"$tutti" run -n 2 sh -c 'echo ready; exec sleep 60' >"$work/one" 2>/dev/null </dev/null &
first=$!
: >"$work/out"
"$tutti" run -n 2 "$rank" catch >"$work/out" 2>"$work/err" </dev/null &
second=$!
wait_for_lines one ready 2
wait_for_lines out ready 2
kill -KILL "$first"
wait "$first" 2>/dev/null
kill -USR1 "$second"
wait_for_lines out 'caught SIGUSR1' 2
kill -TERM "$second"
wait "$second"
status=$?
check_status 0 "the other job"

# A launcher inside a rank of a launcher ends with it.
run_tutti run -n 1 --timeout 1 --grace 0.5 "$tutti" run -n 2 "$rank" stubborn
check_status 124 "a nested launcher"
check_no_processes "a nested launcher"

# The outer launcher is killed: its guard spares that of the inner launcher, which has not yet ended its own job here.
: >"$work/out"
"$tutti" run -n 1 "$tutti" run -n 1 sh -c 'sleep 1000 & echo "inner $PPID"; wait' >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out inner 1
have_guards() { # with their names, and nothing open but what they need
    outer=$(guard_of "$launcher")
    inner=$(guard_of "$(sed -n 's/inner //p' "$work/out")")
    [ -n "$outer" ] && [ -n "$inner" ] && [ "$(ls -m "/proc/$inner/fd")" = '0, 1, 2, 3' ]
}
checks=$((checks + 1))
eventually have_guards || fail "there are not two guards"
exec 9>"/proc/$inner/fd/3" # the guard waits for the end of the last writer
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
check_gone "$outer" "the guard of the outer job"
checks=$((checks + 1))
alive "$inner" || fail "the guard of the inner job was killed"
exec 9>&-
check_gone "$inner" "the guard of the inner job"
check_no_processes "the outer launcher was killed"

finish
