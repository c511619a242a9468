# SPDX-License-Identifier: BSD-3-Clause
"""The machine on which scripts/simulate lets ranks run, and the queue of events.

Ranks run on cores, store and poll cache lines, and copy data. Every line that a rank looks at is a request to whoever
has it (the writer, or the first in the reader's own cluster that has fetched it), who answers one after another; all
data pass through the ports of clusters, the links between sockets, and memory, each of which serves requests in the
order in which they come. docs/scaling.md tells of the model and its assumptions.

Times are in nanoseconds, bandwidths in bytes per nanosecond (GB/s), as copied: loaded here and stored at home.
"""
import heapq
import itertools
import math
from collections import deque

# value, meaning. Sources: docs/scaling.md.
PARAMETERS = {
    "cluster": (8, "cores that share a third-level cache"),
    "hop_near": (35.0, "a line from another core of the cluster"),
    "hop_die": (135.0, "... from another cluster of the socket"),
    "hop_socket": (270.0, "... from another socket"),
    "serial_near": (5.0, "the cluster answers the next reader of the same line after"),
    "serial_die": (20.0, "the writer of a line answers the next reader of another cluster after"),
    "serial_socket": (40.0, "... of another socket"),
    "misses": (12, "lines that a core may wait for at a time"),
    "line_cpu": (8.0, "instructions for each line looked at"),
    "call_cpu": (150.0, "instructions of a call, whatever its size"),
    "copy_own": (30.0, "bandwidth of a core: own caches"),
    "copy_near": (20.0, "... from another core of the cluster"),
    "copy_die": (10.0, "... from another cluster"),
    "copy_socket": (7.0, "... from another socket"),
    "copy_memory": (10.0, "... from memory"),
    "port": (50.0, "bandwidth of a cluster to the others, each way"),
    "link": (100.0, "bandwidth of a socket to the others, each way"),
    "memory": (200.0, "memory bandwidth of a socket"),
    "cache": (4 << 20, "bytes of cache for each core"),
    "switch": (1250.0, "from one rank to the next on the same core, by a yield"),
    "spin": (500.0, "a rank that shares its core spins so long before it yields"),
}
LINE = 64
NEAR, DIE, SOCKET = 0, 1, 2


