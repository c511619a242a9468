#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti bench`: every collective at a few small sizes on both own backends, the table, the JSON, and refused options.
# Of times the test only checks that they are numbers.
# tutti-test: timeout=240
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE

number='[0-9]+\.[0-9]{2}'
result=" +$number +$number +$number +0"
absent=' +N/A +N/A +N/A +N/A'
algo=' +(inline|packets|one_shot|two_shot|staged|pipelined|zero_copy|solo)(/[a-z_]+)?'

# The JSON against the schema, and each of its rows against what the size means.
check_json() { # FILE BACKEND RANKS WHAT
    checks=$((checks + 1))
    python3 -m json.tool "$1" >/dev/null 2>"$work/err" || fail "$4: not JSON"
    python3 - "$1" "$2" "$3" >"$work/err" 2>&1 <<'END' || fail "$4"
import json, sys
data = json.load(open(sys.argv[1]))
backend, ranks = sys.argv[2], int(sys.argv[3])
config = data["config"]
assert config["ranks"] == ranks and config["backend"] == backend, config
assert config["cpus"] >= 1 and config["ranks_per_cpu"] >= ranks / config["cpus"] - 1e-9, config  # a quota may end in .5
assert config["version"] and config["isa"] in ("base", "avx2", "avx512"), config
assert config["start"] == "clock", config
assert any("inline up to 100 bytes, " in line for line in config["description"]) or backend == "local", config
names = ["all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
         "sendrecv", "barrier"]
assert [n for i, n in enumerate(r["collective"] for r in data["results"])
        if i == 0 or n != data["results"][i - 1]["collective"]] == names
parts = {"all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"}
both = {"all_reduce", "reduce", "all_gather", "gather", "scatter", "reduce_scatter"}
for name in names:
    assert {r["inplace"] for r in data["results"] if r["collective"] == name} == ({False, True} if name in both
                                                                                  else {False}), name
for r in data["results"]:
    name = r["collective"]
    assert r["backend"] == backend and r["ranks"] == ranks and r["wrong"] == 0 and r["iterations"] == 2, r
    assert r["type"] == ("none" if name == "barrier" else "f32"), r
    assert r["redop"] == ("sum" if "reduce" in name else "none"), r
    assert r["root"] == (1 if name in ("reduce", "broadcast", "gather", "scatter") else -1), r
    assert r["size"] == r["count"] * 4 * (ranks if name in parts else 1), r
    assert r["batch"] == (20 if r["size"] < 4096 else 1), r
    assert r["contender"] == "tutti" and r["placement"] == "private" and "versus" not in r and "hop_ns" not in r, r
    assert (r["algorithm"] is None) == (name == "sendrecv"), r
    if r["size"] == 64800 and backend == "local":
        assert r["algorithm"] in (None, "zero_copy"), r
    if r["size"] == 64800 and backend == "shm":
        assert r["algorithm"] in (None, "one_shot", "two_shot", "staged", "pipelined"), r
    if r["size"] <= 12:
        assert r["algorithm"] in (None, "inline"), r
    t = r["time_us"]
    assert 0 < t["min"] <= t["p50"] <= t["p99"] <= t["max"], r
    assert abs(r["alg_bw"] - r["size"] / t["p50"] / 1000) <= 1e-9 * r["alg_bw"], r
    factor = (ranks - 1) / ranks if name in parts else 2 * (ranks - 1) / ranks if name == "all_reduce" else 1
    assert abs(r["bus_bw"] - factor * r["alg_bw"]) <= 1e-9 * r["alg_bw"], r
END
}

for backend in shm local; do
    run_tutti bench --backend "$backend" -n 3 -b 8 -e 64K -f 90 -i 2 --root 1 -J "$work/$backend.json"
    check_status 0 "$backend"
    check_count out "^# tutti bench [0-9.]+: 3 ranks on [0-9]+ CPUs? \([0-9.]+ ranks per CPU\), backend $backend\$" 1 \
        "$backend: header"
    check_line out '^#   classes: ' "$backend: classes"
    check_count out '^# +size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw +busbw +#wrong +algo$' 10 \
        "$backend: columns"
    check_count out '^# Out of bounds values : 0 OK$' 10 "$backend: footers"
    check_count out '^# Avg bus bandwidth    : [0-9]+\.[0-9]{3}$' 10 "$backend: footers"
    check_line out "^ +8 +2 +f32 +sum +-1$result$result +inline\$" "$backend: all_reduce"
    check_line out "^ +720 +180 +f32 +none +1$result$absent$algo\$" "$backend: broadcast"
    check_line out "^ +64800 +5400 +f32 +none +-1$result$result$algo\$" "$backend: all_gather"
    check_line out "^ +0 +0 +none +none +-1$result$absent +inline\$" "$backend: barrier"
    check_line out "^ +64800 +16200 +f32 +none +-1$result$absent +-\$" "$backend: a message is no collective"
    check_count out '^ ' 28 "$backend: rows"
    check_json "$work/$backend.json" "$backend" 3 "$backend: JSON"
