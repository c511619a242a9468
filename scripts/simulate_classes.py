# SPDX-License-Identifier: BSD-3-Clause
"""What each rank does in each class of algorithms, as in src/engine: programs for scripts/simulate.

A program yields a time until which its core is busy, or a list of lines to wait for.
"""
import functools

from simulate_machine import LINE, up

PIECE = 65536     # most bytes of a step of a stream, or that a rank touches at a time in zero-copy
LEAST_UNITS = 16  # steps of zero-copy, at most

def others(sim, me, name, *key, start=0):
    ranks = sim.m.ranks
    return [sim.line(name, *key, (start + i) % ranks) for i in range(ranks) if (start + i) % ranks != me]


def parts_of(sim, me, bytes_of):
    """(cluster, bytes) of what all ranks but this one have; the own cluster first, so everybody begins elsewhere."""
    m, parts = sim.m, {}
    for r in range(m.ranks):
        if r != me:
            parts[m.home[r]] = parts.get(m.home[r], 0) + bytes_of(r)
    return sorted(((c, n) for c, n in parts.items() if n), key=lambda part: (part[0] - m.home[me]) % m.clusters)


def in_memory(m, size):
    return 2 * size * m.per_core > m.cache


def arrival_lines(size):
    return 1 if size <= 36 else 2 if size <= 100 else 2 + -(-(size - 100) // 56)


def inline(sim, me, size, calls, rotated=False):
    m = sim.m
    for call in range(calls):
        yield sim.now + m.call_cpu
        sim.publish(call, me, width=arrival_lines(size))
        if m.ranks > 1:
            yield others(sim, me, call, start=me if rotated else 0)
        yield sim.now + m.ranks * size / m.copy_own
        sim.ended(call)


def barrier(sim, me, _, calls):
    return inline(sim, me, 0, calls)


def rotated(sim, me, size, calls):
    return inline(sim, me, size, calls, rotated=True)


@functools.lru_cache
def group_of(ranks, size):
    """Ranks that one leader stands for: so many that leaders and all others look at few lines one after the other."""
    return min(range(1, ranks + 1), key=lambda g: g - 1 + -(-ranks // g) * (3 + max(1, -(-g * size // 56))) / 4)


def leaders(sim, me, size, calls):
    """Two levels: leaders publish the data of their groups unreduced, so that all fold in rank order."""
    m = sim.m
    group = group_of(m.ranks, size)
    leader = me // group * group
    members = [r for r in range(leader, min(leader + group, m.ranks)) if r != me]
    for call in range(calls):
        yield sim.now + m.call_cpu
        if me != leader:
            sim.publish("arrive", call, me, width=arrival_lines(size))
        elif members:
            yield [sim.line("arrive", call, r) for r in members]
        if me == leader:
            sim.publish("group", call, me, width=max(1, -(-group * size // 56)))
        if m.ranks > group or me != leader:
            heads = range(0, m.ranks, group)
            yield [sim.line("group", call, r) for r in (*heads[me // group:], *heads[:me // group]) if r != me]
        yield sim.now + m.ranks * size / m.copy_own
        sim.ended(call)


def one_shot(sim, me, size, calls):
    m = sim.m
    memory = size * in_memory(m, size)
    for call in range(calls):
        yield sim.now + m.call_cpu
        yield sim.move(me, own=size, memory=memory)
        sim.publish(call, me)
        if m.ranks > 1:
            yield others(sim, me, call)
        yield sim.move(me, parts_of(sim, me, lambda r: size), own=size, memory=memory, shared=call, stored=size)
        sim.ended(call)


@functools.lru_cache
def slices(size, ranks):
    each = up(-(-size // 4 // ranks) * 4, LINE)
    return [max(0, min(each, size - r * each)) for r in range(ranks)]


def two_shot(sim, me, size, calls, windows=None):
    """Two-shot, and with more than one window pipelined."""
    m = sim.m
    cuts = window_cuts(m, size)[:windows]
    memory = in_memory(m, size)
    for call in range(calls):
        yield sim.now + m.call_cpu
        for k in range(len(cuts) + 2):
            if k < len(cuts):
                count = cuts[k] - slices(cuts[k], m.ranks)[me]
                yield sim.move(me, own=count, memory=count * memory)
                sim.publish("staged", call, k, me)
            if 1 <= k <= len(cuts):
                own = slices(cuts[k - 1], m.ranks)[me]
                if m.ranks > 1:
                    yield others(sim, me, "staged", call, k - 1)
                yield sim.move(me, parts_of(sim, me, lambda r: own), own=own, memory=2 * own * memory, stored=2 * own)
                sim.publish("reduced", call, k - 1, me)
            if k >= 2:
                each = slices(cuts[k - 2], m.ranks)
                if m.ranks > 1:
                    yield others(sim, me, "reduced", call, k - 2, start=me)
                yield sim.move(me, parts_of(sim, me, lambda r: each[r]), memory=(cuts[k - 2] - each[me]) * memory,
                               shared=(call, k - 2))
        sim.ended(call)


def chain(sim, me, size, calls, windows=None):
    """Two-shot inside each socket; the fold goes on from socket to socket, so it stays one left fold in rank order."""
    m = sim.m
    cuts = window_cuts(m, size)[:windows]
    memory, socket = in_memory(m, size), m.socket_of[me]
    peers = [r for r in range(m.ranks) if m.socket_of[r] == socket]
    index = me - peers[0]
    before, last = me - len(peers), m.ranks - len(peers) + index

    def same(name, *key):
        return [sim.line(name, *key, r) for r in peers if r != me]

    def local(bytes_of):
        return parts_of(sim, me, lambda r: bytes_of(r - peers[0]) if m.socket_of[r] == socket else 0)

    for call in range(calls):
        yield sim.now + m.call_cpu
        for k in range(len(cuts) + m.sockets + 2):
            if k < len(cuts):
                yield sim.move(me, own=cuts[k], memory=cuts[k] * memory)
                sim.publish("staged", call, k, me)
            fold = k - 1 - socket  # each socket is a window behind the one before
            if 0 <= fold < len(cuts):
                own = slices(cuts[fold], len(peers))[index]
                wait = same("staged", call, fold) + ([sim.line("partial", call, fold, before)] if socket else [])
                if wait:
                    yield wait
                carried = [(m.home[before], own)] if socket else []
                yield sim.move(me, local(lambda i: own) + carried, own=own, stored=own)
                sim.publish("partial", call, fold, me)
            done = k - m.sockets - 1
            if 0 <= done < len(cuts) and socket < m.sockets - 1:
                yield [sim.line("partial", call, done, last)]
                own = slices(cuts[done], len(peers))[index]
                yield sim.move(me, [(m.home[last], own)] if own else [])
                sim.publish("result", call, done, me)
            out = done - 1
            if 0 <= out < len(cuts):
                wait = same("result" if socket < m.sockets - 1 else "partial", call, out)
                each = slices(cuts[out], len(peers))
                if wait:
                    yield wait
                yield sim.move(me, local(lambda i: each[i]), own=each[index], memory=cuts[out] * memory,
                               shared=(call, out))
        sim.ended(call)


def window_cuts(m, size):
    window = m.window()
    return [min(window, size - at) for at in range(0, size, window)] or [0]


def zero_copy(sim, me, size, calls):
    m = sim.m
    each = (size // m.ranks // LINE + 1) * LINE
    own = max(0, min(each, size - me * each))
    step = max(PIECE, up(-(-own // LEAST_UNITS), LINE))
    for call in range(calls):
        yield sim.now + m.call_cpu
        sim.publish("arrive", call, me)
        if m.ranks > 1:
            yield others(sim, me, "arrive", call)
        for at in range(0, own, step):
            n = min(step, own - at)
            parts = parts_of(sim, me, lambda r: n)
            yield sim.move(me, parts, own=n, memory=2 * m.ranks * n * in_memory(m, size), push=parts, stored=n)
        sim.publish("done", call, me)
        if m.ranks > 1:
            yield others(sim, me, "done", call)
        sim.ended(call)


def stream_steps(m, size):
    piece = max(8192, min(size // 8, PIECE, m.window())) // LINE * LINE
    return [min(piece, size - at) for at in range(0, size, piece)]


def streamed(sim, size, calls, windows, step):
    """Step after step through rings of `room` steps. `step(call, k, bytes, memory, freed, told)` is one rank's part in step k:
    before it writes, the readers must have told `freed` (None: there is room); a reader tells `told` (None: nothing yet)."""
    m = sim.m
    steps = stream_steps(m, size)[:windows]
    room, memory = 8 * m.window() // max(steps), in_memory(m, size)
    quarter = room // 4
    for call in range(calls):
        yield sim.now + m.call_cpu
        for k, n in enumerate(steps):
            freed = (k - room // 2) // quarter if k >= room and k % quarter == 0 else None
            told = k // quarter if k % quarter == quarter - 1 else None
            yield from step(call, k, n, n * memory, freed, told)
        sim.ended(call)


def broadcast(sim, me, size, calls, windows=None):
    """The root stages step after step; a ring is between it and the slowest reader."""
    m = sim.m

    def step(call, k, n, memory, freed, told):
        if me == 0:
            if freed is not None:
                yield others(sim, 0, "taken", call, freed)
            yield sim.move(0, own=n, memory=memory)
            sim.publish("step", call, k, 0)
        else:
            yield [sim.line("step", call, k, 0)]
            yield sim.move(me, [(m.home[0], n)], memory=memory, shared=(call, k))
            if told is not None:
                sim.publish("taken", call, told, me)

    return streamed(sim, size, calls, windows, step)


def reduce(sim, me, size, calls, windows=None):
    """Every leaf stages, the root folds."""

    def step(call, k, n, memory, freed, told):
        if me != 0:
            if freed is not None:
                yield [sim.line("taken", call, freed, 0)]
            yield sim.move(me, own=n, memory=memory)
            sim.publish("step", call, k, me)
        else:
            if sim.m.ranks > 1:
                yield others(sim, 0, "step", call, k)
            yield sim.move(0, parts_of(sim, 0, lambda r: n), own=n, memory=2 * memory, stored=n)
            if told is not None:
                sim.publish("taken", call, told, 0)

    return streamed(sim, size, calls, windows, step)


CLASSES = {"barrier": barrier, "inline": inline, "rotated": rotated, "leaders": leaders, "one-shot": one_shot,
           "two-shot": two_shot, "chain": chain, "zero-copy": zero_copy, "broadcast": broadcast, "reduce": reduce}
WINDOWED = {"two-shot", "chain", "broadcast", "reduce"}
