#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Output and input: prefixes, whole lines, cut lines, logs, one rank only, progress bars, standard input, terminals.
. "$(dirname "$0")/common.inc"

run_tutti run -n 2 sh -c 'echo out $TUTTI_RANK; echo err $TUTTI_RANK >&2'
check_equal "$(sort "$work/out")" "$(printf '[0] out 0\n[1] out 1')" "standard output"
check_equal "$(sort "$work/err")" "$(printf '[0] err 0\n[1] err 1')" "standard error"

run_tutti run -n 1 echo alone
check_equal "$(cat "$work/out")" "alone" "no prefix for one rank"

run_tutti run -n 2 --no-prefix echo same
check_equal "$(cat "$work/out")" "$(printf 'same\nsame')" "--no-prefix"

run_tutti run -n 3 --only-rank 1 sh -c 'echo out $TUTTI_RANK; echo err $TUTTI_RANK >&2'
check_equal "$(cat "$work/out")" "out 1" "--only-rank"
check_equal "$(cat "$work/err")" "err 1" "--only-rank"

run_tutti run -n 2 printf 'no newline'
check_equal "$(sort "$work/out")" "$(printf '[0] no newline\n[1] no newline')" "unfinished lines are finished"

run_tutti run -n 2 printf 'a\n\nb\n'
check_count out '^\[[01]\] $' 2 "empty lines stay"

# Many lines at once never mix, and none is lost.
run_tutti run -n 3 "$rank" many 5000
check_status 0 "many lines"
check_count out '^\[([0-2])\] rank \1 line [0-9]+ of the many lines that must not be mixed$' 15000 "many lines"
check_equal "$(wc -l <"$work/out")" 15000 "many lines"
check_equal "$(grep '^\[2\]' "$work/out" | awk '{print $5}' | sort -n -c 2>&1)" "" "lines of one rank keep their order"

# A huge line is cut between characters; nothing is lost.
run_tutti run -n 2 "$rank" line 200000
check_status 0 "a huge line"
check_equal "$(grep '^\[1\] ' "$work/out" | cut -c5- | tr -d '\n' | wc -c)" 200000 "a huge line is complete"
check_equal "$(iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null 2>&1; echo $?)" 0 "a huge line is cut between characters"
# Exactly as long as the buffer: no empty line behind it.
run_tutti run -n 2 "$rank" line 32768
check_count out '^\[0\]' 1 "a line as long as the buffer"

# Progress bars: rank 0's is drawn; of the other ranks' only the last state is kept. Rank 1 begins when rank 0 has
# ended: how lines and bars interrupt one another is tested below, on a terminal.
run_tutti run -n 2 sh -c '
    [ $TUTTI_RANK = 0 ] || until [ -e "$1" ]; do sleep 0.05; done
    "$2" progress
    [ $TUTTI_RANK = 1 ] || { until grep -q done "$3"; do sleep 0.05; done; : >"$1"; }' - "$work/ended" "$rank" "$work/out"
check_equal "$(tr '\r' '\n' <"$work/out" | grep -cE '\[1\] +(0|25|50|75)%')" 0 "only rank 0 draws"
check_equal "$(grep '^\[1\]' "$work/out")" "$(printf '[1] 100%%\n[1] done')" "the last state of a bar"
check_line out '^\[0\] done$' "rank 0 after its bar"
check_equal "$(tr '\r' '\n' <"$work/out" | grep -c '^\[0\] *[0-9]*%$')" 5 "all states of rank 0's bar"
run_tutti run -n 2 printf 'dos\r\n'
check_equal "$(sort "$work/out" | od -An -c | tr -d ' \n')" '[0]dos\r\n[1]dos\r\n' "carriage return before newline"

