#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How a job ends: exit codes, which rank failed first, --timeout, --grace, --max-restarts, programs that cannot be
# started.
. "$(dirname "$0")/common.inc"

run_tutti run -n 3 true
check_status 0 "all ranks end well"
check_equal "$(cat "$work/out" "$work/err")" "" "a good job is silent"

run_tutti run -n 3 -- sh -c 'if [ $TUTTI_RANK = 1 ]; then exit 3; fi; exec sleep 60'
check_status 3 "the failing rank's code"
check_line err '^tutti run: rank 1 exited with code 3 after [0-9]+\.[0-9] s \(pid [0-9]+\)$' "the rank that failed is named"
check_count err 'rank [0-9]' 1 "only the suspect is named"

run_tutti run -n 3 sh -c 'if [ $TUTTI_RANK = 2 ]; then kill -SEGV $$; fi; exec sleep 60'
check_status 139 "128 + SIGSEGV"
check_line err '^tutti run: rank 2 killed by SIGSEGV after [0-9]+\.[0-9] s \(pid [0-9]+(, core dumped)?\)$' "the rank that died is named"

run_tutti run -n 2 sh -c 'if [ $TUTTI_RANK = 0 ]; then kill -KILL $$; fi; exec sleep 60'
check_status 137 "128 + SIGKILL"
check_line err 'rank 0 killed by SIGKILL' "the rank that was killed is named"

# The witness notices the victim's death and fails before the kernel has ended the victim: the launcher still names the
# victim.
run_tutti run -n 3 sh -c 'case $TUTTI_RANK in 2) what=victim ;; 0) what=witness ;; *) exec sleep 60 ;; esac
    exec "$0" $what "$1"' "$rank" "$work/victim"
check_status 137 "the victim, not the witness"
check_line err 'rank 2 killed by SIGKILL' "the victim, not the witness"
check_no_line err 'rank 0' "the victim, not the witness"

# Two ranks fail while the launcher is stopped (rank 1 stops it, rank 2 continues it): it names the earlier one.
run_tutti run -n 3 sh -c '
    state() { awk "/^State:/ {print \$2}" "/proc/$1/status" 2>/dev/null; }
    await() { until [ "$(state "$1")" = "$2" ]; do sleep 0.02; done; }
    echo $$ >"$0.$TUTTI_RANK.new" && mv "$0.$TUTTI_RANK.new" "$0.$TUTTI_RANK"
    until [ -e "$0.0" ] && [ -e "$0.1" ] && [ -e "$0.2" ]; do sleep 0.02; done
    case $TUTTI_RANK in
    0) await "$(cat "$0.1")" Z; exit 4 ;;
    1) kill -STOP $PPID; await $PPID T; exit 3 ;;
    2) await "$(cat "$0.0")" Z; kill -CONT $PPID; exec sleep 60 ;;
    esac' "$work/rank"
check_status 3 "the first of two failures"
check_line err 'rank 1 exited with code 3' "the first of two failures"

run_tutti run -n 1 sh -c 'exit 7'
check_status 7 "one rank"
check_line err 'rank 0 exited with code 7' "one rank"

# A rank that ignores SIGTERM, as it does once it is ready, is killed after the grace period.
run_tutti run -n 2 --grace 0.3 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec "$0" stubborn; fi
    until grep -q ready "$1"; do sleep 0.02; done; exit 5' "$rank" "$work/out"
check_status 5 "grace"
check_line err '1 rank did not end within 0\.3 s of SIGTERM: killing' "grace"

run_tutti run -n 2 --grace 0 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec "$0" stubborn; fi
    until grep -q ready "$1"; do sleep 0.02; done; exit 6' "$rank" "$work/out"
check_status 6 "no grace"

