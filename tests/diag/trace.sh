#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tutti-test: trees=release,address,undefined timeout=240
# The flight recorder: the hang report of `tutti run`, records of killed and running ranks, and all that `tutti trace` writes.
. "$(dirname "$0")/../tools/common.inc"
program=$build/tests/diag/ranks

# to_pytorch FOLDER PREFIX: the records as PyTorch's analyser reads them.
to_pytorch() {
    "$tutti" trace dump --format json "$1" 2>>"$work/asked" | python3 "$here/../../python/tutti/flight_records.py" "$2"
}

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

# reports REGEX: requests reports of the launcher until one matches. Ranks that have not reached the call yet are no hang.
report_matches() {
    kill -QUIT "$launcher" 2>>"$work/asked" || return 1
    sleep 0.2
    grep -Eq -- "$1" "$work/err"
}
reports() {
    checks=$((checks + 1))
    eventually report_matches "$1" || fail "no report says '$1'"
}

# A late rank is named, with its last operation; the job goes on after the report.
start --trace "$work/late" "$program" late
wait_for_lines out ready 3
reports '^tutti run: suspect: rank 1 \(process [0-9]+, sleeping\) has not arrived at barrier #24, where 2 ranks wait for it, for [0-9]+\.[0-9] s; its last operation: '
check_line err 'rank 0 waits in barrier #24, for .* for rank 1$' "waits"
check_line err 'all_reduce #20 f32 x2 max \(8 B\): ok, the last of [0-9]+ like it' "small calls are counted"
check_line err 'all_reduce #23 f32 x262144 max \(1.0 MiB\): ok, took [0-9]' "large calls are timed"

# The records of running ranks, by process and by job.
pid=$(sed -nE 's/.*suspect: rank 1 \(process ([0-9]+).*/\1/p' "$work/err" | head -1)
job=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^TUTTI_JOB=//p')
"$tutti" trace dump --pid "$pid" >"$work/one" 2>&1
check_line one "^  rank 1 \(process $pid, sleeping\), newest first:" "dump --pid"
"$tutti" trace dump --job "$job" >"$work/all" 2>&1
check_line all '^suspect: rank 1 \(process .* has not arrived at barrier #24, where 2 ranks wait' "dump --job"
kill -USR1 "$pid"
end
check_status 0 "the job goes on after a report"
check_count out 'done$' 3 "the job goes on after a report"

# Large messages have times also if they come from the call cache.
start --trace "$work/messages" "$program" messages
end
check_status 0 "large messages"
"$tutti" trace dump --format json -o "$work/messages.json" "$work/messages"
checks=$((checks + 1))
python3 - "$work/messages.json" <<'PYTHON' || fail "large messages without times"
import json, sys
for rank in json.load(open(sys.argv[1]))["ranks"]:
    for kind in ("send", "recv"):
        large = [o for o in rank["operations"] if o["operation"] == kind and o["bytes"] == 4 << 18]
        assert len(large) == 7 and all(o["calls"] == 1 and o["status"] == "OK" for o in large), large
        assert all(o["end_ns"] > o["start_ns"] > 1e18 for o in large), large
        assert rank["counters"][kind] == {"calls": 8, "bytes": 4 + 7 * (4 << 18), "failures": 0}, rank["counters"]
PYTHON