# Logs hold everything as it was, with or without being shown.
run_tutti run -n 2 --log-dir "$work/logs/deep" --only-rank 0 sh -c 'echo out $TUTTI_RANK; echo err $TUTTI_RANK >&2'
check_status 0 "--log-dir"
check_equal "$(cat "$work/logs/deep/rank-1.out")" "out 1" "log of standard output"
check_equal "$(cat "$work/logs/deep/rank-1.err")" "err 1" "log of standard error"
check_equal "$(cat "$work/logs/deep/rank-0.out")" "out 0" "log of the rank that is shown"
check_equal "$(cat "$work/out")" "out 0" "--log-dir with --only-rank"
run_tutti run -n 1 --log-dir "$work/logs" --max-restarts 1 sh -c 'echo try $TUTTI_RESTART_COUNT; exit 1'
check_equal "$(cat "$work/logs/rank-0.out")" "$(printf 'try 0\ntry 1')" "a restart continues the log"
mkdir "$work/full"
ln -s /dev/full "$work/full/rank-0.out"
run_tutti run -n 1 --log-dir "$work/full" sh -c 'echo one; echo two'
check_status 0 "a log on a full disk"
check_equal "$(cat "$work/out")" "$(printf 'one\ntwo')" "output without its log"
check_count err '^tutti run: rank 0: its log of stdout ends here, since it cannot be written: No space left' 1 "a full disk"
run_tutti run -n 1 --log-dir /proc/no true
check_status 125 "--log-dir that cannot be made"
check_line err 'cannot create the directory /proc/no' "--log-dir that cannot be made"

# Standard output on a full disk: the launcher says so, in its exit code as well, if no rank dies of it.
"$tutti" run -n 2 --only-rank 0 sh -c 'echo $TUTTI_RANK' >/dev/full 2>"$work/err" </dev/null
status=$?
check_status 125 "standard output on a full disk"
check_equal "$(cat "$work/err")" "tutti run: standard output cannot be written: No space left on device" \
    "standard output on a full disk"
"$tutti" run -n 2 yes >/dev/full 2>"$work/err" </dev/null
status=$?
check_status 141 "much standard output on a full disk"
check_count err '^tutti run: standard output cannot be written: No space left' 1 "much standard output on a full disk"
"$tutti" run -n 2 --only-rank 0 sh -c 'echo $TUTTI_RANK >&2' 2>/dev/full >"$work/out" </dev/null
status=$?
check_status 125 "standard error on a full disk"

# A reader that takes nothing: the launcher waits for it until --timeout or a signal, and says that output is lost.
mkfifo "$work/unread"
exec 3<>"$work/unread"
run_unread() { # SIGNAL ARGS: a signal comes when the ranks have ended
    local signal=$1
    shift
    : >"$work/err"
    env --default-signal=INT "$tutti" run -n 2 -v "$@" >"$work/unread" 2>"$work/err" </dev/null 3>&- &
    wait_for_lines err 'rank [01] (ended|exited)|incomplete' 2
    [ "$signal" = none ] || kill -"$signal" $!
    wait $!
    status=$?
}
incomplete="^tutti run: the ranks' output is incomplete: its reader had not taken all of it before"
run_unread none --timeout 5 "$rank" line 200000
check_status 124 "output that is not read before --timeout"
check_count err "$incomplete --timeout\$" 1 "output that is not read before --timeout"
for name in INT TERM HUP; do
    run_unread $name "$rank" line 200000
    check_status $((128 + $(kill -l $name))) "output that is not read before SIG$name"
    check_count err "$incomplete SIG$name\$" 1 "output that is not read before SIG$name"
done
run_unread TERM --max-restarts 1 --timeout 60 sh -c '"$0" line 200000
    [ $TUTTI_RANK = 1 ] || exit 0; until grep -q "rank 0 ended" "$1"; do sleep 0.02; done; exit 7' "$rank" "$work/err"
check_status 7 "a failed job whose output is not read before SIGTERM"
check_line err "$incomplete SIGTERM\$" "a failed job whose output is not read before SIGTERM"
check_no_line err restarting "a failed job whose output is not read before SIGTERM"
exec 3>&-

# Counters that cannot be written: no rank starts. If the directory goes later, also at --timeout, the job's code stays.
cannot="^tutti run: cannot write the metrics to"
for file in "$work/none/metrics" "$work"; do
    run_tutti run -n 2 --metrics "$file" touch "$work/started"
    check_status 125 "--metrics that cannot be written"
    check_count err "$cannot $file: " 1 "--metrics that cannot be written"
    [ ! -e "$work/started" ] || fail "--metrics that cannot be written: a rank was started"
