#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release,address timeout=180
# On Gloo, too, the hang report of `tutti run` names the rank that the other ranks wait for, and since when.
. "$(dirname "$0")/../tools/common.inc"
export TUTTI_PLUGIN_PATH=$build/lib/tutti/plugins
if [ ! -r "$TUTTI_PLUGIN_PATH/tutti-gloo.so" ]; then
    echo "skipped: Gloo's plug-in is not built"
    exit 77
fi

: >"$work/out"
env --default-signal=INT,QUIT "$tutti" run -n 3 --backend gloo "$build/tests/diag/ranks" late >"$work/out" 2>"$work/err" </dev/null &
launcher=$!
wait_for_lines out ready 3
report_matches() {
    kill -QUIT "$launcher" || return 1
    sleep 0.3
    grep -Eq 'suspect: rank 1 \(process [0-9]+, sleeping\) has not arrived at barrier #24, where 2 ranks wait for it, for [0-9]+\.[0-9] s; its last' "$work/err"
}
checks=$((checks + 1))
eventually report_matches || fail "no report names rank 1, with the time"
check_line err '^tutti run:   rank 2 waits in barrier #24, for .* s for rank 1$' "waits"
kill -USR1 "$(sed -nE 's/.*suspect: rank 1 \(process ([0-9]+).*/\1/p' "$work/err" | head -1)"
wait "$launcher"
status=$?
check_status 0 "the job goes on after a report"
check_count out 'done$' 3 "the job goes on after a report"
finish
