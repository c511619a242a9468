#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures the asynchronous operations for the record: against the synchronous ones, and beside a computation.

    bench_async.py [--quick] [BUILD [RESULTS]]

Runs `tutti bench --async` and `tutti bench overlap` on two ranks, each bound to CPUs of its own, and writes async.md
into RESULTS (default bench/results), with a description of the machine. BUILD (default build) has the
program. --quick takes few iterations: to try this script, not for the record. Nothing else should run meanwhile.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLLECTIVES = ["all_reduce", "all_gather", "broadcast", "sendrecv", "barrier"]
RANKS = 2
SIZES = ["-b", "8", "-e", "4M", "-f", "8"]


def bench(build, words):
    """Runs `tutti bench WORDS` on bound ranks; its JSON, and how it was started."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        started = ["run", "-n", str(RANKS), "--bind-to", "core", "--no-prefix", "--", "tutti", "bench", *words]
        tutti = str(build / "tutti")
        here = [tutti if word == "tutti" else word for word in started]
        subprocess.run([tutti, *here, "-J", file.name], check=True)
        return json.loads(Path(file.name).read_text(encoding="utf-8")), "tutti " + " ".join(started)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def machine_text(config, load):
    """What the program says of the machine, the commit, and the load before."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return table(["", ""], [
        ["date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")],
        ["CPU", f"{config['cpu']}, {config['cpus']} CPUs"],
        ["kernel", config["kernel"]],
        ["tutti", f"{config['version']} ({commit.stdout.strip() or 'no commit'})"],
        ["load before", f"{load:.2f}"],
    ])


def async_text(data):
    head = ["size", "place", "sync", "async", "difference", "ratio", "sync p99", "async p99", "submit", "submit p99"]
    rows = []
    for r in data["results"]:
        time, sync, submit = r["time_us"], r["sync_us"], r["submit_us"]
        numbers = [sync["p50"], time["p50"], time["p50"] - sync["p50"], time["p50"] / sync["p50"], sync["p99"], time["p99"],
                   submit["p50"], submit["p99"]]
        rows.append([r["size"], "in" if r["inplace"] else "out", *(f"{number:.2f}" for number in numbers)])
    return table(head, rows)


def overlap_text(data):
    rows = []
    for r in data["results"]:
        times = [r["time_us"][key] for key in ("p50", "p99", "min", "max")] + [r["ideal_us"]]
        over = f"{r['step_over_max']:.2f}x" if "step_over_max" in r else ""
        rows.append([r["form"], *(f"{time / 1000:.3f}" for time in times), over])
    return table(["form", "p50", "p99", "min", "max", "ideal", "step/max"], rows)


def text_of(load, runs, overlap, quick):
    config = runs[0][0]["config"]
    lines = ["# Asynchronous operations, measured", ""]
    lines += ["Written by `make bench-async`; docs/bench.md says how it is measured.", ""]
    lines += ["**A quick run: these numbers only show that the script works.**", ""] if quick else []
    lines += machine_text(config, load) + [""]
    lines += ["## Against the synchronous form", "",
              f"{RANKS} ranks bound to CPUs of their own, backend {config['backend']}. Times in us, medians "
              "unless p99. async: start, wait, release; submit: the start alone, with one reading of the clock "
              f"({config['clock_ns']} ns). Small messages (inline and in packets) wake no thread; others may have to "
              "wake the lane's thread.", ""]
    lines += ["    " + line.strip() for line in config["description"] if "classes:" in line] + [""]
    for data, command in runs:
        lines += [f"### {data['results'][0]['collective']}", "", f"`{command}`", "", *async_text(data), ""]
    data, command = overlap
    lines += ["## Beside a computation", "", f"`{command}`", "",
              f"Steps of {data['config']['step_ms']} ms of computation and as much communication, over a link that is "
              "limited by sleeping. Times in ms. step/max: median over the longer of compute and communicate alone; 1 "
              "is perfect for overlap, 2 no overlap.", "", *overlap_text(data), "",
              f"    overlap: step/max = {data['step_over_max']:.2f}x", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "bench/results")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "tutti").is_file():
        parser.error(f"{build} has no program tutti; run make first")
    load = os.getloadavg()[0]
    few = ["-i", "5"] if options.quick else []
    try:
        runs = [bench(build, [name, "--async", *SIZES, *few]) for name in COLLECTIVES]
        overlap = bench(build, ["overlap", *few])
    except subprocess.CalledProcessError as error:
        print(f"bench_async: tutti ended with exit code {error.returncode}; nothing is written", file=sys.stderr)
        return 1
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "async.md").write_text(text_of(load, runs, overlap, options.quick), encoding="utf-8")
    print(f"written: {options.results}/async.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
