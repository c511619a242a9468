# SPDX-License-Identifier: BSD-3-Clause
"""Flight records as PyTorch's analyser reads them (torch.distributed.flight_recorder, version 2.4).

    tutti trace dump --format json DIR | python3 -m tutti.flight_records trace_
    torchfrtrace . --prefix trace_

It writes a pickle for each rank: trace_0, trace_1, ... The analyser takes the first operation of a group on one rank and
searches all members for the entry with its number. It reports a member without one as missing, and two neighbours of one
number as a bug. These rules make it name the rank that delays the others, and no other:

- A lane is a process group of its own, since lanes are numbered apart.
- Messages from one rank to another are a group, too. Only messages that have not ended are written: the two sides number
  theirs apart, and Tutti has matched those that have ended. Receives from any rank belong to no pair.
- A collective that has succeeded is left out if a member has begun it but has no entry: the member only counted it, or
  has overwritten its entry. It is also left out if its sizes differ, as they may in forms with counts.
- A failed operation is "started": the analyser has no failed state. It checks started operations.
"""

import bisect
import collections
import json
import pickle
import sys

MESSAGES = ("send", "recv")
COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
               "barrier")
TORCH_DTYPES = {"f64": "Double", "f32": "Float", "f16": "Half", "bf16": "BFloat16", "i8": "Char", "i16": "Short",
                "i32": "Int", "i64": "Long", "u8": "Byte", "bool": "Bool"}


def is_world(group):
    return group["name"].startswith("w")


def lane_name(group, lane):
    return f"{group['name']}.lane{lane}" if lane > 0 else group["name"]


def description(group, lane):
    return "default_pg" if group["name"] == "w0" and lane == 0 else "undefined"


def tensors(group, op):
    """The record has the number of elements of the tensor that is not joined."""
    if op["operation"] == "barrier":
        return {"input_sizes": [], "input_dtypes": [], "output_sizes": [], "output_dtypes": []}
    dtype = TORCH_DTYPES.get(op["dtype"], op["dtype"])
    joined = op["count"] * group["size"]
    input_count = joined if op["operation"] in ("reduce_scatter", "scatter") else op["count"]
    output_count = joined if op["operation"] in ("all_gather", "gather") else op["count"]
    return {"input_sizes": [[input_count]], "input_dtypes": [dtype],
            "output_sizes": [[output_count]], "output_dtypes": [dtype]}


class Member:
    """A rank's record of one group."""

    def __init__(self, index, group, operations):
        self.index = index
        self.group = group
        self.operations = operations
        self.rank = group["world_rank"]

    def begun(self, lane):
        """The number of the last operation that has begun in a lane."""
        running = [op["sequence"] for op in self.operations
                   if op["lane"] == lane and op["state"] == "started" and op["operation"] not in MESSAGES]
        return running[-1] if running else self.group["last"][lane]

    def collectives(self):
        """One for each number of a lane, in order."""
        found = {(op["lane"], op["sequence"]): op for op in self.operations
                 if op["operation"] in COLLECTIVES and op["sequence"] > 0}
        return [found[key] for key in sorted(found)]


