#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for mpirun and for the ranks of `tutti bench --beside` that it would start: writes their JSON with times that
bench_compare.sh knows.

Environment: FAKE_STATE, a folder that counts the jobs of each contender; FAKE_MODE, what else may happen; FAKE_FAR, the
contender whose CPUs always are far from each other, and no others'; FAKE_ONCE, set if the contender that wins a cell wins it
only in its first job.
"""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARTS = {"all_gather", "reduce_scatter"}
IN_PLACE = {"all_reduce"}
FACTORS = {"openmpi": 1.6, "openmpi/t": 1.25, "openmpi/tm": 1.3, "mpich": 2.0, "mpich/t": 2.5, "mpich/tm": 4.0}
MOVED = 2  # the repetition in which the two CPUs are far from each other


def contender(words):
    library = words[words.index("--beside") + 1]
    tuned = "btl_vader_eager_limit" in words or os.environ.get("UCX_TLS") == "self,posix"
    memory = os.environ.get("MALLOC_TRIM_THRESHOLD_") == "8589934592"
    return library + ("/tm" if tuned and memory else "/t" if tuned else "")


def number_of_job(name):
    """1, 2, ...: counts by creating files."""
    number = 1
    while True:
        try:
            (Path(os.environ["FAKE_STATE"]) / f"{name.replace('/', '-')}.{number}").touch(exist_ok=False)
            return number
        except FileExistsError:
            number += 1


def sizes(words):
    return [int(size) for size in words[words.index("--sizes") + 1].split(",")]


def times(p50):
    return {"p50": p50, "p99": 2 * p50, "min": p50 / 2, "max": 3 * p50}


def rows(name, words, ranks, job):
    far = name == os.environ["FAKE_FAR"] if "FAKE_FAR" in os.environ else job == MOVED
    hop = [260.0, 270.0] if far else [80.0, 90.0]
    for collective in "all_reduce", "all_gather", "barrier":
        for size in sizes(words) if collective != "barrier" else [0]:
            for place in (False, True) if collective in IN_PLACE else (False,):
                tutti = (1 + size / 1000) * (100 if far else 1 + 0.01 * job)
                factor = FACTORS[name] * (1 + 0.02 * job)
                if collective == "all_gather" and size == 512 and name == "openmpi/t" and not (
                        "FAKE_ONCE" in os.environ and job > 1):
                    factor = 0.8
                row = {"collective": collective, "backend": "shm", "ranks": ranks, "size": size, "count": size // 4,
                       "type": "f32", "redop": "sum" if collective == "all_reduce" else "none", "root": -1,
                       "inplace": place, "placement": "private", "wrong": 0, "hop_ns": hop}
                yield {**row, "contender": "tutti", "time_us": times(tutti), "bound_us": tutti / 2,
                       "algorithm": "two_shot"}
                if name.startswith("mpich") and collective == "all_gather":
                    nothing = {key: None for key in ("p50", "p99", "min", "max")}
                    yield {**row, "contender": name.split("/", maxsplit=1)[0], "time_us": nothing, "versus": None}
                    continue
                ratio = 1 / factor
                yield {**row, "contender": name.split("/", maxsplit=1)[0], "time_us": times(tutti * factor),
                       "versus": {"ratio": ratio, "low": ratio * 0.95, "high": ratio * 1.05, "tutti_us": tutti}}


def misbehave(mode, name):
    if mode == "fail" and name == "mpich/t":
        print("fake: the network <is> down", file=sys.stderr)
        sys.exit(3)
    if mode == "hang" and name == "mpich/t":
        # ranks in groups and sessions of their own that ignore SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        (Path(os.environ["FAKE_STATE"]) / "hangs").touch()
        time.sleep(1000)
    if mode == "garbage" and name == "mpich/t":
        return '{"results": ['
    if mode == "empty" and name == "mpich/t":
        return '{"config": {}, "results": [{"collective": "all_reduce"}, 7, {"collective": 3, "size": "x"}]}'
    return None


def main():
    words = sys.argv[1:]
    ranks = int(words[words.index("-n") + 1])
    mode = os.environ.get("FAKE_MODE", "")
    name = contender(words)
    Path(os.environ["FAKE_STATE"], "order").open("a", encoding="utf-8").write(name + "\n")
    text = misbehave(mode, name)
    config = {"version": "0", "cpu": "a | b", "cpus": 2, "ranks": ranks,
              "peer": {"name": name, "version": "fake <1.0> & more", "settings": ""}}
    document = {"config": config, "results": list(rows(name, words, ranks, number_of_job(name)))}
    Path(words[words.index("-J") + 1]).write_text(text or json.dumps(document), encoding="utf-8")


main()