# The records of an ended job.
"$tutti" trace dump "$work/late" >"$work/dead" 2>&1
check_line dead '^all processes have ended' "an ended job"
check_line dead '^no rank was waiting for another one' "an ended job"
check_line dead '^  rank 2 \(process [0-9]+, (gone|ended).*\), newest first:' "an ended job"
"$tutti" trace dump --format json -o "$work/json" "$work/late"
"$tutti" trace dump --format chrome -o "$work/chrome" "$work/late"
to_pytorch "$work/late" "$work/torch_"
mkdir "$work/node0" "$work/node1"
mv "$work"/late/*rank-0.flight "$work/node0"
mv "$work"/late/*.flight "$work/node1"
"$tutti" trace dump --format chrome -o "$work/merged" "$work/node0" "$work/node1"
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
    trace = json.load(open(work + "/" + name))
    events = trace["traceEvents"]
    assert int(trace["otherData"]["begin_ns"]) > 1e18 and all(isinstance(e["pid"], int) for e in events)
    timed = [e for e in events if e["ph"] != "M"]
    assert min(e["ts"] for e in timed) == 0 and max(e["ts"] for e in timed) < 1e9
    assert {e["ph"] for e in timed} <= {"X", "i"} and all(e["s"] == "t" for e in timed if e["ph"] == "i")
    spans = [e for e in timed if e["ph"] == "X" and e["name"] == "all_reduce"]
    assert len(spans) == 9 and {e["pid"] for e in spans} == {0, 1, 2}, spans
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {
        "rank %d on %s" % (r, ranks[0]["host"]) for r in range(3)}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert all(e["tid"] > 0 and (e["pid"], e["tid"]) in tracks for e in timed)
    assert {tracks[e["pid"], e["tid"]] for e in spans} == {"group w0 lane 0"}, tracks
    for track in tracks:
        own = sorted((e["ts"], e["dur"]) for e in timed if e["ph"] == "X" and (e["pid"], e["tid"]) == track)
        assert all(a[0] + a[1] <= b[0] + 0.0005 for a, b in zip(own, own[1:])), own
for rank in range(3):
    dump = pickle.load(open(work + "/torch_%d" % rank, "rb"))
    assert dump["version"] == "2.4" and dump["rank"] == rank
    assert dump["pg_config"]["w0"]["ranks"] == "[0, 1, 2]" and dump["pg_config"]["w0"]["desc"] == "default_pg"
    assert dump["pg_status"]["w0"]["last_completed_collective"] == 24
    entries = dump["entries"]  # of messages only those that have not ended
    assert all(e["process_group"] == ("w0", "default_pg") and not e["is_p2p"] for e in entries), entries
    assert all(e["state"] == "completed" and e["frames"] == [] for e in entries)
    assert [e["record_id"] for e in entries] == list(range(len(entries)))
    assert [e["collective_seq_id"] for e in entries][-4:] == [21, 22, 23, 24], entries
    large = [e for e in entries if e["input_sizes"] == [[1 << 18]]]
    assert [e["collective_seq_id"] for e in large] == [21, 22, 23] and all(e["duration_ms"] > 0 for e in large)
    assert all(e["profiling_name"] == "nccl:all_reduce" and e["output_dtypes"] == ["Float"] for e in large)
PYTHON
check_line metrics '^tutti_operations_total\{job="run-[^"]+",host="[^"]*",rank="0",operation="all_reduce"\} 23$' "metrics"
check_line metrics '^tutti_operation_bytes_total\{.*operation="all_reduce"\} 3145888$' "metrics"
check_line metrics '^tutti_operation_failures_total\{.*operation="barrier"\} 0$' "metrics"

# A rank that does not call tutti_init is named as well.
start "$program" absent
wait_for_lines out ready 1
reports '^tutti run: suspect: rank 1 \(process [0-9]+, sleeping\) has not arrived at init of 3 ranks, where 2 ranks wait for it, for .*: none yet$'
kill -USR1 "$(sed -nE 's/.*suspect: rank 1 \(process ([0-9]+).*/\1/p' "$work/err" | head -1)"
end
check_status 0 "absent"

# A persistent operation that was started again, without a rank that waits for it: since when it is under way.
start "$program" started
wait_for_lines out 'pid [0-9]+$' 3
reports '^tutti run: suspect: rank 1 \(process [0-9]+, sleeping\) has not arrived at all_reduce #26 f32 x2 sum \(8 B\), where 2 ranks wait for it, for [0-9]+\.[0-9] s; '
check_line err 'all_reduce #26 f32 x2 sum \(8 B\): not ended, for [0-9]+\.[0-9] s' "started again"
check_line err 'all_reduce #25 f32 x2 sum \(8 B\): ok, the last of 2 like it' "started again: the earlier ones"
kill -USR1 $(sed -nE 's/.*pid ([0-9]+)$/\1/p' "$work/out")
end
check_status 0 "started again"
check_count out 'done$' 3 "started again"

# Ranks that are threads: the report lists each separately.
env TUTTI_FLIGHT=full "$program" threads >"$work/out" 2>"$work/err" </dev/null &
threads=$!
wait_for_lines out ready 1
threads_report() {
    "$tutti" trace dump --pid "$threads" >"$work/threads" 2>&1
    grep -q '^suspect: rank 1 .* has not arrived at barrier #2, where 2 ranks wait for it.*; its last operation: barrier #1$' "$work/threads"
}
checks=$((checks + 1))
eventually threads_report || fail "threads: $(cat "$work/threads")"
check_line threads '^  rank 2 \(process [0-9]+, sleeping\), newest first:' "threads"
"$tutti" trace dump --format chrome --pid "$threads" >"$work/chrome"
check_line chrome '"ph":"B","pid":2,' "threads: what runs is drawn"
kill -KILL "$threads"
wait "$threads" 2>>"$work/asked"

