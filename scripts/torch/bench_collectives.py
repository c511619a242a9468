# SPDX-License-Identifier: BSD-3-Clause
"""Compares tutti with gloo under torch.distributed, call by call in turn; one rank of the job that scripts/bench_torch starts.

    bench_collectives.py CSV [--sizes BYTES,...] [--seconds S]

All contenders are process groups of the same job. A repetition runs the same call once on each: it writes the input again,
waits in the contender's own barrier, and times one call. The time of a repetition is that of the slowest rank. Each result is
checked once a cell. Gloo stands in three placements, because its event thread costs a rank on the same CPU more than the
exchange itself: `free` (all threads on all CPUs), `bound` (a rank and its event thread on one CPU) and `apart` (the event
thread on the next CPU). Tutti runs as it comes.
"""
import argparse
import os
import statistics
import time
import warnings
from datetime import datetime, timedelta, timezone

import torch
import torch.distributed as dist

import _tutti_torch_backend

FLOAT = 4
SIZES = [8 << 2 * i for i in range(12)] + [64 << 20]
FIELDS = "collective,buffers,place,size,hop,contender,ranks,repetitions,p50_us,low_us,high_us"


class Contender:
    """A process group of all ranks, and the CPUs on which the caller runs."""

    def __init__(self, name, backend, caller, thread):
        self.name, self.caller = name, caller
        os.sched_setaffinity(0, thread)  # threads that the backend starts inherit it
        self.group = dist.new_group(backend=backend, timeout=timedelta(seconds=120))
        os.sched_setaffinity(0, caller)
        dist.barrier(group=self.group)


def contenders():
    every = os.sched_getaffinity(0)
    cpus = sorted(every)
    rank = dist.get_rank()
    own, other = {cpus[rank % len(cpus)]}, {cpus[(rank + 1) % len(cpus)]}
    return [Contender("tutti", "tutti", every, every), Contender("gloo/free", "gloo", every, every),
            Contender("gloo/bound", "gloo", own, own), Contender("gloo/apart", "gloo", own, other)]


class Call:
    """One collective of one size: its tensors, how to run it, and what has to come out.

    `size` is in bytes: of the tensor of a rank that holds all parts, or of the only tensor.
    """

    def __init__(self, size):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        count = max(size // FLOAT, 1)
        self.part = max(count // self.ranks, 1)
        self.count = self.part * self.ranks if self.joined else count
        self.size = self.count * FLOAT
        self.whole = torch.empty(self.count)
        self.prepare()

    joined = True  # the whole tensor consists of a part for each rank

    def prepare(self):
        self.shard = torch.empty(self.part)


class AllReduce(Call):
    name, joined = "all_reduce", False

    def fill(self, value):
        self.whole.fill_(value + self.rank)

    def run(self, group):
        dist.all_reduce(self.whole, group=group)

    def check(self, value):
        return bool((self.whole == self.ranks * value + self.ranks * (self.ranks - 1) / 2).all())


class AllGather(Call):
    name = "all_gather"

    def fill(self, value):
        self.shard.fill_(value + self.rank)

    def run(self, group):
        dist.all_gather_into_tensor(self.whole, self.shard, group=group)

    def check(self, value):
        return all(bool((part == value + r).all()) for r, part in enumerate(self.whole.chunk(self.ranks)))


class ReduceScatter(AllReduce):
    name, joined = "reduce_scatter", True

    def run(self, group):
        dist.reduce_scatter_tensor(self.shard, self.whole, group=group)

    def check(self, value):
        return bool((self.shard == self.ranks * value + self.ranks * (self.ranks - 1) / 2).all())


class Broadcast(Call):
    name, joined = "broadcast", False

    def fill(self, value):
        self.whole.fill_(value if self.rank == 0 else -1)

    def run(self, group):
        dist.broadcast(self.whole, src=0, group=group)

    def check(self, value):
        return bool((self.whole == value).all())


class AllToAll(Call):
    name = "all_to_all"

    def prepare(self):
        self.received = torch.empty(self.count)

    def fill(self, value):
        self.whole.fill_(value + self.rank)

    def run(self, group):
        dist.all_to_all_single(self.received, self.whole, group=group)

    def check(self, value):
        return all(bool((part == value + r).all()) for r, part in enumerate(self.received.chunk(self.ranks)))


class SendRecv(Call):
    """There and back between ranks 0 and 1."""

    name, joined = "sendrecv", False

    def fill(self, value):
        self.whole.fill_(value if self.rank == 0 else -1)

    def run(self, group):
        if self.rank == 0:
            dist.send(self.whole, 1, group=group)
            dist.recv(self.whole, 1, group=group)
        elif self.rank == 1:
            dist.recv(self.whole, 0, group=group)
            dist.send(self.whole, 0, group=group)

    def check(self, value):
        return self.rank > 1 or bool((self.whole == value).all())


def one_call(call, contender, value):
    """The seconds of one call."""
    os.sched_setaffinity(0, contender.caller)
    call.fill(value)
    dist.barrier(group=contender.group)
    begin = time.perf_counter()
    call.run(contender.group)
    return time.perf_counter() - begin


def measure(call, entrants, seconds):
    """Times each contender in turn; returns {name: [seconds of the slowest rank]}."""
    first = []
    for contender in entrants:  # a first round warms up, checks, and says how many repetitions the time allows
        one_call(call, contender, 1)
        first.append(one_call(call, contender, 2))
        if not call.check(2):
            raise SystemExit(f"rank {call.rank}: {contender.name} {call.name} of {call.count} elements has a wrong result")
    repetitions = torch.tensor(min(max(int(seconds / sum(first)), 7), 400))
    dist.all_reduce(repetitions, op=dist.ReduceOp.MIN)
    times = torch.empty(len(entrants), int(repetitions))
    for i in range(times.shape[1]):
        for k in range(len(entrants)):
            c = (i + k) % len(entrants)  # each one comes first equally often
            times[c, i] = one_call(call, entrants[c], i % 100)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return {contender.name: times[c].tolist() for c, contender in enumerate(entrants)}


def row(call, name, times):
    ordered = sorted(times)
    low, middle, high = (ordered[int(len(ordered) * q)] * 1e6 for q in (0.25, 0.5, 0.75))
    return f"{call.name},private,in,{call.size},moved,{name},{call.ranks},{len(ordered)},{middle:.2f},{low:.2f},{high:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("--sizes", help="bytes, separated by commas")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each cell, of all contenders together")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else SIZES

    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")  # of names that programs use
    torch.set_num_threads(1)
    _tutti_torch_backend.register()  # as the entry point of the installed package does
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    cpus = len(os.sched_getaffinity(0))  # before the contenders bind this rank
    entrants = contenders()
    lines = [f"# date = {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC", f"# torch = {torch.__version__}",
             f"# cpus = {cpus}", FIELDS]
    for kind in (AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll, SendRecv):
        for size in sizes:
            call = kind(size)
            times = measure(call, entrants, options.seconds)
            lines += [row(call, name, values) for name, values in times.items()]
            if dist.get_rank() == 0:
                shown = {name: statistics.median(values) * 1e6 for name, values in times.items()}
                best = min(us for name, us in shown.items() if name != "tutti")
                print(f"{kind.name:15} {call.size:>9} B  " + "  ".join(f"{n} {us:.1f}" for n, us in shown.items()) +
                      f" us  gloo's best / tutti {best / shown['tutti']:.1f}", flush=True)
    if dist.get_rank() == 0:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