class Job:
    def __init__(self, records):
        self.records = records
        self.members = []
        for record in records:
            for index, group in enumerate(record["groups"]):
                own = [op for op in record["operations"] if op["group_index"] == index]
                self.members.append(Member(index, group, own))
        self.world_ranks = {(m.group["name"], m.group["rank"]): m.rank for m in reversed(self.members)}
        self.counts = collections.defaultdict(list)  # elements of each entry, by group, lane and number
        self.begun = collections.defaultdict(list)  # numbers that members have begun, by group and lane
        for m in self.members:
            for op in m.collectives():
                self.counts[m.group["name"], op["lane"], op["sequence"]].append(op["count"])
            for lane in range(m.group["lanes"]):
                self.begun[m.group["name"], lane].append(m.begun(lane))
        for numbers in self.begun.values():
            numbers.sort()

    def is_kept(self, member, op):
        if op["state"] != "completed":
            return True
        counts = self.counts[member.group["name"], op["lane"], op["sequence"]]
        numbers = self.begun[member.group["name"], op["lane"]]
        begun = len(numbers) - bisect.bisect_left(numbers, op["sequence"])
        return len(counts) >= begun and len(set(counts)) == 1

    def world_rank(self, member, rank):
        if is_world(member.group) or rank == member.group["rank"]:
            return rank if is_world(member.group) else member.rank
        return self.world_ranks.get((member.group["name"], rank), -1)

    def ranks_of(self, group):
        """The members that are known, in an order that is the same in all files; of a world, all."""
        if is_world(group):
            return list(range(group["size"]))
        return [m.rank for m in self.members if m.group["name"] == group["name"]]

    def messages(self, member):
        """Those that have not ended, with their sender and receiver: ranks of the world."""
        for op in member.operations:
            if op["operation"] in MESSAGES and op["state"] == "started" and op["peer"] >= 0:
                peer = self.world_rank(member, op["peer"])
                if peer >= 0 and peer != member.rank:
                    yield op, (member.rank, peer) if op["operation"] == "send" else (peer, member.rank)

    def configuration(self, member):
        group = member.group
        for lane in range(group["lanes"]):
            yield lane_name(group, lane), description(group, lane), self.ranks_of(group)
        for _, (sender, receiver) in self.messages(member):
            yield f"{group['name']}.{sender}-{receiver}", "undefined", [sender, receiver]

    def entries(self, member):
        for op in member.collectives():
            if self.is_kept(member, op):
                name = lane_name(member.group, op["lane"])
                yield entry(member, op, (name, description(member.group, op["lane"])), op["sequence"],
                            f"nccl:{op['operation']}")
        numbers = collections.Counter()
        for op, (sender, receiver) in self.messages(member):
            numbers[sender, receiver] += 1
            of, to = int(sender > receiver), int(sender < receiver)  # places in the sorted pair
            text = f"nccl:send {of}->{to}" if op["operation"] == "send" else f"nccl:recv {to}<-{of}"
            yield entry(member, op, (f"{member.group['name']}.{sender}-{receiver}", "undefined"),
                        numbers[sender, receiver], text)

    def dump(self, host, rank):
        own = [m for m in self.members if m.rank == rank]
        entries = [e for m in own for e in self.entries(m)]
        for number, e in enumerate(entries):
            e["record_id"] = number
        return {"version": "2.4", "host_name": host, "rank": rank,
                "pg_config": {name: {"name": name, "desc": described, "ranks": str(ranks)}
                              for m in own for name, described, ranks in self.configuration(m)},
                "pg_status": {lane_name(m.group, lane): {"last_enqueued_collective": m.begun(lane),
                                                         "last_started_collective": m.begun(lane),
                                                         "last_completed_collective": m.group["last"][lane]}
                              for m in own for lane in range(m.group["lanes"])},
                "entries": entries}


def entry(member, op, group, sequence, name):
    is_message = op["operation"] in MESSAGES
    has_times = op["start_ns"] > 0 and op["end_ns"] > 0
    return {"pg_id": member.index, "process_group": group, "collective_seq_id": sequence,
            "p2p_seq_id": sequence if is_message else 0, "op_id": sequence, "profiling_name": name,
            "time_created_ns": op["start_ns"], "time_discovered_started_ns": op["start_ns"] or None,
            "time_discovered_completed_ns": op["end_ns"] or None,
            "duration_ms": (op["end_ns"] - op["start_ns"]) / 1e6 if has_times else None,
            **tensors(member.group, op), "state": "completed" if op["state"] == "completed" else "started",
            "retired": op["state"] != "started", "timeout_ms": 0, "is_p2p": is_message, "frames": []}


def fail(why):
    print(f"flight_records: {why}", file=sys.stderr)
    return 1


def dumps(text):
    """The files' contents, by rank; an exception of NOT_RECORDS if the text is something else."""
    job = Job(json.loads(text)["ranks"])
    hosts = {}
    for record in job.records:
        ranks = [group["world_rank"] for group in record["groups"]]
        for rank in ranks or [record["rank"]]:  # the analyser needs a file of a rank that has done nothing
            hosts.setdefault(rank, record["host"])
    return {rank: job.dump(host, rank) for rank, host in hosts.items() if rank >= 0}


NOT_RECORDS = (ValueError, LookupError, TypeError)


def main():
    usage = "usage: tutti trace dump --format json DIR | python3 -m tutti.flight_records PREFIX"
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(usage)
        return 0
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(usage, file=sys.stderr)
        return 2
    try:
        text = sys.stdin.read()
        if not text.strip():
            return fail("the input is empty; tutti trace dump has said why")
        found = dumps(text)
    except NOT_RECORDS:
        return fail('standard input is no output of "tutti trace dump --format json"')
    for rank, dump in found.items():
        name = f"{sys.argv[1]}{rank}"
        try:
            with open(name, "wb") as file:
                pickle.dump(dump, file, protocol=2)
        except OSError as error:
            return fail(f"cannot write {name}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
