#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti bench --async` and `tutti bench overlap`: tables, JSON, checked results, and refused options. Of times the test
# only checks that they are numbers.
# tutti-test: timeout=240 trees=release,debug
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE

number='[0-9]+\.[0-9]{2}'
time=" +$number +$number +$number +0"
rest=" +$number +$number +$number +-?$number +$number +(-|[a-z_]+)"

# ---- the asynchronous form beside the synchronous one ----

check_async_json() { # FILE BACKEND RANKS WHAT
    checks=$((checks + 1))
    python3 - "$1" "$2" "$3" >"$work/err" 2>&1 <<'END' || fail "$4"
import json, sys
data = json.load(open(sys.argv[1]))
backend, ranks = sys.argv[2], int(sys.argv[3])
config = data["config"]
assert config["async"] is True and config["clock_ns"] >= 0, config
names = ["all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
         "sendrecv", "barrier"]
assert [n for i, n in enumerate(r["collective"] for r in data["results"])
        if i == 0 or n != data["results"][i - 1]["collective"]] == names
assert len(data["results"]) == 46
for r in data["results"]:
    assert r["async"] is True and r["backend"] == backend and r["ranks"] == ranks, r
    assert r["wrong"] == 0 and r["iterations"] == 2, r
    for times in "time_us", "submit_us", "sync_us":
        t = r[times]
        assert set(t) == {"p50", "p99", "min", "max"}, r
        assert 0 < t["min"] <= t["p50"] <= t["p99"] <= t["max"], r
    assert abs(r["alg_bw"] - r["size"] / r["time_us"]["p50"] / 1000) <= 1e-9 * r["alg_bw"], r
END
}

for backend in shm local; do
    run_tutti bench --async --backend "$backend" -n 3 -b 8 -e 64K -f 90 -i 2 --root 1 -J "$work/$backend.json"
    check_status 0 "$backend"
    columns='size +count +type +redop +root +place +time +algbw +busbw +#wrong +submit +p99 +sync +diff +ratio +algo'
    check_count out "^# +$columns\$" 10 "$backend: columns"
    check_line out '^# all_reduce, asynchronous$' "$backend: title"
    check_count out '^# submit: how long the start alone takes' 1 "$backend: what submit means"
    check_line out "^ +720 +180 +f32 +sum +-1 +out$time$rest\$" "$backend: out of place"
    check_line out "^ +720 +180 +f32 +sum +-1 +in$time$rest\$" "$backend: in place"
    check_count out "^ +720 +180 +f32 +none +1 +(in|out)$time$rest\$" 1 "$backend: broadcast has one form"
    check_line out "^ +0 +0 +none +none +-1 +out$time$rest\$" "$backend: barrier"
    check_count out '^ ' 46 "$backend: rows"
    check_count out '^# Out of bounds values : 0 OK$' 10 "$backend: footers"
    check_async_json "$work/$backend.json" "$backend" 3 "$backend: JSON"
done

# With the limits of the machine.
run_tutti bench all_reduce --async --roofline -n 2 -b 64K -e 64K -i 2
check_status 0 "--roofline"
check_line out '^# bound: ' "--roofline: what bound means"
check_line out '^# .* sync +diff +ratio +bound +/bound +hop +algo$' "--roofline: columns"
figures=" +$number +$number +$number +-?$number +$number +$number +$number +(near|far|same|moved|-) +(-|[a-z_]+)"
check_count out "^ +65536 +16384 +f32 +sum +-1 +(in|out)$time$figures\$" 2 "--roofline: rows"

# The other form says so too.
run_tutti bench barrier -n 2 --backend local -i 2 -J "$work/sync.json"
check_status 0 "without --async"
check_count sync.json '"async": false' 2 "without --async"
check_no_line sync.json 'submit_us|sync_us|clock_ns' "without --async"

# Both forms are checked: three kinds of iterations, two of them for warming up, of 2048 elements each.
TUTTI_RANK=0 TUTTI_WORLD_SIZE=2 TUTTI_STORE=memory:bench_async \
    run_tutti bench all_reduce --async --backend null -b 8K -e 8K -i 4
check_status 1 "wrong results"
check_count out '^ +8192 .* 36864 ' 2 "wrong results are counted in each iteration"
check_line out '^# Out of bounds values : 73728 FAILED$' "wrong results"

# ---- overlap ----

