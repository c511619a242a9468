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


def output_of(*command):
    """The first line that a command prints; "" if there is no such command."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip().split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu_model_and_cores():
    model, cores, here = "unknown", set(), {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
        key, _, value = (part.strip() for part in line.partition(":"))
        if not key:
            cores.add((here.get("physical id"), here.get("core id", here.get("processor"))))
            model = here.get("model name", model)
            here = {}
        here[key] = value
    return model, len(cores - {(None, None)})


def cached(build, key):
    """The value of a variable in the build's cache."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith(key + ":"):
            return line.partition("=")[2]
    return ""


def commit():
    name = output_of("git", "rev-parse", "--short=12", "HEAD")
    return name + (", changed" if name and output_of("git", "status", "--porcelain", "-uno") else "")


def describe_machine(build):
    model, cores = cpu_model_and_cores()
    system = os.uname()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": model,
        "cores": cores,
        "cpus": len(os.sched_getaffinity(0)),
        "hypervisor": " hypervisor" in Path("/proc/cpuinfo").read_text(encoding="utf-8"),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{system.sysname} {system.release} {system.machine}",
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "compiler": output_of(cached(build, "CMAKE_C_COMPILER") or "cc", "--version"),
        "build_type": cached(build, "CMAKE_BUILD_TYPE"),
        "tutti": output_of(build / "tutti", "--version").removeprefix("tutti "),
        "commit": commit(),
        "load_before": round(os.getloadavg()[0], 2),
    }


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


def machine_text(machine):
    virtual = ", virtual machine" if machine["hypervisor"] else ""
    return table(["", ""], [
        ["date", machine["date"]],
        ["CPU", f"{machine['cpu']}, {machine['cores']} cores, {machine['cpus']} CPUs usable{virtual}"],
        ["memory", f"{machine['memory_gib']} GiB"],
        ["kernel, libc", f"{machine['kernel']}, {machine['libc']}"],
        ["built by", f"{machine['compiler']}, {machine['build_type']}"],
        ["tutti", f"{machine['tutti']} ({machine['commit'] or 'no commit'})"],
        ["load before", machine["load_before"]],
    ])


def async_row(r):
    time, sync, submit = r["time_us"], r["sync_us"], r["submit_us"]
    return [r["size"], "in" if r["inplace"] else "out", f"{sync['p50']:.2f}", f"{time['p50']:.2f}",
            f"{time['p50'] - sync['p50']:.2f}", f"{time['p50'] / sync['p50']:.2f}", f"{sync['p99']:.2f}",
            f"{time['p99']:.2f}", f"{submit['p50']:.2f}", f"{submit['p99']:.2f}"]


def async_text(data):
    head = ["size", "place", "sync", "async", "difference", "ratio", "sync p99", "async p99", "submit", "submit p99"]
    return table(head, [async_row(r) for r in data["results"]])


def overlap_text(data):
    rows = []
    for r in data["results"]:
        t = r["time_us"]
        over = f"{r['step_over_max']:.2f}x" if "step_over_max" in r else ""
        rows.append([r["form"], *(f"{t[key] / 1000:.3f}" for key in ("p50", "p99", "min", "max")),
                     f"{r['ideal_us'] / 1000:.3f}", over])
    return table(["form", "p50", "p99", "min", "max", "ideal", "step/max"], rows)


def write(results, machine, runs, overlap, quick):
    first = runs[0][0]
    lines = ["# Asynchronous operations, measured", ""]
    lines += ["Written by `make bench-async`; docs/bench.md says how it is measured.", ""]
    lines += ["**A quick run: these numbers only show that the script works.**", ""] if quick else []
    lines += machine_text(machine) + [""]
    lines += ["## Against the synchronous form", "",
              f"{RANKS} ranks bound to CPUs of their own, backend {first['config']['backend']}. Times in us, medians "
              "unless p99. async: start, wait, release; submit: the start alone, with one reading of the clock "
              f"({first['config']['clock_ns']} ns). Small messages (the class inline) wake nobody; others may have to "
              "wake the lane's thread.", ""]
    lines += ["    " + line.strip() for line in first["config"]["description"] if "classes:" in line] + [""]
    for data, command in runs:
        lines += [f"### {data['results'][0]['collective']}", "", f"`{command}`", "", *async_text(data), ""]
    data, command = overlap
    lines += ["## Beside a computation", "", f"`{command}`", "",
              f"Steps of {data['config']['step_ms']} ms of computation and as much communication, over a link that is "
              "limited by sleeping. Times in ms. step/max: median over the longer of compute and communicate alone; 1 "
              "is perfect for overlap, 2 no overlap.", "", *overlap_text(data), "",
              f"    overlap: step/max = {data['step_over_max']:.2f}x", ""]
    results.mkdir(parents=True, exist_ok=True)
    (results / "async.md").write_text("\n".join(lines), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("results", nargs="?", type=Path, default=ROOT / "bench/results")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "tutti").is_file():
        parser.error(f"{build} has no program tutti; run make first")
    machine = describe_machine(build)
    few = ["-i", "5"] if options.quick else []
    try:
        runs = [bench(build, [name, "--async", *SIZES, *few]) for name in COLLECTIVES]
        overlap = bench(build, ["overlap", *few])
    except subprocess.CalledProcessError as error:
        print(f"bench_async: tutti ended with exit code {error.returncode}; nothing is written", file=sys.stderr)
        return 1
    write(options.results, machine, runs, overlap, options.quick)
    print(f"written: {options.results}/async.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