# The same of ranks that have left the job's process group, and of what they have started.
for apart in setsid 'timeout 120'; do
    run_tutti run -n 2 --grace 60 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec '"$apart"' sh -c "echo ready; exec sleep 120"; fi
        until grep -q ready "$0"; do sleep 0.02; done; exit 7' "$work/out"
    check_status 7 "a rank under $apart ends on SIGTERM"
    check_line err 'rank 1 exited with code 7' "a rank under $apart ends on SIGTERM"
    check_no_line err 'killing|did not die' "a rank under $apart ends on SIGTERM"
    check_no_processes "a rank under $apart ends on SIGTERM"

    run_tutti run -n 2 --grace 0.3 sh -c 'if [ $TUTTI_RANK = 0 ]; then exec '"$apart"' "$0" stubborn; fi
        until grep -q ready "$1"; do sleep 0.02; done; exit 8' "$rank" "$work/out"
    check_status 8 "a rank under $apart ignores SIGTERM"
    check_no_line err 'did not die' "a rank under $apart ignores SIGTERM"
    check_no_processes "a rank under $apart ignores SIGTERM"
done

run_tutti run -n 2 --timeout 0.5 sleep 60
check_status 124 "--timeout"
check_line err '^tutti run: the job ran longer than 0\.5 s \(--timeout\): ending it$' "--timeout"

run_tutti run -n 2 --timeout 0.5 --grace 0.3 "$rank" stubborn
check_status 124 "--timeout with stubborn ranks"

run_tutti run -n 2 --timeout 60 true
check_status 0 "--timeout that is not reached"

# A stopped rank is ended too.
run_tutti run -n 2 sh -c 'if [ $TUTTI_RANK = 0 ]; then kill -STOP $$; fi; sleep 0.3; exit 4'
check_status 4 "a stopped rank does not hold up the end"

# Restarts: every try has its own job and number; the third one succeeds.
run_tutti run -n 2 --max-restarts 3 sh -c 'echo "try $TUTTI_RESTART_COUNT at $TUTTI_STORE"; sleep 0.2
    [ $TUTTI_RESTART_COUNT = 2 ]'
check_status 0 "restarts until it works"
check_count err 'restarting all ranks' 2 "restarts"
check_line err '^tutti run: restarting all ranks \(2 of 3\)$' "restarts"
check_equal "$(grep -Eo 'unix:[^ ]+' "$work/out" | sort -u | wc -l)" 3 "a new store for every try"

run_tutti run -n 2 --max-restarts 1 sh -c 'exit 9'
check_status 9 "restarts used up"
check_count err 'restarting all ranks' 1 "restarts used up"
check_count err 'exited with code 9' 2 "restarts used up"

run_tutti run -n 1 --max-restarts 2 --timeout 0.3 sleep 60
check_status 124 "--timeout is not a reason to restart"
check_no_line err 'restarting' "--timeout is not a reason to restart"

# Programs that cannot be started.
run_tutti run -n 2 there-is-no-such-program
check_status 127 "not found"
check_line err "^tutti run: cannot find the program 'there-is-no-such-program'\$" "not found"

run_tutti run -n 2 ./there/is/none
check_status 127 "not found by path"

echo 'print(1)' >"$work/script.py"
run_tutti run -n 2 "$work/script.py"
check_status 126 "not executable"
check_line err 'is not executable; a Python script is started with: python3 ' "not executable"

run_tutti run -n 2 /
check_status 126 "a directory"
check_line err 'is a directory' "a directory"

printf '#!/no/such/interpreter\n' >"$work/bad"
chmod +x "$work/bad"
run_tutti run -n 2 "$work/bad"
check_status 126 "missing interpreter"
check_line err 'interpreter or loader that it names is missing' "missing interpreter"

printf 'echo plain $TUTTI_RANK $1\n' >"$work/plain"
chmod +x "$work/plain"
run_tutti run -n 2 "$work/plain" word
check_status 0 "a script without interpreter line"
check_line out '^\[1\] plain 1 word$' "a script without interpreter line"

finish