done

# Types and reductions, names, sizes.
for words in 'allreduce -d bf16 -o avg' 'All-Reduce -d bool -o lor' 'reduce_scatter -d i8 -o premul_sum' \
    'reduce -d f8_e4m3 -o product' 'all_to_all -d u16' 'sendrecv -d f64'; do
    # shellcheck disable=SC2086
    run_tutti bench $words --backend local -n 2 -b 1K -e 8k -f 8 -i 3
    check_status 0 "$words"
    check_line out '^ +1024 ' "$words: first size"
    check_line out '^ +8192 ' "$words: last size"
    check_count out '^ ' 2 "$words: rows"
done
run_tutti bench all_gather --backend local -n 4 -b 1 -e 32 -f 2 -i 1
check_line out '^ +16 +1 +f32 ' "at least one element for each rank"
check_count out '^ ' 2 "every size once"
run_tutti bench all_reduce -n 1 -e 64 -f 8
check_status 0 "one rank, and iterations by time"
check_line out "^ +64 +16 +f32 +sum +-1$result$result +solo\$" "one rank"

# Wrong results are noticed: the backend null needs no other rank, and transfers nothing.
TUTTI_RANK=0 TUTTI_WORLD_SIZE=2 TUTTI_STORE=memory:bench \
    run_tutti bench all_reduce --backend null -b 8K -e 8K -i 4 -J "$work/null.json"
check_status 1 "wrong results"
check_line out '^ +8192 .* 12288 .* 12288 +-$' "wrong results are counted in each iteration and warm-up"
check_line out '^# Out of bounds values : 24576 FAILED$' "wrong results"
check_line null.json '"wrong": 12288' "wrong results are in the JSON"

# Buffers behind a page, in private memory and in the heap.
for placement in private heap; do
    run_tutti bench all_gather,sendrecv -n 2 --sizes 12,96K -i 3 --offset 16 --placement $placement -J "$work/offset.json"
    check_status 0 "offset, $placement"
    check_count out '^# Out of bounds values : 0 OK$' 2 "offset, $placement"
    check_count offset.json '"offset": 16' 1 "offset, $placement"
done

# Messages in patterns and group making, also of a rank without a partner; sizes from a list.
run_tutti bench ping_pong,window,group -n 3 --sizes 8,64K --budget 5
check_status 0 "patterns"
check_count out '^# Out of bounds values : 0 OK$' 3 "patterns"
check_count out '^ +[0-9]+ +[0-9]+ .* 0 ' 5 "patterns"
run_tutti bench ping_pong,window,group -n 1 --sizes 8,64K --budget 5 -J "$work/alone.json"
check_status 0 "patterns of one rank"
check_count out '^# left out: it needs two ranks$' 2 "a rank alone has no partner"
check_count out '^ +[0-9]+ +[0-9]+ .* 0 ' 1 "a rank alone has no partner"
check_no_line alone.json '"(ping_pong|window)"' "a rank alone has no partner"
run_tutti bench all_reduce -n 2 --sizes 64,8
check_status 2 "sizes out of order"
check_line err '^tutti bench: --sizes takes up to 64 sizes in ascending order, not '"'64,8'" "sizes out of order"

# Inside a job.
run_tutti run -n 2 --no-prefix "$tutti" bench barrier -i 5
check_status 0 "inside tutti run"
check_count out '^# barrier$' 1 "only rank 0 prints"
check_line out '^# tutti bench [0-9.]+: 2 ranks' "inside tutti run"
run_tutti run -n 2 --no-prefix "$tutti" bench barrier -n 3
check_status 2 "another number of ranks"
check_line err '^tutti bench: -n 3, but the launcher has started 2 ranks: leave out -n$' "another number of ranks"
run_tutti run -n 2 --no-prefix "$tutti" bench broadcast --root 2
check_status 2 "a root outside the job"
check_line err '^tutti bench: --root 2: there are only ranks 0 to 1$' "a root outside the job"

