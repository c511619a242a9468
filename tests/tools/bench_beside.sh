#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `tutti bench --beside`: another library, or other settings of Tutti, measured alternately with it; the limits of the
# machine (--roofline); and buffers in the heap (--placement). Of times the test only checks that they are numbers.
# tutti-test: timeout=300 trees=release,debug
. "$(dirname "$0")/common.inc"
unset LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_LOCAL_RANK TUTTI_LOCAL_WORLD_SIZE TUTTI_BENCH_PEERS

number='[0-9]+\.[0-9]{2}'
ratio='[0-9]+\.[0-9]{3}'
roof=" +($number +$number|- +-) +(near|far|same|moved|-) +(-|[a-z_]+)"
absent=' +N/A +N/A +N/A +N/A +N/A'

# The JSON: each row of Tutti's has one of the other's behind it. MISSING: collectives that the other one does not have.
check_json() { # FILE LABEL RANKS MISSING WHAT
    checks=$((checks + 1))
    python3 - "$1" "$2" "$3" "$4" >"$work/err" 2>&1 <<'END' || fail "$5"
import json, sys
data = json.load(open(sys.argv[1]))
label, ranks, missing = sys.argv[2], int(sys.argv[3]), sys.argv[4].split()
peer = data["config"]["peer"]
assert peer["name"] == label.split(":")[0] and peer["version"], peer
assert peer["settings"] == label.partition(":")[2], peer
rows = data["results"]
assert rows and len(rows) % 2 == 0
for own, other in zip(rows[::2], rows[1::2]):
    assert own["contender"] == "tutti" and other["contender"] == label, other
    for key in ("collective", "ranks", "size", "count", "type", "redop", "root", "inplace", "placement", "iterations",
                "hop_ns", "bound_us"):
        assert own[key] == other[key], (key, own, other)
    assert own["ranks"] == ranks and own["wrong"] == 0 and own["placement"] == "private", own
    assert len(own["hop_ns"]) == 2 and all(hop is None or hop > 0 for hop in own["hop_ns"]), own
    assert own["bound_us"] is None or own["bound_us"] > 0, own
    assert own["size"] == 0 or ranks == 1 or own["bound_us"] > 0, own
    assert (own["algorithm"] is None) == (own["collective"] == "sendrecv") and other["algorithm"] is None, (own, other)
    if own["collective"] in missing:
        assert all(other[k] is None for k in ("time_us", "alg_bw", "bus_bw", "wrong", "versus")), other
        continue
    t, v = other["time_us"], other["versus"]
    assert 0 < t["min"] <= t["p50"] <= t["p99"] <= t["max"] and other["wrong"] == 0, other
    assert v["tutti_us"] == own["time_us"]["p50"], other
    assert abs(v["ratio"] - v["tutti_us"] / t["p50"]) <= 1e-9 * v["ratio"], other
    assert 0 < v["low"] <= v["high"], other
END
}

# Tutti beside Tutti works everywhere.
for backend in shm local; do
    run_tutti bench -n 3 --backend "$backend" --beside tutti:engine.window=65536 -b 8 -e 64K -f 90 -i 3 --root 1 \
        -J "$work/$backend.json"
    check_status 0 "$backend"
    check_line out '^# tutti: tutti [0-9.]+, engine.window=65536; in turn with Tutti' "$backend: header"
    check_count out '^# +size .* place +time .* bound +/bound +hop +algo +tutti +ratio +low +high +#wrong$' 10 \
        "$backend: columns"
    line="$number +$number +$number +0$roof +$number +$ratio +$ratio +$ratio +0\$"
    check_line out "^ +8 +2 +f32 +sum +-1 +out +$line" "$backend: out of place"
    check_line out "^ +64800 +5400 +f32 +none +-1 +in +$line" "$backend: in place"
    check_line out "^ +0 +0 +none +none +-1 +out +$line" "$backend: barrier"
    check_count out '^ ' 46 "$backend: rows"
    check_json "$work/$backend.json" tutti:engine.window=65536 3 "" "$backend: JSON"
done
run_tutti bench all_reduce -n 2 -d i64 -o max -b 8 -e 64 --beside tutti
check_status 0 "iterations by time"
check_count out '^ ' 4 "iterations by time"

