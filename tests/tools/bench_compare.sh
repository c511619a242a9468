#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# scripts/bench_vs.py: which jobs start, how their numbers are evaluated, and what happens when they fail. A fake
# launcher runs the jobs, so that every number is known. The test checks no time.
# tutti-test: seconds=60 timeout=600 cpus=2 trees=release,debug
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE UCX_TLS

mkdir -p "$work/bin" "$work/peers"
cp "$here/fake_launcher.py" "$work/bin/mpirun.openmpi"
cp "$here/fake_launcher.py" "$work/bin/mpiexec.mpich"
touch "$work/peers/openmpi.so" "$work/peers/mpich.so"
export PATH=$work/bin:$PATH TUTTI_BENCH_PEERS=$work/peers FAKE_STATE=$work/state

vs=(python3 "$here/../../scripts/bench_vs.py" --build "$build")
run_vs() { # ARGS...: as run_tutti, with no job counted before
    rm -rf "$work/state"
    mkdir "$work/state"
    "${vs[@]}" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

run_vs -n 2 -b 8 -e 32K -f 64 --vs openmpi,mpich,gloo,openmpi/t --record "$work/all.csv"
check_status 0 "all contenders"
check_count err '^bench_vs: job [0-9]+ of 18: ' 18 "plain progress"
check_line err '^bench_vs: job 1 of 18: openmpi, repetition 1 of 3; [0-9]+:[0-9]{2} elapsed$' "plain progress"
check_line err '^bench_vs: job 18 of 18: mpich/tm, repetition 3 of 3; .* elapsed$' \
    "plain progress"
check_line err '^bench_vs: gloo/ring is missing: this build has no plug-in .*install libgloo-dev' "gloo is missing"
check_equal "$(head -6 "$work/state/order" | tr '\n' ' ')" "openmpi openmpi/t openmpi/tm mpich mpich/t mpich/tm " \
    "the first repetition"
check_equal "$(sed -n 7,12p "$work/state/order")" "$(head -6 "$work/state/order")" "the second repetition"
check_equal "$(wc -l <"$work/state/order")" 18 "jobs"
check_count out '^# (all_reduce|all_gather|barrier)$' 3 "a table for each collective"
check_line out '^ +8 +out +near +two_shot +1\.03 +1\.71 +0\.60 ' "times and ratios"
check_line out '^ +512 +out +near +two_shot +1\.54 .* +1\.23 +1\.25! .* openmpi/t: 1\.25 \[1\.19, 1\.31\] !$' "a lost cell"
check_line out '^# all_gather +.*; 1 of 3 cells lost$' "cells of a collective"
check_line out '^# gloo/bcube +missing: ' "missing contenders are named in the table"
check_line out '^# Cells: 10, lost: 1$' "the last line"
check_line all.csv '^collective,size,place,hop,algorithm,bound_us,tutti_us,openmpi,openmpi/t,openmpi/tm,mpich,mpich/t,mpich/tm$' \
    "record: a column for each contender"
check_line all.csv '^all_gather,512,out,near,two_shot,0\.7[0-9]*,1\.5[0-9]*,[0-9.]+ [0-9.]+,1\.2[0-9]* 1\.25!,[0-9.]+ [0-9.]+,,,$' \
    "record: a lost cell"
check_line all.csv '^# version openmpi = fake <1\.0> & more$' "record: versions"
check_line all.csv '^# missing gloo/ring = .*install' "record: what is missing"
check_line all.csv '^# command openmpi = mpirun\.openmpi --allow-run-as-root --oversubscribe -n 2 tutti bench \.\.\. --beside openmpi$' \
    "record: command lines"
python3 "$here/../../scripts/results/summary.py" "$work" all >"$work/summary" 2>"$work/err"
status=$?
check_status 0 "the summary of a record"
check_line summary '^1 of 10 cells lost\.$' "the summary counts the same cells"
check_line summary '^\| 2 \| all_gather \| 512 \| out \| private \| near \| two_shot \| 1\.5[0-9]* \| openmpi/t \| 1\.2[0-9]* \| 1\.25 \|$' "the summary names lost cells"

# The arithmetic again in another language, from the output of the fake jobs.
checks=$((checks + 1))
python3 - "$work/all.csv" >"$work/err" 2>&1 <<'END' || fail "record"
import csv, statistics, sys
lines = open(sys.argv[1]).read().splitlines()
settings = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# "))
assert settings["cpu"] == "a | b" and settings["repetitions"] == "3" and settings["ranks"] == "2", settings
assert settings["command mpich/tm"].startswith("UCX_TLS=self,posix MALLOC_MMAP_THRESHOLD_=4294967296 "), settings
assert settings["command openmpi/t"].endswith("tutti bench ... --beside openmpi"), settings
assert "command gloo/ring" not in settings and "missing gloo/bcube" in settings, settings
factors = {"openmpi": 1.6, "openmpi/t": 1.25, "openmpi/tm": 1.3, "mpich": 2.0, "mpich/t": 2.5, "mpich/tm": 4.0}
near = lambda a, b: abs(float(a) - b) <= 6e-3 * abs(b)  # three digits
rows = list(csv.DictReader(line for line in lines if line[0] != "#"))
jobs = 1, 3  # the second one saw CPUs far from each other, and most jobs near ones
for row in rows:
    collective, size = row["collective"], int(row["size"])
    own = [(1 + size / 1000) * (1 + 0.01 * job) for job in jobs]
    assert row["hop"] == "near" and row["algorithm"] == "two_shot", row
    assert near(row["tutti_us"], statistics.median(own)) and near(row["bound_us"], statistics.median(own) / 2), row
    for name, factor in factors.items():
        if name.startswith("mpich") and collective == "all_gather":
            assert row[name] == "", row
            continue
        lost = collective == "all_gather" and size == 512 and name == "openmpi/t"
        of = lambda job: 0.8 if lost else factor * (1 + 0.02 * job)
        us, ratio = row[name].split()
        assert ratio.endswith("!") == lost, (row, name)
        assert near(ratio.rstrip("!"), statistics.median(1 / of(job) for job in jobs)), (row, name)
        assert near(us, statistics.median(time * of(job) for time, job in zip(own, jobs))), (row, name)
assert len(rows) == 10, rows
END

python3 "$here/../../scripts/results/plot.py" "$work" all >"$work/out" 2>"$work/err"
status=$?
check_status 0 "the plot of a record"
check_svg() { # FILE WHAT
    checks=$((checks + 1))
    python3 - "$1" >"$work/err" 2>&1 <<'END' || fail "$2"
import sys, xml.etree.ElementTree as ET
root = ET.parse(sys.argv[1]).getroot()
space = "{http://www.w3.org/2000/svg}"
assert root.tag == space + "svg" and root.get("viewBox")
assert not [e for e in root.iter() if e.tag == space + "script" or any("href" in a for a in e.attrib)]
width, height = (float(root.get(a)) for a in ("width", "height"))
texts = [t.text for t in root.iter(space + "text")]
for e in root.iter(space + "text"):
    assert -1 <= float(e.get("x")) <= width and 0 <= float(e.get("y")) <= height, (e.attrib, e.text)
for e in root.iter(space + "circle"):
    assert 0 <= float(e.get("cx")) <= width and 0 <= float(e.get("cy")) <= height, e.attrib
assert "prefers-color-scheme: dark" in root.find(space + "style").text
for panel in "all_reduce", "all_gather", "barrier":
    assert panel in texts, texts
for name in "Tutti", "openmpi", "mpich":
    assert texts.count(name) >= 2, (name, texts)
assert "gloo/ring" not in texts
END
}
check_svg "$work/all.svg" "SVG"

# Some settings only; the same library twice is one contender; one repetition.
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --vs mpich/tm,mpich/tm
check_status 0 "one setting"
check_equal "$(cat "$work/state/order")" "mpich/tm" "one setting"
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --vs openmpi/default,mpich/default
check_equal "$(tr '\n' ' ' <"$work/state/order")" "openmpi mpich " "defaults"

run_vs reduce,barrier -n 2 -b 8 -e 8 --repeat 1 --vs gloo
check_no_line err 'bcube' "settings of one collective"
run_vs reduce,barrier -n 2 -b 8 -e 8 --repeat 1 --vs gloo/bcube
check_line err '^bench_vs: gloo/bcube is missing: its settings are about all_reduce alone' "settings of one collective"

# What a contender wins is measured once more, and nothing else. In the second job CPUs are far from each other, unless FAKE_FAR
# says otherwise; it then says nothing about the first.
run_vs all_gather -n 2 --sizes 8,512 --repeat 1 --confirm --vs openmpi/t
check_status 0 "another class when measured again"
check_line out '^# Cells: 7, lost: 1$' "another class when measured again"
FAKE_FAR=none run_vs all_gather -n 2 --sizes 8,512 --repeat 1 --confirm --vs openmpi/t,openmpi/tm
check_equal "$(tr '\n' ' ' <"$work/state/order")" "openmpi/t openmpi/tm openmpi/t " "only what is lost is measured again"
check_line err '^bench_vs: once more, job 1 of 1: openmpi/t, all_gather$' "the progress of measuring again"
check_line out '^# Cells: 7, lost: 1$' "a cell that is lost twice"
mkdir "$work/once"
FAKE_FAR=none FAKE_ONCE=1 run_vs all_gather -n 2 --sizes 8,512 --repeat 1 --confirm --vs openmpi/t --record "$work/once/once.csv"
check_status 0 "a cell that is lost once"
check_line out '^ +512 +out +near .* +1\.25\? .* openmpi/t: 1\.25 \[1\.19, 1\.31\]$' "a cell that is lost once"
check_line out '^# Cells: 7, lost: 0; lost at first, but not again: 1$' "a cell that is lost once: the last line"
check_line once/once.csv '^all_gather,512,out,.* 1\.25\?$' "a cell that is lost once: the record"
python3 "$here/../../scripts/results/summary.py" "$work/once" once >"$work/summary" 2>"$work/err"
status=$?
check_status 0 "the summary with a cell that is lost once"
check_line summary '^1 more were lost at first' "the summary counts it apart"
check_line summary '^0 of 7 cells lost\.$' "the summary does not count it as lost"

# A contender whose jobs saw another class of hop has its first letter.
FAKE_FAR=mpich run_vs -n 2 -b 8 -e 512 -f 64 --repeat 2 --vs openmpi/t,mpich --record "$work/far.csv"
check_status 0 "another class for one contender"
check_line out '^ +8 +out +near .* 0\.49f .* openmpi/t: 0\.78 ' "its class"
check_line far.csv '^all_reduce,8,out,near,two_shot,[^,]*,[^,]*,[0-9.]+ [0-9.]+,[0-9]+ 0\.48[0-9]*f,[0-9.]+ [0-9.]+,' "record: its class"

# Another run adds a contender, and replaces what it measures again. An interrupted one goes on.
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --vs openmpi/t --record "$work/merged.csv" --jobs "$work/jobs"
run_vs all_reduce,barrier -n 2 --sizes 512 --repeat 1 --vs openmpi/tm --record "$work/merged.csv" --merge
check_status 0 "a second run"
check_count merged.csv '^all_reduce,8,out,.*,[0-9.]+ [0-9.]+,[^,]*$' 1 "merge: a cell of the first run"
check_count merged.csv '^all_reduce,512,out,.*,[0-9.]+ [0-9.]+,[0-9.]+ [0-9.]+$' 1 "merge: a cell of both"
check_line merged.csv '^# command openmpi/t = ' "merge: settings of the first run"
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --vs openmpi/t --record "$work/again.csv" --jobs "$work/jobs"
check_line err 'job 1 of 1: openmpi/t was measured before the interruption$' "jobs that were done"
check_equal "$(ls "$work/state")" "" "no job runs twice"

# A contender that fails costs its own cells.
for mode in fail garbage empty; do
    FAKE_MODE=$mode run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 2 --vs mpich --record "$work/fail.csv"
    check_status 1 "$mode"
    check_count err "^bench_vs: mpich/t, repetition [12] failed: it" 2 "$mode"
    check_line out '^ +8 +out +(near|far) +two_shot +[0-9.]+ +[0-9.]+ +[0-9.]+ +failed +[0-9.]+ +[0-9.]+ +mpich: ' \
        "$mode: cells"
    check_line out '2 of 2 jobs failed, the last because it' "$mode: summary"
    check_line fail.csv '^# failed mpich/t = 2 of 2 jobs: it' "$mode: record"
done
FAKE_MODE=fail run_vs all_reduce -n 2 -e 512 -f 64 --repeat 1 --vs mpich/t
check_line err 'failed: it ended with exit code 3$' "the exit code of a failed job"
check_line err '^    \| fake: the network <is> down$' "what a failed job has said"
check_line out '^# Cells: 0, lost: 0$' "no cells"

# A contender that hangs is ended, with the processes that it has started elsewhere.
FAKE_MODE=hang run_vs all_reduce -n 2 -e 512 -f 64 --repeat 1 --limit 1 --vs mpich/t
check_status 1 "a job that hangs"
check_line err '^bench_vs: mpich/t, repetition 1 failed: it took longer than 1 s$' "a job that hangs"
check_no_processes "a job that hangs"

for signal in TERM INT; do
    rm -rf "$work/state" && mkdir "$work/state"
    # a shell's background job ignores SIGINT, so Python starts it
    FAKE_MODE=hang python3 -c 'import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
started = subprocess.Popen(sys.argv[2:], start_new_session=True)
with open(sys.argv[1], "w") as file:
    file.write(str(started.pid))
sys.exit(started.wait() & 255)' "$work/pid" "${vs[@]}" all_reduce -n 2 -e 512 -f 64 --vs mpich/t \
        --record "$work/none.csv" >"$work/out" 2>"$work/err" </dev/null &
    checks=$((checks + 1))
    eventually test -e "$work/state/hangs" || fail "SIG$signal: the job never ran"
    kill "-$signal" "$(cat "$work/pid")"
    wait $!
    status=$?
    check_status $((128 + $(kill -l "$signal"))) "SIG$signal"
    check_line err 'was ended, nothing is written$' "SIG$signal"
    check_equal "$(cat "$work/none.csv")" "" "SIG$signal: nothing is written"
    check_no_processes "SIG$signal"
done

# All at once missing.
TUTTI_BENCH_PEERS=$work/nowhere run_vs barrier -n 2 --vs gloo,openmpi --record "$work/none.csv"
check_status 0 "no peer is there"
check_count none.csv '^# missing ' 4 "no peer is there"

refused() { # REGEX ARGS...
    expected=$1
    shift
    run_vs "$@"
    check_status 2 "bench_vs $*"
    check_line err "$expected" "bench_vs $*"
    check_equal "$(cat "$work/out")" "" "bench_vs $*"
}

refused "^bench_vs: error: --vs nccl: there is no contender 'nccl'; there are openmpi, openmpi5, " --vs nccl
refused "^bench_vs: error: --vs openmpi/x: that library has no such settings; there are default, t" --vs openmpi/x
refused "^bench_vs: error: --vs openmpi,,mpich: there is no contender ''" --vs openmpi,,mpich
refused "^bench_vs: error: argument --repeat: not a number from 1 on: '0'$" --vs mpich --repeat 0
refused "^bench_vs: error: argument -b: not a size .*: '8T'$" --vs mpich -b 8T
refused "^bench_vs: error: 'all_reduc': there are all_reduce, " all_reduc --vs mpich
run_vs barrier -n 2 --vs mpich --record "$work/nowhere/x.csv"
check_status 1 "a file that cannot be made"
check_line err '^bench_vs: .*/nowhere/x\.csv: No such file or directory$' "a file that cannot be made"
check_equal "$(ls "$work/state")" "" "nothing was measured in vain"
run_vs barrier -n 2 --repeat 1 --vs mpich/tm --record /dev/full
check_status 1 "a full disk"
check_line err '^bench_vs: /dev/full: No space left on device$' "a full disk"

finish
