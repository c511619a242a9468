#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti bench --vs`: which jobs are started, what becomes of their numbers, and what happens when they fail. The jobs
# are those of a fake launcher, so that every number is known.
# tutti-test: timeout=600 cpus=2 trees=release,debug
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE UCX_TLS

mkdir -p "$work/bin" "$work/peers" "$work/python/torch"
cp "$here/fake_launcher.py" "$work/bin/mpirun.openmpi"
cp "$here/fake_launcher.py" "$work/bin/mpiexec.mpich"
cp "$here/fake_launcher.py" "$work/own program.py"
touch "$work/peers/openmpi.so" "$work/peers/mpich.so"
echo 'raise ImportError("no torch")' >"$work/python/torch/__init__.py"
export PATH=$work/bin:$PATH PYTHONPATH=$work/python TUTTI_BENCH_PEERS=$work/peers FAKE_STATE=$work/state

run_vs() { # ARGS...: as run_tutti bench, with no job counted before
    rm -rf "$work/state"
    mkdir "$work/state"
    run_tutti bench "$@"
}

run_vs -n 2 -b 8 -e 32K -f 64 --vs openmpi,mpich,gloo,torch,openmpi/t \
    -J "$work/all.json" --record "$work/all.csv" --plot "$work/all.svg"
check_status 0 "all contenders"
check_count err '^tutti bench: block [0-9]+ of 18: ' 18 "plain progress"
check_line err '^tutti bench: block 1 of 18: openmpi, repetition 1 of 3; 0:[0-9]{2} elapsed$' "plain progress"
check_line err '^tutti bench: block 18 of 18: mpich/tm, repetition 3 of 3; .* elapsed, about 0:[0-9]{2} left$' \
    "plain progress"
check_line err '^tutti bench: gloo/ring is missing: this build has no plug-in .*install libgloo-dev' "gloo is missing"
check_line err '^tutti bench: torch is missing: .*install' "torch is missing"
check_equal "$(head -6 "$work/state/order" | tr '\n' ' ')" "openmpi openmpi/t openmpi/tm mpich mpich/t mpich/tm " \
    "the first repetition"
check_equal "$(sed -n 7,12p "$work/state/order")" "$(head -6 "$work/state/order")" "the second repetition"
check_equal "$(wc -l <"$work/state/order")" 18 "jobs"
check_count out '^# (all_reduce|all_gather|barrier)$' 3 "a table for each collective"
check_line out '^ +8 +out +private +near +two_shot +1\.03 +1\.71 +0\.60 ' "times and ratios"
check_line out '^ +512 +out +private +near +two_shot +1\.54 .* +1\.23 +1\.25! .* openmpi/t: 1\.25 \[1\.19, 1\.31\] !$' "a lost cell"
check_line out '^# all_gather +private .*; 2 of 6 cells lost$' "cells of a collective"
check_line out '^# gloo/bcube +missing: ' "missing contenders are named in the table"
check_line out '^# Cells: 38, lost: 4, geometric mean of the ratios to the best peer: 0\.[0-9]{3}$' "the last line"
check_line all.csv '^all_gather,2,512,out,private,near,1,tutti,1\.5[0-9]*,.*,1\.25[0-9]*,1\.1[0-9]*,1\.31[0-9]*,openmpi/t,two_shot,' "record: a lost cell"
check_line all.csv '^all_gather,2,512,out,private,near,1,openmpi/t,.*,1\.25[0-9]*,1\.1[0-9]*,1\.31[0-9]*,,,$' "record: the contender's line"
check_line all.csv '^# version openmpi = fake <1\.0> & more$' "record: versions"
check_line all.csv '^# missing torch = .*install' "record: what is missing"
check_line all.csv '^# command openmpi = mpirun\.openmpi --allow-run-as-root --oversubscribe -n 2 tutti bench all -b 8 ' \
    "record: command lines"