done
mkdir "$work/gone"
run_tutti run -n 1 --metrics "$work/gone/metrics" rmdir "$work/gone"
check_status 0 "--metrics in a directory that is removed"
check_line err "$cannot $work/gone/metrics: No such file" "--metrics in a directory that is removed"
mkdir "$work/gone"
run_tutti run -n 1 --timeout 8 --metrics "$work/gone/metrics" sh -c 'rmdir "$0"; exec sleep 60' "$work/gone"
check_status 124 "--metrics that cannot be written after --timeout"
check_line err "$cannot" "--metrics that cannot be written after --timeout"

# Standard input: rank 0 has it, the other ranks have none.
printf 'first\nsecond\n' | "$tutti" run -n 2 sh -c 'while read -r line; do echo "got $line"; done; echo end' \
    >"$work/out" 2>"$work/err"
check_equal "$(sort "$work/out")" "$(printf '[0] end\n[0] got first\n[0] got second\n[1] end')" "standard input"

# A reader that closes its pipe ends the job as it would end a single program.
checks=$((checks + 1))
timeout 400 "$tutti" run -n 2 yes 2>"$work/err" | head -1 >"$work/out"
[ "${PIPESTATUS[0]}" -eq 141 ] || fail "the reader closed its pipe: exit code is not 128 + SIGPIPE"
check_no_line err 'cannot be written' "the reader closed its pipe"

# The job also runs with a closed standard output.
"$tutti" run -n 2 true >&- 2>&- <&-
status=$?
check_status 0 "closed descriptors"

# Terminals. script(1) makes one; it comes with every Debian.
if command -v script >/dev/null; then
    script -qec "'$tutti' run -n 1 '$rank' terminals" /dev/null >"$work/out" </dev/null
    check_line out 'terminals 0 1 1' "one rank keeps the terminal"
    # Typed input reaches rank 0 although the rank is not in the terminal's foreground group.
    mkfifo "$work/keys"
    : >"$work/out"
    script -qec "'$tutti' run -n 2 sh -c '
        [ \$TUTTI_RANK = 0 ] || exit 0; printf \"name? \"; read -r name; echo \"hi \$name\"'" /dev/null \
        <"$work/keys" >"$work/out" &
    exec 3>"$work/keys"
    wait_for_lines out 'name\?' 1
    echo hello >&3
    wait $!
    status=$?
    exec 3>&-
    check_status 0 "typed input"
    check_line out 'hi hello' "typed input"
    # Ctrl-C in the terminal reaches each rank once. (A shell ignores SIGINT for background jobs, and so would they.)
    : >"$work/out"
    env --default-signal=INT script -qec "exec '$tutti' run -n 2 sh -c '
        trap \"echo interrupted; exit 0\" INT; echo ready; while :; do sleep 0.1; done'" /dev/null \
        <"$work/keys" >"$work/out" &
    exec 3>"$work/keys"
    wait_for_lines out ready 2
    printf '\003' >&3
    wait $!
    status=$?
    exec 3>&-
    check_status 0 "Ctrl-C"
    check_count out interrupted 2 "Ctrl-C"
    # A bar is wiped and drawn again when another rank's line comes in between.
    script -qec "'$tutti' run -n 2 sh -c '
        await() { until grep -q \"\$1\" \"$work/out\"; do sleep 0.05; done; }
        if [ \$TUTTI_RANK = 0 ]; then
            printf \"\r50%%\"; await line; printf \"\r100%%\n\"
        else
            await 50%; echo line
        fi'" /dev/null >"$work/out" </dev/null
    check_line out 'line' "a bar is drawn again"
    check_equal "$(tr '\r\033' '^E' <"$work/out" | tr -d '\n')" '^[0] 50%^E[K[1] line^[0] 50%^[0] 100%^' \
        "a bar is drawn again"
fi

# A bar that another rank's line has broken up goes on, and its own newline ends it.
: >"$work/err"
"$tutti" run -n 2 sh -c '
    await() { until grep -aq "$1" "$2"; do sleep 0.02; done; }
    if [ $TUTTI_RANK = 0 ]; then
        printf "\r 50%%" >&2; await hello "$0"; printf "\r100%%" >&2; await 100% "$0"; printf "\n" >&2; echo end >&2
    else
        await 50% "$0"; echo hello >&2; await end "$0"
    fi' "$work/err" 2>"$work/err" </dev/null
check_line err '^\[0\] end$' "a bar that was broken up"

finish