def up(value, unit):
    return -(-int(value) // unit) * unit


class Machine:
    """Where ranks run and how far they are from one another. Ranks are numbered along the cores."""

    def __init__(self, ranks, sockets=1, cores=0, **parameters):
        for name, (value, _) in PARAMETERS.items():
            setattr(self, name, type(value)(parameters.get(name, value)))
        self.ranks, self.sockets = ranks, sockets
        self.cores = cores or up(ranks, sockets)  # of the whole machine
        self.per_core = -(-ranks // self.cores)
        each = -(-self.cores // sockets)
        per_socket = -(-each // self.cluster)
        self.core_of = [r // self.per_core for r in range(ranks)]
        self.socket_of = [c // each for c in self.core_of]
        self.home = [s * per_socket + c % each // self.cluster for s, c in zip(self.socket_of, self.core_of)]
        self.clusters = max(self.home) + 1
        self.socket_at = [c // per_socket for c in range(self.clusters)]
        self.members = [0] * self.clusters
        for c in self.home:
            self.members[c] += 1
        self.used = sorted(set(self.home))
        self.hop = (self.hop_near, self.hop_die, self.hop_socket)
        self.serial = (self.serial_near, self.serial_die, self.serial_socket)
        self.copy = (self.copy_near, self.copy_die, self.copy_socket)
        self.far = self.distance(self.used[0], self.used[-1])

    def distance(self, a, b):
        return NEAR if a == b else DIE if self.socket_at[a] == self.socket_at[b] else SOCKET

    def window(self):
        """Bytes of a vector that are staged in one step."""
        return max((2 << 20 if self.ranks <= 8 else 1 << 20) // 8, up(self.ranks * 128, 8192))

    def choice(self, size):
        """The class of an all_reduce, with round limits: the engine's follow from a profile of the machine."""
        limit = 32768 if self.ranks <= 3 else 4096 if self.ranks <= 8 else 512
        return "inline" if size <= (324 if self.ranks <= 64 else 100) else "one-shot" if size <= limit else "two-shot"


class Server:
    """Serves one request after another."""

    def __init__(self, rate):
        self.rate, self.free, self.bytes = rate, 0.0, 0

    def serve(self, now, count):
        self.bytes += count
        self.free = max(self.free, now) + count / self.rate
        return self.free


    def pass_by(self, now, count, in_flight):
        """The delay of a single line: cores hold back most of what waits, only `in_flight` bytes are ahead of it."""
        before = self.free
        self.serve(now, count)
        return min(max(0.0, before - now), in_flight / self.rate)


class Line:
    """A word that one rank stores once and others poll, with `width` cache lines of data. `at` says for each cluster
    when it can answer the next reader."""
    __slots__ = ("home", "width", "visible", "free", "at", "waiters")

    def __init__(self, home, width=1):
        self.home, self.width, self.visible, self.free, self.at, self.waiters = home, width, math.inf, 0.0, {}, []


class Simulation:
    def __init__(self, machine):
        m = self.m = machine
        self.now, self.order, self.events = 0.0, itertools.count(), []
        self.ports_in = [Server(m.port) for _ in range(m.clusters)]
        self.ports_out = [Server(m.port) for _ in range(m.clusters)]
        self.links_in = [Server(m.link) for _ in range(m.sockets)]
        self.links_out = [Server(m.link) for _ in range(m.sockets)]
        self.memories = [Server(m.memory) for _ in range(m.sockets)]
        self.in_flight = m.misses * LINE * m.cores / m.sockets
        self.lines, self.fetched, self.ends = {}, {}, {}
        self.moved = [0] * m.ranks  # bytes loaded and stored by copies and folds
        self.copied = self.looked = 0.0  # time that cores spend with copies and folds, with lines
        self.reads = [0, 0, 0]      # of lines, by distance
        self.queues = [deque() for _ in range(max(m.core_of) + 1)]  # of the ranks on each core; the first one runs
        self.switching = [False] * len(self.queues)
        self.idle = 0                    # turns without anything published
        self.blocked = [None] * m.ranks  # (lines, index) that a rank waits for
        self.programs = [None] * m.ranks

    def at(self, time, action, *args):
        heapq.heappush(self.events, (time, next(self.order), action, args))

    def line(self, *key, width=1):
        """The word that rank key[-1] publishes under this name."""
        if key not in self.lines:
            self.lines[key] = Line(self.m.home[key[-1]], width)
        return self.lines[key]

    def publish(self, *key, width=1):
        """The line has to be taken away from those who have polled it: that takes a hop to the farthest."""
        m, line = self.m, self.line(*key, width=width)
        line.width, self.idle = width, 0
        line.visible = line.free = self.now + (m.hop[m.far] if m.ranks > 1 else 0)
        line.at[line.home] = line.visible
        for rank in line.waiters:
            self.at(line.visible, self.wake, rank)
        line.waiters = []

    def ask(self, rank, line, now):
        """When the line's content is there, if a rank asks for it now."""
        m, home, now = self.m, self.m.home[rank], max(now, line.visible)
        free = line.at.get(home)
        distance = NEAR if free is not None else m.distance(home, line.home)
        cost = m.serial[distance]
        self.reads[distance] += line.width
        if free is not None:  # the cluster has it, or is about to
            start = max(now, free)
            line.at[home] = start + cost
            return start + m.hop_near + (line.width - 1) * m.hop_near / m.misses
        start = max(now, line.free)
        line.free = start + cost
        done = start + m.hop[distance] + (line.width - 1) * m.hop[distance] / m.misses
        if distance == SOCKET:
            s, d = m.socket_at[line.home], m.socket_at[home]
            done += max(server.pass_by(start, LINE * line.width, self.in_flight)
                        for server in (self.links_out[s], self.links_in[d]))
        line.at[home] = done
        return done

    def transfer(self, now, source, target, count):
        """Bytes go from one cluster to another: when the last of the resources that they pass has served them."""
        m = self.m
        end = max(self.ports_out[source].serve(now, count), self.ports_in[target].serve(now, count))
        s, d = m.socket_at[source], m.socket_at[target]
        return end if s == d else max(end, self.links_out[s].serve(now, count), self.links_in[d].serve(now, count))

    def move(self, rank, parts=(), own=0, memory=0, push=(), shared=None, stored=None):
        """A rank loads parts, (cluster, bytes) each, and `own` bytes of its own, and stores as much as it loads or
        `stored` bytes; push: (cluster, bytes) that it stores elsewhere. `shared` names data that others load too: once
        in a cluster, it is had there. `memory` bytes of all that come from memory or go there."""
        m, home = self.m, self.m.home[rank]
        core, end, loaded, hop = own / m.copy_own, self.now, own, 0.0
        for cluster, count in parts:
            loaded += count
            distance, name = m.distance(home, cluster), (shared, cluster, home)
            hop = max(hop, m.hop[distance])
            far = count / m.copy[distance]
            if distance == NEAR:
                core += far
            elif shared is None:
                core += far
                end = max(end, self.transfer(self.now, cluster, home, count))
            else:  # the readers in a cluster are the first in turns
                near = count / m.copy_near
                core += near + (far - near) / m.members[home]
                if name not in self.fetched:
                    self.fetched[name] = self.transfer(self.now, cluster, home, count)
                end = max(end, self.fetched[name])
        for cluster, count in push:
            distance = m.distance(home, cluster)
            core += count / m.copy[distance]
            if distance != NEAR:
                end = max(end, self.transfer(self.now, home, cluster, count))
        if memory:
            core += memory * max(0.0, 1 / m.copy_memory - 1 / m.copy_own)
            end = max(end, self.memories[m.socket_of[rank]].serve(self.now, memory))
        self.copied += core
        self.moved[rank] += loaded + (loaded if stored is None else stored) + sum(count for _, count in push)
        return max(end, self.now + hop + core)

    # ---- ranks and cores: a program yields a time until which its core is busy, or a list of lines to wait for ----

    def resume(self, rank):
        """The rank has its core, and has done what it did."""
        wish = next(self.programs[rank], None)
        if wish is None:
            self.queues[self.m.core_of[rank]].remove(rank)
            self.turn(self.m.core_of[rank])
        elif isinstance(wish, list):
            self.look(rank, wish, 0)
        else:
            self.at(wish, self.resume, rank)

    def look(self, rank, lines, index, ends=()):
        """Polls the lines in turn: as many misses as a core may have overlap, and `ends` says when the last ones end.
        At a line that is not there yet the rank waits."""
        m, now, ends = self.m, self.now, list(ends)
        self.blocked[rank] = None
        batch = min(index + m.misses, len(lines))
        while index < batch and lines[index].visible < math.inf:
            if len(ends) >= m.misses:
                now = max(now, ends[-m.misses])
            now += m.line_cpu * lines[index].width
            ends.append(max(now, self.ask(rank, lines[index], now), ends[-1] if ends else 0.0))
            index += 1
        ends = ends[-m.misses:]
        if index == len(lines):
            self.looked += ends[-1] - self.now
            self.at(ends[-1], self.resume, rank)
        elif index == batch:
            self.looked += max(now, ends[0]) - self.now
            self.at(max(now, ends[0]), self.look, rank, lines, index, ends)
        elif ends:
            self.looked += ends[-1] - self.now
            self.at(ends[-1], self.look, rank, lines, index)
        else:
            self.blocked[rank] = (lines, index)
            lines[index].waiters.append(rank)
            if len(self.queues[m.core_of[rank]]) > 1:
                self.at(self.now + m.spin, self.give_up, rank, lines[index])

    def waits(self, rank):
        """The line that the rank waits for, or None."""
        return self.blocked[rank] and self.blocked[rank][0][self.blocked[rank][1]]

    def wake(self, rank):
        """What the rank waited for is there. If another one runs on its core, it finds out when its turn comes."""
        core = self.m.core_of[rank]
        if self.blocked[rank] and self.queues[core][0] == rank and not self.switching[core]:
            self.look(rank, *self.blocked[rank])

    def give_up(self, rank, line):
        core = self.m.core_of[rank]
        if self.waits(rank) is line and self.queues[core][0] == rank and not self.switching[core]:
            self.queues[core].rotate(-1)
            self.turn(core)

    def turn(self, core):
        """The next rank of this core gets it."""
        if self.queues[core]:
            self.switching[core] = True
            self.at(self.now + self.m.switch * (len(self.queues[core]) > 1), self.begin, core)

    def begin(self, core):
        rank = self.queues[core][0]
        line = self.waits(rank)
        self.switching[core] = False
        self.idle += 1
        if line is None:
            self.resume(rank)  # for the first time: it gives its core up only while it waits
        elif line.visible <= self.now:
            self.look(rank, *self.blocked[rank])
        elif len(self.queues[core]) > 1:  # still waits, and yields again
            self.queues[core].rotate(-1)
            self.turn(core)

    def run(self, program, *args):
        for rank in range(self.m.ranks):
            self.programs[rank] = program(self, rank, *args)
            self.queues[self.m.core_of[rank]].append(rank)
        for core in range(len(self.queues)):
            self.at(0.0, self.begin, core)
        while self.events and self.idle < 1000 * self.m.ranks + 1000:
            self.now, _, action, args = heapq.heappop(self.events)
            action(*args)
        if any(self.queues):
            raise RuntimeError("the simulation hangs: a program waits for what nobody publishes")
        return self

    def ended(self, call):
        """The current rank has ended a call: the time of the last to do so counts."""
        self.ends[call] = max(self.ends.get(call, 0.0), self.now)