python3 "$here/../../scripts/bench_summary.py" "$work" all >"$work/summary" 2>"$work/err"
status=$?
check_status 0 "the summary of a record"
check_line summary '^4 of 38 cells lost\.$' "the summary counts the same cells"
check_line summary '^\| 2 \| all_gather \| 512 \| out \| private \| near \| two_shot \| 1\.5[0-9]* \| openmpi/t ' "the summary names lost cells"

# The arithmetic, done again in another language from what the fake jobs have written.
checks=$((checks + 1))
python3 - "$work/all.json" >"$work/err" 2>&1 <<'END' || fail "JSON"
import json, math, statistics, sys
data = json.load(open(sys.argv[1]))
config = data["config"]
assert [c["name"] for c in config["contenders"]] == [
    "openmpi", "openmpi/t", "openmpi/tm", "mpich", "mpich/t", "mpich/tm", "gloo/ring", "gloo/bcube", "torch"]
assert [m["name"] for m in config["missing"]] == ["gloo/ring", "gloo/bcube", "torch"]
assert config["repetitions"] == 3 and config["ranks"] == 2 and config["cpu"] == "a | b", config
contenders = {c["name"]: c for c in config["contenders"]}
assert contenders["openmpi"]["version"] == "fake <1.0> & more"
assert contenders["mpich/tm"]["command"].startswith("UCX_TLS=self,posix MALLOC_MMAP_THRESHOLD_=4294967296 ")
assert contenders["openmpi/t"]["command"].endswith("--root 0 --beside openmpi")
assert contenders["gloo/ring"]["command"] is None
factors = {"openmpi": 1.6, "openmpi/t": 1.25, "openmpi/tm": 1.3, "mpich": 2.0, "mpich/t": 2.5, "mpich/tm": 4.0}
near = lambda a, b: abs(a - b) <= 1e-9 * max(abs(a), abs(b))
logs, lost, cells = [], 0, 0
def key(r):
    return r["collective"], r["size"], r["inplace"], r["placement"], r["hop"]
rows = {(r["contender"], *key(r)): r for r in data["results"]}
assert len(rows) == len(data["results"])
for cell in data["comparison"]:
    collective, size = cell["collective"], cell["size"]
    jobs, slower = ((1, 3), 1) if cell["hop"] == "near" else ((2,), 100)  # the second one saw CPUs far from each other
    own = [(1 + size / 1000) * (slower if slower > 1 else 1 + 0.01 * job) for job in jobs]
    assert cell["hop"] in ("near", "far") and cell["counted"] and cell["ranks"] == 2 and cell["algorithm"] == "two_shot", cell
    assert rows["tutti", *key(cell)]["algorithm"] == "two_shot", cell
    assert near(cell["bound_us"], cell["tutti_us"] / 2), cell
    assert near(cell["tutti_us"], statistics.median(own)), cell
    best = None
    for name, factor in factors.items():
        if name.startswith("mpich") and collective == "all_gather":
            assert (name, *key(cell)) not in rows
            continue
        of = lambda job: 0.8 if collective == "all_gather" and size == 512 and name == "openmpi/t" else \
            factor * (1 + 0.02 * job)
        ratios = [1 / of(job) for job in jobs]
        expected = statistics.median(ratios), min(ratios) * 0.95, max(ratios) * 1.05
        row = rows[name, *key(cell)]
        assert row["used"] == len(jobs) and [r["repetition"] for r in row["repetitions"]] == [*jobs], row
        assert {r["hop"] for r in row["repetitions"]} == {cell["hop"]}, row
        for got, want in zip((row["versus"][k] for k in ("ratio", "low", "high")), expected):
            assert near(got, want), (row, expected)
        times = [time * of(job) for time, job in zip(own, jobs)]
        assert near(row["time_us"]["p50"], statistics.median(times)), row
        assert near(row["time_us"]["min"], min(times) / 2) and near(row["time_us"]["max"], max(times) * 3), row
        if best is None or expected[0] > best[1]:
            best = name, *expected, statistics.median(times)
    assert cell["best_peer"] == best[0] and near(cell["ratio"], best[1]) and near(cell["best_us"], best[4]), (cell, best)
    assert near(cell["low"], best[2]) and near(cell["high"], best[3]), (cell, best)
    assert cell["lost"] == (best[2] > 1), cell
    logs.append(math.log(best[1]))
    lost += best[2] > 1
    cells += 1