check_bench_refuses "^tutti bench: there is no collective 'all_redce'; there are all_reduce, .* barrier, .*group, and all\$" all_redce
check_bench_refuses "^tutti bench: one collective, a list with commas, or none for all; 'reduce' is one too many" all_reduce reduce
for bad in 0 -1 2x '' 1025; do
    check_bench_refuses "^tutti bench: -n takes a number from 1 to 1024, not '$bad'\$" -n "$bad"
done
for bad in 0 -8 8T K '' 1.5K 99999999999999999999 1025G '8 K'; do
    check_bench_refuses "^tutti bench: -b takes a size from 1 to 1024G \(as in 64, 64K, 16M, 1G\), not '$bad'\$" -b "$bad"
done
check_bench_refuses "^tutti bench: -e takes a size" -e 1KiB
check_bench_refuses '^tutti bench: -b 1024 is more than -e 512$' -b 1K -e 512
check_bench_refuses "^tutti bench: -f takes a number from 2 to 1048576, not '1'\$" -f 1
check_bench_refuses "^tutti bench: -d takes an element type .*, not 'f33'\$" -d f33
check_bench_refuses "^tutti bench: -o takes a reduction .*, not 'mean'\$" -o mean
check_bench_refuses '^tutti bench: avg is not defined on bool$' -d bool -o avg
check_bench_refuses "^tutti bench: --root takes a number from 0 to [0-9]+, not '-1'\$" --root -1
check_bench_refuses '^tutti bench: --root 2: there are only ranks 0 to 1$' -n 2 --root 2
check_bench_refuses "^tutti bench: -i takes a number from 1 to 1000000, not '0'\$" --iterations 0
check_bench_refuses "unrecognized option '--warmup'" --warmup 3
check_bench_refuses "^tutti bench: --placement takes private or heap, not 'stack'\$" --placement stack
check_bench_refuses "^tutti bench: --offset takes a number from 0 to 4095, not '4096'\$" --offset 4096
check_bench_refuses '^tutti bench: --offset 12: buffers for f64 begin at a multiple of 8 bytes$' -d f64 --offset 12
check_bench_refuses '^tutti bench: --beside, --roofline and --offset are for host memory; leave out --device$' \
    --device cuda --offset 16
check_bench_refuses "^tutti bench: --beside takes one library; 'gloo' is one too many" --beside tutti --beside gloo
check_bench_refuses "^tutti bench: --beside measures synchronous calls; leave out --async\$" --beside tutti --async
check_bench_refuses "^tutti bench: --persistent measures synchronous calls; leave out --async\$" \
    barrier --persistent --async
for none in all sendrecv; do
    check_bench_refuses "^tutti bench: --persistent: sendrecv has no persistent form; name collectives" "$none" --persistent
done

collectives=all_reduce,reduce,broadcast,all_gather,gather,scatter,reduce_scatter,all_to_all,barrier
run_tutti bench "$collectives" -n 3 -i 2 --sizes 12,96K --persistent --backend local -J "$work/json"
check_status 0 "persistent operations"
check_line json '"persistent": true' "persistent operations"

run_tutti bench --backend nothing
check_status 1 "an unknown backend"
check_line err "^tutti bench: there is no backend 'nothing'; known are " "an unknown backend"
run_tutti bench -n 1024 -e 1024G
check_status 1 "more memory than there is"
check_line err '^tutti bench: 1024 ranks with two buffers of 1099511627776 bytes do not fit' "more memory than there is"
run_tutti bench barrier -n 2 -J "$work/nowhere/file"
check_status 1 "a file that cannot be made"
check_line err '^tutti bench: rank 0: cannot write .*/nowhere/file: No such file or directory$' "a file that cannot be made"
run_tutti bench barrier --backend local -n 2 -i 1 -J /dev/full
check_status 1 "JSON to a full disk"
check_line err '^tutti bench: rank 0: cannot write /dev/full: No space left on device$' "JSON to a full disk"
"$tutti" bench barrier --backend local -n 2 -i 1 >/dev/full 2>"$work/err"
status=$?
check_status 1 "a full disk"
check_line err '^tutti bench: rank 0: standard output: cannot be written$' "a full disk"

run_tutti bench --help
check_status 0 "--help"
check_line out '^Usage: tutti bench \[OPTION\.\.\.\] \[COLLECTIVE,\.\.\.\]' "--help"
check_line out 'tutti bench all_reduce -n 4 -b 8 -e 64M -f 2' "--help has examples"

finish
