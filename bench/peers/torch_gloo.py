#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures torch.distributed over Gloo with the loop of `tutti bench`, and prints the same JSON.

    torch_gloo.py [COLLECTIVE,...] [-n RANKS] [-b MIN] [-e MAX] [-f FACTOR] [-d DTYPE] [-o OP]

`tutti bench --vs torch` runs it in turn with `tutti bench`. As there, every call has new data, the ranks start together
by the clock, a time lasts until the slowest rank is done, results are checked after each iteration, and calls below
4096 bytes are timed 20 at once. What torch has only in place (all_reduce, reduce) is measured in place; what its Gloo
cannot do has null for its times.
"""
import argparse
import json
import mmap
import multiprocessing
import os
import struct
import sys
import tempfile
import time

import torch
import torch.distributed as dist

PERIOD = 509  # a prime, so that no two parts or calls that could be confused look the same
BATCH, SMALL = 20, 4096
WARM_UP, FIRST, MOST = 2, 5, 2000
BUDGET_NS = 200_000_000
LEAD_NS = 300_000  # longer than the interpreter takes to see that all ranks are there
CHECK_WHOLE, SLICES = 1 << 20, 16

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8,
          "i8": torch.int8, "i32": torch.int32, "i64": torch.int64}
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
COLLECTIVES = ["all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
               "sendrecv", "barrier"]
WHOLE_INPUT = {"scatter", "reduce_scatter", "all_to_all"}
WHOLE_OUTPUT = {"all_gather", "gather", "all_to_all"}
REDUCES = {"all_reduce", "reduce", "reduce_scatter"}
IN_PLACE = {"all_reduce", "reduce"}
ROOTED = {"reduce", "broadcast", "gather", "scatter"}
ROOT = 0


class Meeting:
    """A page that all ranks share: where they meet, and what they tell each other."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.page = mmap.mmap(-1, 16 * ranks * 2)
        self.round = 0

    def all_of(self, rank, value):
        """What every rank has said in this round. Two sets of places: none is overwritten before all have read it."""
        self.round += 1
        side = self.round % 2 * self.ranks
        struct.pack_into("q", self.page, (side + rank) * 16 + 8, value)
        struct.pack_into("q", self.page, (side + rank) * 16, self.round)
        values = []
        for other in range(self.ranks):
            while struct.unpack_from("q", self.page, (side + other) * 16)[0] != self.round:
                os.sched_yield()
            values.append(struct.unpack_from("q", self.page, (side + other) * 16 + 8)[0])
        return values

    def start(self, rank):
        """Waits for the moment from which the time of this iteration counts."""
        lead = LEAD_NS * ((self.ranks - 1) // (os.cpu_count() or 1) + 1)
        moment = max(self.all_of(rank, time.monotonic_ns() + lead))
        while time.monotonic_ns() < moment:
            if self.ranks > (os.cpu_count() or 1):
                os.sched_yield()
        return moment


class Data:
    """Small integers, so that every type can hold their reductions exactly."""

    def __init__(self, ranks, dtype, op):
        places = torch.arange(PERIOD, dtype=torch.int64)
        if op == "product":
            inputs = [1 + ((places + rank) % ranks == 0).to(torch.int64) for rank in range(ranks)]
        else:
            inputs = [(places * 37 + rank * 11 + places * places) % (127 // ranks + 1) for rank in range(ranks)]
        stacked = torch.stack(inputs)
        folded = {"sum": stacked.sum(0), "product": stacked.prod(0), "min": stacked.min(0)[0],
                  "max": stacked.max(0)[0]}[op]
        self.inputs = [sequence.to(dtype) for sequence in inputs]
        self.folded = folded.to(dtype)

    @staticmethod
    def _turned(sequence, number, first):
        return torch.roll(sequence, -((number * 197 + first) % PERIOD))

    def fill(self, tensor, rank, number):
        self._each(tensor, self._turned(self.inputs[rank], number, 0), lambda part, wanted: part.copy_(wanted) is None)

    def wrong(self, tensor, source, number, first):
        sequence = self.folded if source is None else self.inputs[source]
        return self._each(tensor, self._turned(sequence, number, first),
                          lambda part, wanted: int((part != wanted).sum()))

    @staticmethod
    def _each(tensor, wanted, action):
        """Runs the action on all whole periods, and on the rest."""
        whole = tensor.numel() // PERIOD * PERIOD
        total = action(tensor[:whole].view(-1, PERIOD), wanted) if whole else 0
        return total + (action(tensor[whole:], wanted[:tensor.numel() - whole]) if whole < tensor.numel() else 0)


class Row:
    """One collective at one size, on one rank."""

    def __init__(self, rank, options, name, count, data, meeting):
        self.rank, self.ranks, self.name, self.count = rank, options.ranks, name, count
        self.data, self.meeting, self.op = data, meeting, OPS[options.op]
        dtype = DTYPES[options.dtype]
        whole = count * self.ranks
        self.size = (whole if name in WHOLE_INPUT | WHOLE_OUTPUT else count) * torch.empty(0, dtype=dtype).element_size()
        self.batch = BATCH if self.size < SMALL else 1
        same = name in IN_PLACE or name == "broadcast"
        self.outputs = [torch.zeros(whole if name in WHOLE_OUTPUT else count, dtype=dtype) for _ in range(self.batch)]
        self.inputs = self.outputs if same else [torch.zeros(whole if name in WHOLE_INPUT else count, dtype=dtype)
                                                 for _ in range(self.batch)]

    def call(self, given, got):
        """The call of torch that a program would use."""
        parts = [got[i * self.count:(i + 1) * self.count] for i in range(self.ranks)]
        pieces = [given[i * self.count:(i + 1) * self.count] for i in range(self.ranks)]
        at_root = self.rank == ROOT
        if self.name == "all_reduce":
            dist.all_reduce(got, self.op)
        elif self.name == "reduce":
            dist.reduce(got, ROOT, self.op)
        elif self.name == "broadcast":
            dist.broadcast(got, ROOT)
        elif self.name == "all_gather":
            dist.all_gather(parts, given)
        elif self.name == "gather":
            dist.gather(given, parts if at_root else None, ROOT)
        elif self.name == "scatter":
            dist.scatter(got, pieces if at_root else None, ROOT)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter(got, pieces, self.op)
        elif self.name == "all_to_all":
            dist.all_to_all_single(got, given)
        elif self.name == "sendrecv":
            sent = dist.isend(given, (self.rank + 1) % self.ranks)
            dist.recv(got, (self.rank - 1) % self.ranks)
            sent.wait()
        else:
            dist.barrier()

    def has_result(self):
        return self.count > 0 and (self.rank == ROOT or self.name not in ("reduce", "gather"))

    def source(self, segment):
        if self.name in REDUCES:
            return None
        if self.name in ("broadcast", "scatter"):
            return ROOT
        return (self.rank - 1) % self.ranks if self.name == "sendrecv" else segment

    def check(self, slot, number, iteration):
        """Wrong elements: of all, or of large results in one slice of each segment."""
        if not self.has_result():
            return 0
        got, wrong = self.outputs[slot], 0
        first = self.rank * self.count if self.name in WHOLE_INPUT else 0
        everything = iteration < 0 or self.size <= CHECK_WHOLE
        slices = 1 if everything else SLICES
        length = self.count // slices
        at = 0 if everything else iteration % SLICES * length
        for segment in range(got.numel() // self.count):
            start = segment * self.count + at
            wrong += self.data.wrong(got[start:start + length], self.source(segment), number, first + at)
        return wrong

    def iterate(self, number, iteration):
        """One iteration: how long it took this rank, and how much was wrong."""
        for slot in range(self.batch):
            if self.count > 0 and (self.rank == ROOT or self.name not in ("broadcast", "scatter")):
                self.data.fill(self.inputs[slot], self.rank, number + slot)
        start = self.meeting.start(self.rank)
        for slot in range(self.batch):
            self.call(self.inputs[slot], self.outputs[slot])
        took = time.monotonic_ns() - start
        return took, sum(self.check(slot, number + slot, iteration) for slot in range(self.batch))

    def possible(self):
        """Whether torch can do this at all."""
        try:
            self.call(self.inputs[0], self.outputs[0])
            return True
        except (RuntimeError, ValueError, NotImplementedError):
            return False

    def measure(self):
        """The slowest rank's times, and the wrong elements of all ranks; None if torch cannot do it."""
        if min(self.meeting.all_of(self.rank, int(self.possible()))) == 0:
            return None
        samples, wrong, number, began = [], 0, 0, time.monotonic_ns()
        wanted, i = FIRST, -WARM_UP
        while i < wanted:
            took, bad = self.iterate(number, i)
            number += self.batch
            wrong += bad
            if i >= 0:
                samples.append(max(self.meeting.all_of(self.rank, took)))
            i += 1
            if i == wanted and i < MOST:
                elapsed = max(self.meeting.all_of(self.rank, time.monotonic_ns() - began))
                if elapsed < BUDGET_NS:
                    wanted = min(MOST, i + min(i, int((BUDGET_NS - elapsed) / (elapsed / i)) + 1))
        return sorted(sample / self.batch / 1000 for sample in samples), sum(self.meeting.all_of(self.rank, wrong))


def describe(row, options, measured):
    reduces, rooted = row.name in REDUCES, row.name in ROOTED
    result = {"contender": "torch", "collective": row.name, "ranks": options.ranks, "size": row.size,
              "count": row.count, "type": "none" if row.name == "barrier" else options.dtype,
              "redop": options.op if reduces else "none", "root": ROOT if rooted else -1,
              "inplace": row.name in IN_PLACE}
    if measured is None:
        return {**result, "time_us": None, "alg_bw": None, "bus_bw": None, "wrong": None}
    times, wrong = measured
    n = len(times)
    middle = (times[(n - 1) // 2] + times[n // 2]) / 2
    others = (options.ranks - 1) / options.ranks
    factor = 2 * others if row.name == "all_reduce" else others if row.name in WHOLE_INPUT | WHOLE_OUTPUT else 1
    bandwidth = row.size / middle / 1000
    return {**result, "time_us": {"p50": middle, "p99": times[min(n - 1, n * 99 // 100)], "min": times[0],
                                  "max": times[-1]},
            "alg_bw": bandwidth, "bus_bw": bandwidth * factor, "wrong": wrong, "iterations": n, "batch": row.batch}


def counts(name, options):
    """Elements of the tensor or of one part, for each size."""
    if name == "barrier":
        return [0]
    item = torch.empty(0, dtype=DTYPES[options.dtype]).element_size()
    parts = options.ranks if name in WHOLE_INPUT | WHOLE_OUTPUT else 1
    found, size = [], options.least
    while size <= options.most:
        count = max(1, size // (item * parts))
        found += [count] if count not in found else []
        size *= options.factor
    return found


def collectives(text):
    """The names in a list with commas."""
    names = text.split(",")
    for name in names:
        if name not in COLLECTIVES + ["all"]:
            raise argparse.ArgumentTypeError(f"there is no collective {name!r}")
    return [name for name in COLLECTIVES if name in names or "all" in names]


def run_rank(rank, options, store, meeting, pipe):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=options.ranks)
    data = Data(options.ranks, DTYPES[options.dtype], options.op)
    rows = []
    for name in options.collective:
        for count in counts(name, options):
            row = Row(rank, options, name, count, data, meeting)
            rows.append(describe(row, options, row.measure()))
    if rank == 0:
        pipe.send(rows)
    dist.barrier()
    dist.destroy_process_group()


def run(options):
    """The rows, or None if a rank failed."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    meeting = Meeting(options.ranks)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=run_rank, args=(rank, options, folder + "/store", meeting, sender), daemon=True)
                 for rank in range(options.ranks)]
        for process in ranks:
            process.start()
        sender.close()
        rows = None
        while rows is None and not any(process.exitcode for process in ranks):
            rows = receiver.recv() if receiver.poll(0.1) else None
        for process in ranks:
            process.join(10 if rows is not None else 0.01)
            if process.exitcode != 0:
                rows = None
        for process in ranks:
            process.kill()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collective", nargs="?", default="all", type=collectives)
    parser.add_argument("-n", dest="ranks", type=int, default=2)
    parser.add_argument("-b", dest="least", type=int, default=8)
    parser.add_argument("-e", dest="most", type=int, default=16 << 20)
    parser.add_argument("-f", dest="factor", type=int, default=8)
    parser.add_argument("-d", dest="dtype", default="f32")
    parser.add_argument("-o", dest="op", default="sum")
    options = parser.parse_args()
    for given, known in ((options.dtype, DTYPES), (options.op, OPS)):
        if given not in known:
            print(f"torch_gloo: torch's Gloo has no {given}; there are {', '.join(known)}", file=sys.stderr)
            return 1
    rows = run(options)
    if rows is None:
        print("torch_gloo: a rank failed", file=sys.stderr)
        return 1
    print(json.dumps({"config": {"version": f"torch {torch.__version__}, gloo", "ranks": options.ranks},
                      "results": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