assert cells == data["cells"] == 38 and lost == data["lost"] == 4
assert near(data["geometric_mean"], math.exp(statistics.fmean(logs))), data["geometric_mean"]
summary = {(s["collective"], s["placement"]): s for s in data["summary"]}
assert summary["all_gather", "heap"]["lost"] == 2 and summary["all_reduce", "private"]["cells"] == 12, summary
END

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
for name in "Tutti", "Tutti, heap", "openmpi/tm", "mpich":
    assert texts.count(name) >= 2, (name, texts)
assert "gloo/ring" not in texts
END
}
check_svg "$work/all.svg" "SVG"

# Some settings only; the same library twice is one contender; one repetition.
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --vs mpich/tm,mpich/tm
check_status 0 "one setting"
check_equal "$(cat "$work/state/order")" "mpich/tm" "one setting"
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --profile defaults --vs openmpi,mpich,gloo
check_equal "$(tr '\n' ' ' <"$work/state/order")" "openmpi mpich " "--profile defaults"
check_no_line out 'gloo/bcube' "--profile defaults"
run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 1 --profile tuned --vs openmpi,mpich
check_equal "$(tr '\n' ' ' <"$work/state/order")" "openmpi/t openmpi/tm mpich/t mpich/tm " "--profile tuned"

run_vs reduce,barrier -n 2 -b 8 -e 8 --repeat 1 --vs gloo
check_no_line err 'bcube' "settings of one collective"
run_vs reduce,barrier -n 2 -b 8 -e 8 --repeat 1 --vs gloo/bcube
check_line err '^tutti bench: gloo/bcube is missing: its settings are about all_reduce alone' "settings of one collective"

# What one contender saw alone is shown, and not counted: the best one may be missing there.
FAKE_FAR=mpich run_vs -n 2 -b 8 -e 512 -f 64 --repeat 2 --vs openmpi/t,mpich -J "$work/far.json"
check_status 0 "another class for one contender"
check_line out '^ +8 +out +private +near .* elsewhere .* openmpi/t: ' "the class of the others"
check_line out '^ +8 +out +private +far +.* elsewhere .* mpich: ' "its class"
checks=$((checks + 1))
python3 - "$work/far.json" >"$work/err" 2>&1 <<'END' || fail "cells that count"
import json, sys
data = json.load(open(sys.argv[1]))
near = [c for c in data["comparison"] if c["hop"] == "near"]
far = [c for c in data["comparison"] if c["hop"] == "far"]
assert near and far and all(c["counted"] for c in near) and not any(c["counted"] for c in far), (near, far)
assert data["cells"] == len(near), data["cells"]
END

# What a comparison has measured is kept: the same one goes on, another one does not.
FAKE_MODE=fail run_vs barrier -n 2 --repeat 2 --vs mpich/t,mpich/tm --keep "$work/kept"
check_status 1 "a comparison that is not complete"
check_equal "$(ls "$work/kept")" "$(printf 'mpich-tm.private.%s.json\n' 1 2)" "what is kept"
run_vs barrier -n 2 --repeat 2 --vs mpich/t,mpich/tm --keep "$work/kept" -J "$work/kept.json"
check_status 0 "it goes on"
check_equal "$(cat "$work/state/order")" "$(printf 'mpich/t\nmpich/t')" "it runs what is missing"
check_line err '^tutti bench: 2 of 4 blocks were kept in .*/kept, and not run again$' "it says so"
check_count kept.json '"blocks": 2,' 2 "it has all"
check_count kept.json '"failed": 0,' 2 "it has all"
run_vs barrier -n 2 --repeat 2 --vs mpich/t,mpich/tm --keep "$work/kept" -i 7
check_equal "$(wc -l <"$work/state/order")" 4 "another comparison"
echo "no JSON" >"$work/kept/mpich-t.private.2.json"
run_vs barrier -n 2 --repeat 2 --vs mpich/t,mpich/tm --keep "$work/kept" -i 7
check_equal "$(cat "$work/state/order")" "mpich/t" "a broken file"
run_vs barrier -n 2 --vs mpich/t --keep "$work/kept.json"
check_status 1 "a folder that is a file"
check_line err '^tutti bench: --keep .*/kept.json: there is a file of that name$' "a folder that is a file"