# All ranks were killed at once, in the middle of a hang: the report comes from their files. The folder has had another
# job before.
run_tutti run -n 4 --trace "$work/deep/er" "$program" done
check_status 0 "a folder in a folder"
start --trace "$work/deep/er" "$program" late
wait_for_lines out ready 3
reports '^tutti run: suspect: rank 1 .* has not arrived at barrier #24, where 2 ranks wait'
# Stopped first: none shall live to see the death of another.
mapfile -t ranks < <("$tutti" trace dump "$work/deep/er" 2>>"$work/asked" | sed -nE 's/^  rank [0-9]+ \(process ([0-9]+), .*/\1/p')
check_equal "${#ranks[@]}" 3 "killed in a hang"
kill -STOP "${ranks[@]}"
kill -KILL "$launcher"
end
checks=$((checks + 1))
eventually no_processes || fail "ranks outlive their launcher"
"$tutti" trace dump "$work/deep/er" >"$work/dead" 2>"$work/err"
check_line dead '^all processes have ended' "killed in a hang"
check_line dead '^suspect: rank 1 \(process [0-9]+, (gone|ended.*)\) has not arrived at barrier #24, where 2 ranks wait for it; its last' "killed in a hang"
check_line err '4 records are left out' "an earlier job"
to_pytorch "$work/deep/er" "$work/hung_"
"$tutti" trace metrics -o "$work/metrics" "$work/deep/er"
checks=$((checks + 1))
python3 - "$work" <<'PYTHON' || fail "the files of a hang are not as their readers expect"
import pickle, sys
work = sys.argv[1]
for rank in range(3):
    last = pickle.load(open(work + "/hung_%d" % rank, "rb"))["entries"][-1]
    assert (last["collective_seq_id"], last["state"]) == ((23, "completed") if rank == 1 else (24, "started")), last
lines = open(work + "/metrics").read().split("\n")
assert lines[-1] == ""
series, family = set(), None
for line in lines[:-1]:
    words = line.split(" ", 3)
    if words[0] == "#":
        assert words[1] in ("HELP", "TYPE") and (words[1] == "HELP" or words[2:] == [family, "counter"]), line
        assert words[1] == "TYPE" or family != words[2], line
        family = words[2]
    else:
        name, value = line.rsplit(" ", 1)
        assert name.split("{")[0] == family and int(value) >= 0 and name not in series, line
        series.add(name)
assert len(series) > 60, lines
PYTHON

# Stopped, and --timeout: the report comes before the end. On a slow machine the ranks need longer to come so far.
stopped='^tutti run: suspect: rank 1 \(process [0-9]+, stopped\) has not arrived at barrier #24, where 2 ranks wait'
for limit in 8 30 100; do
    run_tutti run -n 3 --timeout "$limit" --grace 1 "$program" stopped
    grep -Eq -- "$stopped" "$work/err" && break
done
check_status 124 "--timeout"
check_line err "$stopped" "--timeout"

# A deadlock of two ranks.
start --grace 1 "$program" circle
wait_for_lines out ready 3
reports '^tutti run: deadlock: rank [01] waits for rank [01] waits for rank [01]$'
check_line err 'rank 0 waits in recv.* from 1, tag 7, for .* for rank 1$' "a deadlock"
kill -TERM "$launcher"
end
check_status 143 "a deadlock"

# A killed rank: the report still has its last operation.
run_tutti run -n 3 --grace 60 --trace "$work/killed" --metrics "$work/prom" "$program" killed
check_status 137 "killed"
check_line err '^tutti run: rank 1 killed by SIGKILL after .* s \(pid [0-9]+\); last operation: ' "killed"
"$tutti" trace dump "$work/killed" >"$work/dead" 2>&1
check_line dead ': PEER_DEAD$' "killed: the others"
check_line prom '^tutti_operation_failures_total\{.*rank="0",operation="[a-z_]+"\} [1-9]$' "--metrics"

# Counters to links: the link stays. One to the file of standard output or error adds to what the file holds.
ln -s linked.prom "$work/link"
run_tutti trace metrics -o "$work/link" "$work/killed"
check_status 0 "metrics to a link to a file that is not there"
echo old >"$work/linked.prom"
run_tutti trace metrics -o "$work/link" "$work/killed"
check_status 0 "metrics to a link to a file"
check_equal "$(readlink "$work/link")" linked.prom "metrics to a link to a file"
check_line linked.prom '^tutti_operations_total\{.*rank="0"' "metrics to a link to a file"
check_no_line linked.prom '^old$' "metrics to a link to a file"
for fd in 1 2; do
    ln -sf "/proc/self/fd/$fd" "$work/standard"
    { echo before; "$tutti" run -n 1 --metrics "$work/standard" "$program" done; echo after; } >"$work/out" 2>&1 </dev/null
    check_equal "$(readlink "$work/standard")" "/proc/self/fd/$fd" "metrics to descriptor $fd"
    check_equal "$(head -1 "$work/out") $(tail -1 "$work/out")" "before after" "metrics to descriptor $fd"
    check_line out '^tutti_operations_total\{' "metrics to descriptor $fd"
    "$tutti" trace metrics -o "$work/standard" "$work/killed" 2>&1 | cat >"$work/piped"
    check_line piped '^tutti_operations_total\{' "metrics to descriptor $fd, a pipe"
