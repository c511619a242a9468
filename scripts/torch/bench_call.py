# SPDX-License-Identifier: BSD-3-Clause
"""What a call of torch.distributed costs the caller, by kind of backend: bench_call.py CSV ENGINE

One rank, so that no time is spent on others: an all_reduce of 8 bytes. The contenders take turns. A time is the least mean of
50 calls, since whatever else runs on the machine only adds to it. ENGINE is bench/torch_call.c as a shared library. What the
backend adds is its time less that of the engine and that of a backend that does nothing; above LIMIT the script fails. The
contenders:

    engine            the same calls of Tutti in C, with the backend's options
    nothing (C++)     torch's fake backend
    nothing (Python)  a process group in Python that does nothing
    tutti             the backend
    tutti (Python)    a process group in Python that calls the Python package
    gloo
"""
import argparse
import ctypes
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers "fake"

import _tutti_torch_backend
import tutti

CALLS, ROUNDS = 50, 1000
LIMIT = 3.0  # microseconds


class Nothing(dist.ProcessGroup):
    """What a backend in Python costs at least."""

    def getBackendName(self):  # noqa: N802 - torch's name
        return "nothing"

    def allreduce(self, tensors, options):
        return None


class Package(Nothing):
    """SUM by the Python package, without anything else that a backend has to do."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.group = tutti.init(world_size=1)

    def allreduce(self, tensors, options):
        self.group.all_reduce(tensors[0])


class Engine:
    """Calls in C."""

    def __init__(self, library):
        self.run = ctypes.CDLL(library).torch_call_run
        self.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_bool]
        self.group = tutti.init(world_size=1)

    def calls(self, asynchronous):
        tensor = torch.ones(2)
        begin = time.perf_counter()
        ended = self.run(self.group.handle, tensor.data_ptr(), tensor.numel(), CALLS, asynchronous)
        end = time.perf_counter()
        assert ended == CALLS
        return (end - begin) / CALLS * 1e6


def calls(group, asynchronous):
    """The microseconds of a call."""
    if isinstance(group, Engine):
        return group.calls(asynchronous)
    tensor = torch.ones(2)
    begin = time.perf_counter()
    for _ in range(CALLS):
        work = dist.all_reduce(tensor, group=group, async_op=asynchronous)
        if work is not None:
            work.wait()
    return (time.perf_counter() - begin) / CALLS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("engine", help="bench/torch_call.c, compiled")
    options = parser.parse_args()
    torch.set_num_threads(1)
    _tutti_torch_backend.register()  # as the entry point of the installed package does
    for kind in (Nothing, Package):
        dist.Backend.register_backend(
            kind.__name__.lower(), lambda store, rank, size, timeout, kind=kind: kind(rank, size), devices=["cpu"]
        )
    dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
    names = {"nothing (C++)": "fake", "nothing (Python)": "nothing", "tutti": "tutti", "tutti (Python)": "package",
             "gloo": "gloo"}
    groups = {name: dist.new_group(backend=backend) for name, backend in names.items()}
    groups["engine"] = Engine(options.engine)
    entrants = [(name, mode) for name in groups for mode in (False, True) if not (mode and "Python" in name)]
    least = dict.fromkeys(entrants, float("inf"))
    for _ in range(ROUNDS):
        for name, mode in entrants:
            least[name, mode] = min(least[name, mode], calls(groups[name], mode))
    lines = [f"# date = {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC", f"# torch = {torch.__version__}",
             "contender,async_op,us"]
    for (name, mode), us in least.items():
        lines.append(f"{name},{mode},{us:.2f}")
        print(f"{name:17} async_op={mode!s:5} {us:6.2f} us")
    missed = False
    for mode in (False, True):
        added = least["tutti", mode] - least["engine", mode] - least["nothing (C++)", mode]
        missed = missed or added > LIMIT
        lines.append(f"added,{mode},{added:.2f}")
        print(f"{'the backend adds':17} async_op={mode!s:5} {added:6.2f} us (limit {LIMIT:.2f})")
    options.csv.write_text("\n".join([*lines, ""]), encoding="utf-8")
    dist.destroy_process_group()
    if missed:
        sys.exit("bench_call: the backend adds more than the limit")


if __name__ == "__main__":
    main()