# A contender that fails costs its own cells.
for mode in fail garbage empty; do
    FAKE_MODE=$mode run_vs all_reduce -n 2 -b 8 -e 512 -f 64 --repeat 2 --vs mpich -J "$work/fail.json"
    check_status 1 "$mode"
    check_count err "^tutti bench: mpich/t, repetition [12] failed: it" 2 "$mode"
    check_line out '^ +8 +out +private +(near|far) +two_shot +[0-9.]+ +[0-9.]+ +[0-9.]+ +failed +[0-9.]+ +[0-9.]+ +mpich: ' \
        "$mode: cells"
    check_line out '2 of 2 blocks failed, the last because it' "$mode: summary"
    check_line fail.json '"failed": 2' "$mode: JSON"
done
FAKE_MODE=fail run_vs all_reduce -n 2 -e 512 -f 64 --repeat 1 --vs mpich/t
check_line err 'failed: it ended with exit code 3$' "the exit code of a failed job"
check_line err '^    \| fake: the network <is> down$' "what a failed job has said"
check_line out '^# Cells: 0, lost: 0, ' "no cells"

# One that hangs is ended, with what it has started elsewhere.
FAKE_MODE=hang run_vs all_reduce -n 2 -e 512 -f 64 --repeat 1 --limit 1 --vs mpich/t,mpich/tm
check_status 1 "a job that hangs"
check_line err '^tutti bench: mpich/t, repetition 1 failed: it took longer than 1 s$' "a job that hangs"
check_equal "$(tail -1 "$work/state/order")" "mpich/tm" "the comparison goes on"
check_nothing_left "a job that hangs"

for signal in TERM INT; do
    rm -rf "$work/state" && mkdir "$work/state"
    # a shell's background job ignores SIGINT, so Python starts it
    FAKE_MODE=hang python3 -c 'import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
started = subprocess.Popen(sys.argv[2:], start_new_session=True)
with open(sys.argv[1], "w") as file:
    file.write(str(started.pid))
sys.exit(started.wait() & 255)' "$work/pid" "$tutti" bench all_reduce -n 2 -e 512 -f 64 --vs mpich/t \
        -J "$work/none.json" --keep "$work/ended" >"$work/out" 2>"$work/err" </dev/null &
    checks=$((checks + 1))
    eventually test -e "$work/state/hangs" || fail "SIG$signal: the job never ran"
    kill "-$signal" "$(cat "$work/pid")"
    wait $!
    status=$?
    check_status $((128 + $(kill -l "$signal"))) "SIG$signal"
    check_line err 'was ended, nothing is written; 0 of 3 blocks are kept in .*/ended for the same command$' "SIG$signal"
    check_nothing_left "SIG$signal"
done

# A program of the user's own takes turns with Tutti alone.
run_vs all_reduce -n 2 -b 1K -e 8K -f 8 -i 3 --backend shm --vs "exec:$work/own program.py" -J "$work/own.json"
check_status 0 "a program"
check_equal "$(sort -u "$work/state/order")" "exec all_reduce -n 2 -b 1024 -e 8192 -f 8 -d f32 -o sum" "its arguments"
checks=$((checks + 1))
python3 - "$work/own.json" >"$work/err" 2>&1 <<'END' || fail "the ratios to a program"
import json, statistics, sys
data = json.load(open(sys.argv[1]))
assert data["config"]["contenders"][0]["version"] == "my own"
by = {}
for r in data["results"]: # on a busy machine the hop changes, so the repetitions may be in several cells
    if not r["inplace"]:
        by.setdefault((r["contender"] == "tutti", r["size"]), []).extend(r["repetitions"])
