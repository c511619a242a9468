# SPDX-License-Identifier: BSD-3-Clause
"""The closed model of each class, beside scripts/simulate: what adding up gives, without queues and order."""
from simulate_classes import arrival_lines, group_of, in_memory, slices, stream_steps, window_cuts
from simulate_machine import DIE, LINE, NEAR, SOCKET


class Model:
    """`classes` gives for a class and size the time, with what waiting can be foreseen, and the bound without any."""

    def __init__(self, m):
        self.m, self.p, self.k = m, m.ranks, len(m.used)
        self.c = self.p / self.k  # ranks of a cluster
        self.l = self.p / m.sockets
        self.far_hop = m.hop[m.far] if self.p > 1 else 0.0
        # of all ranks, those in the own cluster, in others of the socket, in other sockets
        ranks = [sum(m.members[d] for d in m.used if m.distance(m.used[0], d) == x) for x in (NEAR, DIE, SOCKET)]
        share = [count / self.p for count in ranks]
        self.away, self.over = 1 - share[NEAR], share[SOCKET]
        self.hops = sum(s * hop for s, hop in zip(share, m.hop))
        self.all = self.per_byte(share)
        here = 1 - self.over
        self.local = self.per_byte([share[NEAR] / here, share[DIE] / here, 0.0])
        self.local_away = share[DIE] / here

    def per_byte(self, share):
        """Nanoseconds a byte of what lies with so many of each distance: with one reader, with all ranks reading it."""
        m = self.m
        one = sum(s / rate for s, rate in zip(share, m.copy))
        return one, 1 / m.copy_near + (one - 1 / m.copy_near) / self.c

    def polls(self, width=1, lines=None):
        """Looking at lines that are all there. Neighbours do it at the same time, so each line is far for all."""
        n = (self.p - 1 if lines is None else lines) * width
        return max(n * self.hops / self.m.misses, n * self.m.line_cpu)

    def epoch(self, width=1, lines=None):
        """Publishing, and everybody looking at everybody's line; the readers of a line come all at once."""
        m = self.m
        if self.p == 1:
            return 0.0
        if m.per_core > 1:  # all ranks of a core in turn
            return (m.per_core - 1) * (m.switch + m.spin) + m.per_core * self.polls(width, lines)
        together = (self.c - 1) * m.serial_near + (self.k - 1) * m.serial[m.far]
        return 2 * self.far_hop + self.polls(width, lines) + together

    def memory(self, size, per_rank):
        return per_rank * self.l / self.m.memory if in_memory(self.m, size) else 0.0

    def memory_core(self, size, per_rank):
        m = self.m
        return m.per_core * per_rank * (1 / m.copy_memory - 1 / m.copy_own) if in_memory(m, size) else 0.0

    def small(self, name, size):
        m, p = self.m, self.p
        cpu = m.per_core * (m.call_cpu + p * size / m.copy_own)
        if name == "leaders":
            group = group_of(p, size)
            width, lines = max(1, -(-group * size // 56)), -(-p // group)
            first = self.epoch(1, group - 1) if group > 1 else 0.0
            return (cpu + first + self.epoch(width, lines - 1),
                    max(2 * self.far_hop, cpu + (lines - 1) * m.line_cpu * m.per_core * width))
        width = arrival_lines(size)
        return cpu + self.epoch(width), max(2 * self.far_hop, cpu + (p - 1) * m.line_cpu * width * m.per_core)

    def one_shot(self, size):
        m, p = self.m, self.p
        core = m.per_core * (2 * size / m.copy_own + (p - 1) * size * self.all[1]) + self.memory_core(size, 2 * size)
        port, link = p * size * self.away / m.port, p * size * self.over * self.k / m.sockets / m.link
        least = m.per_core * (m.call_cpu + (p + 1) * size / m.copy_own)
        return m.per_core * m.call_cpu + self.epoch() + max(core, port, link), max(2 * self.far_hop, least, port, link)

    def zero_copy(self, size):
        m, p = self.m, self.p
        each = min(size, (size // p // LINE + 1) * LINE)
        moved = 2 * (p - 1) * each  # loaded, and pushed
        core = m.per_core * (each / m.copy_own + moved * self.all[0]) + self.memory_core(size, 2 * p * each)
        moved = 2 * size  # of all ranks together, for each of them
        port, link = moved * self.c * self.away / m.port, moved * self.l * self.over / m.link
        memory = self.memory(size, 2 * size)
        least = m.per_core * (m.call_cpu + 2 * (p - 1) * each / m.copy_own)
        return (m.per_core * m.call_cpu + 2 * self.epoch() + max(core, port, link, memory),
                max(4 * self.far_hop, least, port * (1 - 1 / p), link * (1 - 1 / p), memory))

    def two_shot(self, size):
        m, p = self.m, self.p
        cuts = window_cuts(m, size)
        n, own = cuts[0], slices(cuts[0], p)[0]
        extra = m.per_core * n * (1 / m.copy_memory - 1 / m.copy_own) if in_memory(m, size) else 0.0
        stage = (m.per_core * (n - own) / m.copy_own + extra, 0.0, 0.0)
        fold = (m.per_core * (own / m.copy_own + (p - 1) * own * self.all[0]), n * self.c * self.away / m.port,
                n * self.l * self.over / m.link)
        out = (m.per_core * (n - own) * self.all[1] + extra, n * self.away / m.port,
               n * self.over * self.k / m.sockets / m.link)
        steady = [sum(part) for part in zip(stage, fold, out)]
        steady[0] += 2 * self.polls() if m.per_core == 1 else self.epoch()
        once = m.per_core * m.call_cpu + max(stage) + max(fold) + max(out) + 2 * self.epoch()
        memory = self.memory(size, 2 * size)
        least = m.per_core * (m.call_cpu + 2 * size * (1 - 1 / p) / m.copy_own)
        return max(once + (len(cuts) - 1) * max(steady), memory), max(2 * self.far_hop, least, memory)

    def chain(self, size):
        m = self.m
        cuts = window_cuts(m, size)
        n, own = cuts[0], slices(cuts[0], int(self.l))[0]
        extra = m.per_core * n * (1 / m.copy_memory - 1 / m.copy_own) if in_memory(m, size) else 0.0
        more = own / m.copy_socket if m.sockets > 1 else 0.0
        stage = m.per_core * n / m.copy_own + extra
        fold = m.per_core * (own / m.copy_own + (self.l - 1) * own * self.local[0])
        out = m.per_core * n * self.local[1] + extra
        ports = n * self.c * self.local_away / m.port, n * self.local_away / m.port
        link = max(2, m.sockets - 1) * n / m.link if m.sockets > 1 else 0.0
        polls = self.polls(lines=self.l) if m.per_core == 1 else self.epoch(lines=self.l) / 3
        once = (m.per_core * m.call_cpu + stage + m.sockets * (max(fold, ports[0]) + more + 2 * self.far_hop) + more +
                max(out, ports[1]) + (2 * polls if m.per_core == 1 else (m.sockets + 1) * self.epoch(lines=self.l)))
        steady = max(stage + fold + out + more + 3 * polls, sum(ports), link)
        memory = self.memory(size, 2 * size)
        return (max(once + (len(cuts) - 1) * steady, memory),
                max(2 * self.far_hop, m.per_core * (m.call_cpu + 2 * size * (1 - 1 / self.l) / m.copy_own), memory))

    def stream(self, name, size):
        m, p, steps = self.m, self.p, len(stream_steps(self.m, size))
        stage = size / m.copy_own + self.memory_core(size, size) / m.per_core
        if name == "broadcast":
            far = size / m.copy_near + max(0.0, size / m.copy[m.far] - size / m.copy_near) / self.c
            reader = far + self.memory_core(size, size) / m.per_core + 2 * steps * self.far_hop
            port, link = size * (self.k - 1) / m.port, size * (self.k - self.k / m.sockets) / m.link
            least = stage
        else:
            reader = (size / m.copy_own + (p - 1) * size * self.all[0] + self.memory_core(size, 2 * size) / m.per_core +
                      steps * (self.polls() + 2 * self.far_hop))
            port, link = size * (p - self.c) / m.port, size * (p - self.l) / m.link
            least = p * size / m.copy_own
        # ranks of a core share it: readers of a broadcast do the same, leaves of a reduction stage beside the root
        work = m.call_cpu + max(stage, reader) + (m.per_core - 1) * (reader if name == "broadcast" else stage)
        memory = self.memory(size, size) if name == "broadcast" else 0.0
        return max(work, port, link, memory), max(m.call_cpu + least, port, link, memory)

    def classes(self, name, size):
        if name in ("inline", "rotated", "barrier", "leaders"):
            return self.small(name, size)
        if name in ("broadcast", "reduce"):
            return self.stream(name, size)
        return {"one-shot": self.one_shot, "two-shot": self.two_shot, "chain": self.chain,
                "zero-copy": self.zero_copy}[name](size)
