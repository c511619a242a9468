#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release,address,undefined
# The flight recorder: the hang report of `tutti run`, records of killed and running ranks, and all that `tutti trace` writes.
. "$(dirname "$0")/../tools/common.inc"
program=$build/tests/diag/ranks

# start ARGS: a job in the background.
start() {
    : >"$work/out"
    : >"$work/err"
    env --default-signal=INT,QUIT "$tutti" run -n 3 "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
}

end() {
    wait "$launcher"
    status=$?
}

# reports REGEX: asks the launcher until it says that. Ranks that are still on their way are no hang.
asks() {
    kill -QUIT "$launcher" 2>>"$work/asked" || return 1
    sleep 0.2
    grep -Eq -- "$1" "$work/err"
}
reports() {
    checks=$((checks + 1))
    eventually asks "$1" || fail "no report says '$1'"
}

# Late: named, with its last operation; the job goes on after the report.
start --trace "$work/late" "$program" late
wait_for_lines out ready 3
reports '^tutti run: culprit: rank 1 \(process [0-9]+, sleeping\) has not come to barrier #24, where 2 ranks wait for it, for [0-9]+\.[0-9] s; its last operation: '
check_line err 'rank 0 waits in barrier #24, for .* for rank 1$' "who waits for whom"
check_line err 'all_reduce #20 f32 x2 max \(8 B\): ok, the last of [0-9]+ like it' "small calls are counted"
check_line err 'all_reduce #23 f32 x262144 sum \(1.0 MiB\): ok, took [0-9]' "large calls are timed"

# The records of running ranks, by process and by job.
pid=$(sed -nE 's/.*culprit: rank 1 \(process ([0-9]+).*/\1/p' "$work/err" | head -1)
job=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^TUTTI_JOB=//p')
"$tutti" trace dump --pid "$pid" >"$work/one" 2>&1
check_line one "^  rank 1 \(process $pid, sleeping\), newest first:" "dump --pid"
"$tutti" trace dump --job "$job" >"$work/all" 2>&1
check_line all '^culprit: rank 1 \(process .* has not come to barrier #24, where 2 ranks wait' "dump --job"
kill -USR1 "$pid"
end
check_status 0 "the job goes on after a report"
check_count out 'done$' 3 "the job goes on after a report"