assert len(by) == 4 and data["comparison"], by
for cell in data["comparison"]:
    tutti, own = (sorted(by[who, cell["size"]], key=lambda r: r["repetition"]) for who in (True, False))
    assert [r["p50"] for r in own] == [1000, 2000, 3000], own
    assert [r["hop"] for r in own] == [r["hop"] for r in tutti], (own, tutti)
    pairs = [(a["p50"], b["p50"]) for a, b in zip(tutti, own) if a["hop"] == cell["hop"]]
    ratios = [a / b for a, b in pairs]
    for got, want in zip((cell["ratio"], cell["low"], cell["high"]),
                         (statistics.median(ratios), min(ratios), max(ratios))):
        assert abs(got - want) < 1e-9 * want, (cell, ratios)
    assert cell["best_us"] == statistics.median(b for _, b in pairs)
END
FAKE_MODE=wrong run_vs all_reduce -n 2 -b 1K -e 1K -i 3 --repeat 1 --vs "exec:$work/own program.py"
check_status 1 "a program with wrong results"
run_vs barrier -n 2 --repeat 1 --vs exec:/nowhere/program,openmpi
check_status 0 "a program that is not there"
check_line err "^tutti bench: exec:/nowhere/program is missing: cannot find the program '/nowhere/program'" \
    "a program that is not there"

# All at once missing.
TUTTI_BENCH_PEERS=$work/nowhere run_vs barrier -n 2 --vs gloo,openmpi -J "$work/none.json"
check_status 0 "nobody is there"
check_line none.json '"geometric_mean": null' "nobody is there"

refused() { # REGEX ARGS...
    expected=$1
    shift
    run_tutti bench "$@"
    check_status 2 "bench $*"
    check_line err "$expected" "bench $*"
    check_no_line out '^#' "bench $*"
}

refused "^tutti bench: --vs nccl: there is no such contender; there are openmpi, mpich, gloo, torch, " --vs nccl
refused "^tutti bench: --vs openmpi/x: that library has no such settings; there are default, t" --vs openmpi/x
refused "^tutti bench: --vs openmpi,,mpich: a name is empty$" --vs openmpi,,mpich
refused "^tutti bench: --vs : a name is empty$" --vs ''
refused "^tutti bench: --vs exec:: exec: takes a program$" --vs exec:
refused "^tutti bench: --vs tutti:x: tutti: takes settings" --vs tutti:x
refused "^tutti bench: --repeat takes a number from 1 to 99, not '0'$" --vs mpich --repeat 0
refused "^tutti bench: --profile takes all, defaults or tuned, not 'best'$" --vs mpich --profile best
refused "^tutti bench: --limit takes a time .*, not '0'$" --vs mpich --limit 0
refused "^tutti bench: --plot, --record, --limit, --heap-from and --keep belong to a comparison" --plot "$work/x.svg"
refused "^tutti bench: --vs compares synchronous calls, .*leave out --async" --vs mpich --async
refused '^tutti bench: --root 2: there are only ranks 0 to 1$' -n 2 --root 2 --vs mpich
TUTTI_RANK=0 TUTTI_WORLD_SIZE=1 run_tutti bench --vs mpich
check_status 2 "--vs inside a job"
check_line err "^tutti bench: --vs starts jobs of its own, and cannot be a rank of one" "--vs inside a job"
run_vs barrier -n 2 --vs mpich --plot "$work/nowhere/x.svg"
check_status 1 "a file that cannot be made"
check_line err '^tutti bench: .*/nowhere/x\.svg: No such file or directory$' "a file that cannot be made"
check_equal "$(ls "$work/state")" "" "nothing was measured in vain"
run_vs barrier -n 2 --repeat 1 --vs mpich/tm --record /dev/full
check_status 1 "a full disk"
check_line err '^tutti bench: /dev/full: cannot be written$' "a full disk"

finish