check_overlap_json() { # FILE BACKEND RANKS WHAT
    checks=$((checks + 1))
    python3 - "$1" "$2" "$3" >"$work/err" 2>&1 <<'END' || fail "$4"
import json, sys
data = json.load(open(sys.argv[1]))
config = data["config"]
assert config["backend"] == sys.argv[2] and config["ranks"] == int(sys.argv[3]), config
assert config["link_backend"] == "fault" and config["link_over"] == "shm", config
assert config["step_ms"] == 2 and config["iterations"] == 3, config
assert config["chunks"] == 4 and config["gradients"] == 8 and config["bytes"] == 65536, config
assert config["bandwidth"] == 65536 * 1000 // 2, config
forms = ["compute", "communicate", "in_turn", "overlap", "pipeline", "bucketer"]
assert [r["form"] for r in data["results"]] == forms
results = dict(zip(forms, data["results"]))
compute, communicate = (results[form]["time_us"]["p50"] for form in forms[:2])
longer, shorter = max(compute, communicate), min(compute, communicate)
assert communicate >= 2000, "the link must hold up an all_reduce for a step"
for form, ideal in zip(forms, [compute, communicate, compute + communicate, longer, longer + shorter / 4,
                               longer + shorter / 4]):
    r = results[form]
    t = r["time_us"]
    assert r["wrong"] == 0 and 0 < t["min"] <= t["p50"] <= t["p99"] <= t["max"], r
    assert abs(r["ideal_us"] - ideal) <= 1e-6 * ideal, r
    assert ("step_over_max" in r) == (form not in forms[:2]), r
    assert abs(r.get("step_over_max", 0) * longer - t["p50"] * ("step_over_max" in r)) <= 1e-6 * t["p50"], r
assert data["step_over_max"] == results["overlap"]["step_over_max"]
END
}

ms='[0-9]+\.[0-9]{3}'
for backend in shm local; do
    run_tutti bench overlap --backend "$backend" -n 2 --step 2 -i 3 --chunks 4 -J "$work/overlap.json"
    check_status 0 "overlap on $backend"
    check_line out "^# step: 2 ms of computation, and an all_reduce of 65536 bytes over a link of 32768000 bytes/s" \
        "overlap on $backend: header"
    check_count out "^ +(compute|communicate) +$ms +$ms +$ms +$ms +$ms +- +0\$" 2 "overlap on $backend: alone"
    check_count out "^ +(in_turn|overlap|pipeline|bucketer) +$ms +$ms +$ms +$ms +$ms +${number}x +0\$" 4 \
        "overlap on $backend: together"
    check_line out '^# Out of bounds values : 0 OK$' "overlap on $backend: footer"
    checks=$((checks + 1))
    tail -n 1 "$work/out" | grep -Eq "^overlap: step/max = ${number}x\$" || fail "overlap on $backend: last line"
    check_overlap_json "$work/overlap.json" "$backend" 2 "overlap on $backend: JSON"
done
run_tutti run -n 2 --no-prefix "$tutti" bench overlap --step 1 -i 1 --chunks 1
check_status 0 "overlap inside tutti run"
check_count out '^overlap: step/max = ' 1 "overlap inside tutti run"

for bad in 0 -1 10001 5ms ''; do
    check_bench_refuses "^tutti bench overlap: --step takes a number from 1 to 10000, not '$bad'\$" overlap --step "$bad"
done
check_bench_refuses "^tutti bench overlap: --chunks takes a number from 1 to 64, not '65'\$" overlap --chunks 65
check_bench_refuses "^tutti bench overlap: -i takes a number from 1 to 1000000, not '0'\$" overlap -i 0
check_bench_refuses "^tutti bench overlap: -n takes a number from 1 to 1024, not '0'\$" overlap -n 0
check_bench_refuses "^tutti bench overlap: takes options only, not 'all_reduce'" overlap all_reduce
check_bench_refuses '^tutti bench: overlap comes first, and has options of its own: tutti bench overlap --help$' -n 2 overlap

run_tutti bench overlap --help
check_status 0 "overlap --help"
check_line out '^Usage: tutti bench overlap \[OPTION\.\.\.\]' "overlap --help"
check_line out 'overlap: step/max = 1\.05x' "overlap --help describes the last line"
run_tutti bench --help
check_line out 'tutti bench overlap' "bench --help lists overlap"

# ---- the record: what `make bench-async` runs ----

source=${TUTTI_SOURCE:-$here/../..}
python3 "$source/scripts/bench_async.py" --quick "$build" "$work/results" >"$work/out" 2>"$work/err" </dev/null
status=$?
check_status 0 "bench_async.py"
check_line results/async.md '^\| CPU \| .+, [0-9]+ CPUs \|$' "the record: machine"
check_count results/async.md '^### (all_reduce|all_gather|broadcast|sendrecv|barrier)$' 5 "the record: collectives"
check_line results/async.md '^    overlap: step/max = [0-9]+\.[0-9]{2}x$' "the record: overlap"
check_line results/async.md '^`tutti run -n 2 --bind-to core .*tutti bench all_reduce --async' "the record: the command"
check_line results/async.md 'quick run' "the record says that it was a quick run"

finish