# What is left of an ended job.
"$tutti" trace dump "$work/late" >"$work/dead" 2>&1
check_line dead 'no rank waits for another one' "an ended job"
check_line dead '^  rank 2 \(process [0-9]+, (gone|ended).*\), newest first:' "an ended job"
"$tutti" trace dump --format json -o "$work/json" "$work/late"
"$tutti" trace dump --format chrome -o "$work/chrome" "$work/late"
"$tutti" trace dump --format pytorch -o "$work/torch_" "$work/late"
mkdir "$work/node0" "$work/node1"
mv "$work"/late/*rank-0.flight "$work/node0"
mv "$work"/late/*.flight "$work/node1"
"$tutti" trace merge -o "$work/merged" "$work/node0" "$work/node1"
"$tutti" trace metrics -o "$work/metrics" "$work/node0"
checks=$((checks + 1))
python3 - "$work" <<'PYTHON' || fail "a format is not what its readers expect"
import json, pickle, sys
work = sys.argv[1]
ranks = json.load(open(work + "/json"))["ranks"]
assert [r["rank"] for r in ranks] == [0, 1, 2], ranks
for r in ranks:
    assert r["world_size"] == 3 and r["groups"][0]["size"] == 3
    assert r["counters"]["all_reduce"] == {"calls": 23, "bytes": 20 * 8 + 3 * (4 << 18), "failures": 0}, r["counters"]
    assert r["counters"]["barrier"]["calls"] == 1 and r["counters"]["send"]["calls"] == 1
    kinds = [o["operation"] for o in r["operations"]]
    assert {"all_reduce", "send", "recv", "barrier"} <= set(kinds), kinds
    assert all(o["state"] == "completed" and o["status"] == "OK" for o in r["operations"])
    assert sum(o["calls"] for o in r["operations"]) == 26, r["operations"]
    large = [o for o in r["operations"] if o["bytes"] == 4 << 18]
    assert [o["sequence"] for o in large] == [21, 22, 23] and all(o["end_ns"] > o["start_ns"] > 1e18 for o in large)
for name in ("chrome", "merged"):
    events = json.load(open(work + "/" + name))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X" and e["name"] == "all_reduce"]
    assert len(spans) == 9 and {e["pid"] for e in spans} == {0, 1, 2}, spans
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"group w0 lane 0", "group w0 messages"}
    for rank in range(3):
        own = sorted((e["ts"], e["dur"]) for e in spans if e["pid"] == rank)
        assert all(a[0] + a[1] <= b[0] + 0.002 for a, b in zip(own, own[1:])), own
for rank in range(3):
    dump = pickle.load(open(work + "/torch_%d" % rank, "rb"))
    assert dump["version"] == "2.4" and dump["rank"] == rank
    assert dump["pg_config"]["w0"]["ranks"] == "[0, 1, 2]" and dump["pg_config"]["w0"]["desc"] == "default_pg"
    assert dump["pg_status"]["w0"]["last_completed_collective"] == 24
    for e in dump["entries"]:
        assert e["process_group"] == ("w0", "default_pg") and e["state"] == "completed" and e["frames"] == []
        assert e["profiling_name"].startswith("nccl:") and e["input_dtypes"] in (["Float"], [])
    large = [e for e in dump["entries"] if e["input_sizes"] == [[1 << 18]]]
    assert [e["collective_seq_id"] for e in large] == [21, 22, 23] and all(e["duration_ms"] > 0 for e in large)
    assert [e["p2p_seq_id"] > 0 for e in dump["entries"] if e["is_p2p"]] == [True, True]
PYTHON
check_line metrics '^tutti_operations_total\{job="run-[^"]+",host="[^"]*",rank="0",operation="all_reduce"\} 23$' "metrics"
check_line metrics '^tutti_operation_bytes_total\{.*operation="all_reduce"\} 3145888$' "metrics"
check_line metrics '^tutti_operation_failures_total\{.*operation="barrier"\} 0$' "metrics"

# Stopped, and --timeout: the report comes before the end.
run_tutti run -n 3 --timeout 5 --grace 1 "$program" stopped
check_status 124 "--timeout"
check_line err '^tutti run: culprit: rank 1 \(process [0-9]+, stopped\) has not come to barrier #24, where 2 ranks wait' "--timeout"

# In a circle.
start --grace 1 "$program" circle
wait_for_lines out ready 3
reports '^tutti run: deadlock: rank [01] waits for rank [01] waits for rank [01]$'
check_line err 'rank 0 waits in recv.* from 1, tag 7, for .* for rank 1$' "a circle"
kill -TERM "$launcher"
end
check_status 143 "a circle"

# Killed: what it did last is known all the same.
run_tutti run -n 3 --grace 60 --trace "$work/killed" --metrics "$work/prom" "$program" killed
check_status 137 "killed"
check_line err '^tutti run: rank 1 killed by SIGKILL after .* s \(pid [0-9]+\); last operation: ' "killed"
"$tutti" trace dump "$work/killed" >"$work/dead" 2>&1
check_line dead ': PEER_DEAD$' "killed: the others"
check_line prom '^tutti_operation_failures_total\{.*rank="0",operation="[a-z_]+"\} [1-9]$' "--metrics"

# In a folder in memory, where files have seals of a kind, too.
if memory=$(mktemp -d -p /dev/shm 2>/dev/null); then
    run_tutti run -n 2 --trace "$memory" "$program" done
    check_status 0 "a folder in memory"
    "$tutti" trace dump "$memory" >"$work/dead" 2>&1
    check_line dead 'all_reduce #20 f32 x2 max' "a folder in memory"
    rm -rf "$memory"
fi

# Not by `tutti run`: a process keeps its record in TUTTI_TRACE_DIR. Without a recorder it works as well.
mkdir "$work/alone"
env TUTTI_TRACE_DIR="$work/alone" TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 TUTTI_STORE="memory:x" TUTTI_FLIGHT=full "$program" >"$work/out" 2>&1
check_equal "$?" 0 "alone"
"$tutti" trace dump "$work/alone" >"$work/dead" 2>&1
check_line dead 'all_reduce #20 f32 x2 max \(8 B\): ok, took' "full"
env TUTTI_FLIGHT=off "$tutti" run -n 3 --trace "$work/off" "$program" done >"$work/out" 2>&1
check_equal "$?" 0 "off"
run_tutti trace dump "$work/off"
check_no_line out 'all_reduce' "off"

run_tutti trace dump "$work/alone" --format pytorch
check_status 2 "pytorch without -o"
run_tutti trace dump --pid $$
check_status 1 "a process without Tutti"
check_line err 'it has no flight recorder' "a process without Tutti"
run_tutti trace dump "$0"
check_status 1 "another file"

finish