# Every contender has its own count of wrong elements: the backend null transfers nothing.
run_tutti bench all_reduce -n 2 -b 8K -e 8K -i 2 --beside tutti:backend=null
check_status 0 "wrong results of the other one are not Tutti's"
check_line out '^ +8192 .* out .* 0 .* [1-9][0-9]*$' "wrong results of the other one are counted"
check_line out '^# Out of bounds values : 0 OK$' "wrong results of the other one are not Tutti's"

# The limits of the machine.
run_tutti bench reduce -n 2 --roofline -b 8 -e 1M -f 1000 -i 2 -J "$work/roof.json"
check_status 0 "--roofline"
check_line out "^ +8000 +2000 +f32 +sum +0 +in +$number +$number +$number +0$roof\$" "--roofline"
check_no_line out ' ratio' "--roofline alone compares nothing"
check_line roof.json '"bound_us": [0-9]' "--roofline"
check_no_line roof.json '"versus"' "--roofline alone compares nothing"

# The heap.
for backend in shm local; do
    run_tutti bench -n 2 --backend "$backend" --placement heap -b 64K -e 64K -i 2 -J "$work/heap.json"
    check_status 0 "$backend: heap"
    check_line heap.json '"placement": "heap"' "$backend: heap"
done

# Each row has the backend and the placement of its own side.
run_tutti bench all_reduce -n 2 --backend shm -b 64K -e 64K -i 2 --beside tutti:backend=null,placement=heap -J "$work/sides.json"
check_status 0 "another backend beside"
check_count sides.json '"backend": "null"' 2 "another backend beside"
check_count sides.json '"backend": "shm"' 3 "another backend beside: the configuration and Tutti's rows"
check_count sides.json '"placement": "heap"' 2 "another placement beside"
check_count sides.json '"placement": "private"' 3 "another placement beside: the configuration and Tutti's rows"

# Peers and options that are not available.
run_tutti bench --beside unknown
check_status 1 "an unknown peer"
check_line err "^tutti bench: --beside unknown: no such peer here; there are tutti" "an unknown peer"
run_tutti bench --beside ../unknown
check_status 1 "a name that is a path"
TUTTI_BENCH_PEERS=$work/nowhere run_tutti bench --beside gloo
check_status 1 "a folder without peers"
check_line err "there are tutti \(" "a folder without peers"
mkdir "$work/peers"
echo "no library" >"$work/peers/broken.so"
TUTTI_BENCH_PEERS=$work/peers run_tutti bench barrier -n 2 -i 1 --beside broken
check_status 1 "a file that is no library"
check_line err 'rank 0: broken: .*broken\.so' "a file that is no library"
run_tutti bench barrier -n 2 -i 1 --beside tutti:engine.widow=3
check_status 1 "an unknown setting"
check_line err 'the setting "engine.widow=3" is unknown' "an unknown setting"

# Other libraries, if they are installed.
for peer in openmpi mpich gloo; do
    [ -e "$build/lib/tutti/bench/$peer.so" ] || { echo "no peer $peer in this build"; continue; }
    missing=""
    case $peer in
    openmpi)
        command -v mpirun.openmpi >/dev/null || continue
        launch="mpirun.openmpi --oversubscribe --allow-run-as-root -n 2 $tutti bench"
        ;;
    mpich)
        command -v mpiexec.mpich >/dev/null || continue
        launch="mpiexec.mpich -n 2 $tutti bench"
        ;;
    *)
        launch="$tutti bench -n 2"
        missing=reduce_scatter
        ;;
    esac
    $launch --beside "$peer" -b 8K -e 8K -i 2 -J "$work/$peer.json" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    check_status 0 "$peer"
    check_line out '^ +8192 +2048 +f32 +sum +-1 +in ' "$peer"
    check_json "$work/$peer.json" "$peer" 2 "$missing" "$peer: JSON"
    $launch --beside "$peer" all_reduce -o avg -b 64 -e 64 -i 2 >"$work/out" 2>"$work/err" </dev/null
    status=$?
    check_status 0 "$peer: avg"
    check_count out "$roof$absent\$" 2 "$peer: it has no avg"
done
if [ -e "$build/lib/tutti/bench/openmpi.so" ]; then
    run_tutti bench barrier -n 2 -i 1 --backend local --beside openmpi
    check_status 1 "an MPI library and threads"
    check_line err 'rank 0: openmpi: its ranks have to be processes, not threads$' "an MPI library and threads"
fi

finish