done

# In a folder in memory, where files can have seals, too.
if memory=$(mktemp -d -p /dev/shm records.XXXXXX 2>/dev/null); then # a name that other tests leave alone
    run_tutti run -n 2 --trace "$memory" "$program" done
    check_status 0 "a folder in memory"
    "$tutti" trace dump "$memory" >"$work/dead" 2>&1
    check_line dead 'all_reduce #20 f32 x2 max' "a folder in memory"
    rm -rf "$memory"
fi

# Without `tutti run`: a process keeps its record in TUTTI_TRACE_DIR. Without a recorder the process runs as well.
env TUTTI_TRACE_DIR="$work/alone" TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 TUTTI_STORE="memory:x" TUTTI_FLIGHT=full "$program" >"$work/out" 2>&1
check_equal "$?" 0 "alone"
"$tutti" trace dump "$work/alone" >"$work/dead" 2>&1
check_line dead 'all_reduce #20 f32 x2 max \(8 B\): ok, took' "full"
env TUTTI_FLIGHT=off "$tutti" run -n 3 --trace "$work/off" "$program" done >"$work/out" 2>&1
check_equal "$?" 0 "off"
run_tutti trace dump "$work/off"
check_no_line out 'all_reduce' "off"

# Corrupted records: any output is right, but no crash.
checks=$((checks + 1))
python3 - "$work" "$tutti" "$here/../../python/tutti/flight_records.py" <<'PYTHON' || fail "a corrupted record breaks a format"
import glob, json, os, pickle, random, subprocess, sys
work, tutti, converter = sys.argv[1:]
random.seed(8)
files = sorted(glob.glob(work + "/node[01]/*.flight"))
os.mkdir(work + "/spoilt")
for run in range(6):
    for number, file in enumerate(files):
        data = bytearray(open(file, "rb").read())
        for _ in range(2 ** random.randrange(1, 12)):
            at = random.choice((0, 4096, 4096, 20480, 86016, 86016)) + random.randrange(400 if run % 2 else 4000)
            data[at if at > 16 else at + 16] = random.choice((0, 1, 9, 127, 128, 255, random.randrange(256)))
        open(work + "/spoilt/%d.flight" % number, "wb").write(data)
    for kind in ("text", "json", "chrome"):
        out = work + "/spoilt/out_"
        run = subprocess.run([tutti, "trace", "dump", "--format", kind, "-o", out, work + "/spoilt"], stderr=subprocess.PIPE)
        assert run.returncode in (0, 1) and b"Sanitizer" not in run.stderr and b"runtime error" not in run.stderr, run
        if kind in ("json", "chrome") and run.returncode == 0:
            json.load(open(out))
        if kind == "json" and run.returncode == 0:
            subprocess.run([sys.executable, converter, out], stdin=open(out), check=True)
    for file in glob.glob(work + "/spoilt/out_?*"):
        pickle.load(open(file, "rb"))
        os.remove(file)
PYTHON

# The converter says in one sentence what it cannot read or write.
converter() { # INPUT WORDS...
    python3 "$here/../../python/tutti/flight_records.py" "${@:2}" <"$1" >"$work/out" 2>"$work/err"
    status=$?
}
not_records='^flight_records: standard input is no output of "tutti trace dump --format json"$'
for text in junk {} [] '{"ranks": 3}' '{"ranks": [{}]}' '{"ranks": [{"groups": 0, "operations": [], "rank": 0}]}' \
    $'\xff'; do
    printf '%s\n' "$text" >"$work/no_records"
    converter "$work/no_records" "$work/none_"
    check_status 1 "the converter reads $text"
    check_line err "$not_records" "the converter reads $text"
    check_count err . 1 "the converter reads $text"
done
converter "$work/json" "$work/no/folder_"
check_status 1 "a folder that is not there"
check_line err "^flight_records: cannot write $work/no/folder_[0-9]: No such file or directory\$" "no such folder"
converter /dev/null --help
check_status 0 "the converter's --help"
check_line out '^usage: tutti trace dump ' "the converter's --help"
converter /dev/null --what
check_status 2 "an unknown option of the converter"

run_tutti trace dump "$work/alone" --format pickle
check_status 2 "a format that does not exist"
run_tutti trace metrics --format json "$work/nowhere"
check_status 2 "--format of metrics"
check_line err '^tutti trace: --format belongs to dump$' "--format of metrics"
check_no_line err nowhere "--format of metrics: nothing is read"
run_tutti trace dump --pid $$
check_status 1 "a process without Tutti"
check_line err 'it has no flight recorder' "a process without Tutti"
run_tutti trace dump "$0"
check_status 1 "another file"

finish
