#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# scripts/simulate: small machines, on which must hold what holds on every machine: the bytes that a class moves, no
# time below the bound, and nothing gets faster when the same cores are spread over more sockets.
# tutti-test: trees=release timeout=300
set -u
source=${TUTTI_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
simulate=$source/scripts/simulate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

run() { # FILE ARGS
    file=$work/$1
    shift
    python3 "$simulate" "$@" --json "$file" >"$work/out" || {
        echo "FAILED: simulate $*"
        exit 1
    }
}

run spread.json --ranks 1,2,8,16 --sockets 1,2,4 --sizes 0,8,324,4K,64K,1M --set cluster=4
run large.json --ranks 2,16 --sizes 64M --set cluster=4 --set memory=20
run again.json --ranks 16 --sockets 2 --sizes 8,64K --set cluster=4
run turns.json --ranks 2,4,8 --cores 2 --sizes 0,8,64K
run alike.json --ranks 16 --sockets 1,4 --sizes 8,64K --classes inline,two-shot,zero-copy \
    --set hop_near=50 --set hop_die=50 --set hop_socket=50 \
    --set serial_near=5 --set serial_die=5 --set serial_socket=5 \
    --set copy_near=20 --set copy_die=20 --set copy_socket=20 --set port=1e9 --set link=1e9

python3 - "$work" "$source" <<'END'
import json
import math
import pathlib
import sys

work, source = (pathlib.Path(p) for p in sys.argv[1:])
sys.path.insert(0, str(source / "scripts"))
import simulate_classes
from simulate_machine import Machine, Simulation

rows = {file.stem: json.loads(file.read_text())["rows"] for file in work.glob("*.json")}
every = [row for some in rows.values() for row in some]
failures = checks = 0


def check(right, what, row):
    global failures, checks
    checks += 1
    if not right:
        failures += 1
        print(f"FAILED: {what}: {row}")


def near(a, b, part=0.001):
    return math.isclose(a, b, rel_tol=part, abs_tol=64)


# What a rank loads and stores, as in docs/performance.md. Slices are whole lines, so some ranks may have none.
for row in every:
    n, p = row["size"], row["ranks"]
    moved = {"one-shot": (p + 3) * n, "two-shot": 5 * n - 2 * n / p, "zero-copy": 2 * n, "broadcast": 2 * n}
    moved = moved.get(row["class"])
    if moved is not None:
        check(near(row["moved"], moved), f"{moved} bytes moved", row)
    if row["class"] == "reduce":
        check(near(row["moved_max"], (p + 1) * n), f"{(p + 1) * n} bytes moved by the root", row)
    lines = {"barrier": 1, "inline": 1 if n <= 36 else 6, "rotated": 1 if n <= 36 else 6, "one-shot": 1, "zero-copy": 2}
    if row["class"] in lines:
        check(sum(row["lines"]) == lines[row["class"]] * p * (p - 1), "everybody reads everybody's lines", row)
    if row["sockets"] == 1:
        check(row["lines"][2] == 0 and row["busy"]["link"] == 0, "one socket has no links", row)
    check(0 < row["time_us"] < math.inf, "a time", row)
    check(row["time_us"] >= row["bound_us"] * 0.99, "nothing is faster than the bound", row)  # of what is extrapolated
    check(0.3 < row["time_us"] / row["model_us"] < 3, "simulation and model agree roughly", row)
    check(all(share <= 1.001 for share in row["busy"].values()), "no resource works more than all the time", row)

# The same cores on more sockets, with vectors that stay in the caches: never faster.
cells = {}
for row in rows["spread"]:
    if row["class"] not in ("chain", "leaders"):
        cells.setdefault((row["class"], row["size"], row["ranks"]), []).append((row["sockets"], row["time_us"]))
for cell, some in cells.items():
    times = [time for _, time in sorted(some)]
    check(all(b >= a * 0.999 for a, b in zip(times, times[1:])), "more sockets are not faster", (cell, some))
    check(len(some) == sum(cell[2] % s == 0 for s in (1, 2, 4)), "all machines were simulated", (cell, some))

# Where distance costs nothing, it makes no difference.
for name, size in {(row["class"], row["size"]) for row in rows["alike"]}:
    a, b = (row["time_us"] for row in rows["alike"] if (row["class"], row["size"]) == (name, size))
    check(near(1000 * a, 1000 * b, 0.05), "distances that are alike", (name, size, a, b))

# The same every time.
key = ("class", "size", "ranks", "sockets")
before = {tuple(row[k] for k in key): row["time_us"] for row in rows["spread"]}
for row in rows["again"]:
    check(row["time_us"] == before[tuple(row[k] for k in key)], "the same events in the same order", row)

# More ranks than cores take turns.
for name in ("barrier", "inline", "two-shot", "zero-copy"):
    times = [row["time_us"] for row in rows["turns"] if row["class"] == name and row["size"] in (0, 8, 65536)]
    check(times == sorted(times), "more ranks on the same cores take longer", (name, times))

# What enters one socket has left another one, and what passes the ports is what the class says.
for name in ("one-shot", "two-shot", "zero-copy", "chain", "reduce"):
    m = Machine(16, 4, cluster=2)
    sim = Simulation(m).run(simulate_classes.CLASSES[name], 65536, 1)
    ports = [sum(s.bytes for s in some) for some in (sim.ports_in, sim.ports_out)]
    links = [sum(s.bytes for s in some) for some in (sim.links_in, sim.links_out)]
    check(ports[0] == ports[1] and links[0] == links[1] > 0, "what goes in has come out", (name, ports, links))
    # Eight clusters, two ranks each: 7/8 of what a fold reads lies in other ones, 3/4 in other sockets, and a result is
    # fetched once for each cluster.
    n = 65536
    passing = {"one-shot": 8 * 16 * n, "two-shot": (16 + 8) * n, "zero-copy": 2 * 16 * n, "reduce": 16 * n}.get(name)
    if passing:
        check(near(ports[0], passing * 7 / 8, 0.01), f"{passing * 7 / 8} bytes pass the ports", (name, ports))
        over = passing * 3 / 4 + 64 * sim.reads[2]
        check(near(links[0], over, 0.01), f"{over} bytes pass the links", (name, links))

# A program that waits for what never comes is an error, not a hang.
def silent(sim, me, size, calls):
    yield [sim.line("never", 1 - me)]


for cores in (2, 1):
    try:
        Simulation(Machine(2, 1, cores)).run(silent, 0, 1)
        check(False, "a program that waits for ever is noticed", cores)
    except RuntimeError:
        check(True, "", cores)

print(f"{checks} checks, {failures} failed")
sys.exit(failures != 0)
END
result=$?

expect() { # STATUS REGEX ARGS: what --help says, and what is refused
    wanted=$1 regex=$2
    shift 2
    python3 "$simulate" "$@" >"$work/out" 2>&1
    status=$?
    if [ $status -ne "$wanted" ] || ! grep -Eq -- "$regex" "$work/out"; then
        echo "FAILED: simulate $*: exit code $status, or no line matches '$regex'"
        result=1
    fi
}

expect 0 '^  hop_socket +[0-9.]+ ' --help
expect 2 "there is no parameter or class 'hop'" --set hop=3
expect 2 "there is no parameter or class 'magic'" --classes inline,magic
expect 2 'could not convert' --set link=fast
expect 0 '^\| inline\* \| 8 \| 2 \| 1 \|' --ranks 2 --sizes 8 --classes inline
exit "$result"
