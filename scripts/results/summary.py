#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up the comparisons of scripts/bench: summary.py RESULTS PART...

Reads RESULTS/PART.csv of each part, which bench_vs.py has written, and prints geometric means for each number of
ranks, collective and placement, what they are over all, how each contender does, and every cell that is lost; writes the same
to RESULTS/comparison.md.
"""
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import record as bench_record  # noqa: E402

MAIN = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier")
OTHERS = ("reduce", "gather", "scatter", "sendrecv", "ping_pong", "window", "group")
REDUCTIONS = ("all_reduce", "reduce_scatter")
SMALL, LARGE = 4 << 10, 1 << 20


def read_record(path):
    """The settings of a record, and its cells: those that have a peer, and again with Tutti's buffers in the heap."""
    settings, found = bench_record.read(path)
    cells = []
    for cell in found:
        if not cell.best:
            continue
        ranks = int(settings["ranks"])
        one = {"collective": cell.collective, "ranks": ranks, "size": cell.size, "place": cell.place, "algorithm": cell.algorithm,
               "bound_us": cell.bound_us, "tutti_us": cell.tutti_us, "best_peer": cell.best, "ratio": cell.ratio,
               "best_us": cell.time_of(cell.best), "hop": cell.entries[cell.best].hop, "placement": "private",
               "lost": cell.lost, "lost_once": cell.lost_once, "ratios": {name: entry.ratio for name, entry in cell.entries.items()
                                             if name != bench_record.HEAP and entry.ratio > 0}}
        cells.append(one)
        ratio = cell.heap_ratio()
        if ratio:  # its interval is not known: lost where private buffers are, too
            cells.append({**one, "placement": "heap", "tutti_us": cell.time_of(bench_record.HEAP), "ratio": ratio, "ratios": {},
                          "bound_us": 0, "lost": cell.lost and ratio > 1, "lost_once": cell.lost_once and ratio > 1})
    return settings, cells


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def size_text(size):
    for unit in ("", "K", "M"):
        if size < 1024 or size % 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}G"


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def ratio_of(cells):
    return mean(cell["ratio"] for cell in cells)


def roofline_of(cells):
    """How much of what the machine allows was reached: bound over time."""
    share = mean(cell["bound_us"] / cell["tutti_us"] for cell in cells if cell["bound_us"])
    return "" if share is None else f"{share:.2f}"


def mean_row(names, cells):
    ratio = ratio_of(cells)
    return [*names, f"{ratio:.3f}", f"{1 / ratio:.2f}", sum(cell["lost"] for cell in cells), len(cells),
            roofline_of([c for c in cells if c["size"] <= SMALL]),
            roofline_of([c for c in cells if c["size"] >= LARGE])]


def mean_rows(cells):
    order = {name: i for i, name in enumerate(MAIN + OTHERS)}
    keys = {(c["ranks"], order[c["collective"]], c["placement"] == "heap", c["collective"], c["placement"]) for c in cells}
    for ranks, _, _, collective, placement in sorted(keys):
        chosen = [c for c in cells if (c["ranks"], c["collective"], c["placement"]) == (ranks, collective, placement)]
        yield mean_row([ranks, collective, placement], chosen)


def overall_rows(cells):
    main = [c for c in cells if c["collective"] in MAIN]
    heap = [c for c in main if c["placement"] == "heap"]
    groups = [("the six, private buffers", [c for c in main if c["placement"] == "private"]),
              ("reductions in the heap from 64K", [c for c in heap if c["collective"] in REDUCTIONS]),
              ("the other ones in the heap from 64K", [c for c in heap if c["collective"] not in REDUCTIONS])]
    for ranks in sorted({c["ranks"] for c in cells}):
        for name, group in groups:
            chosen = [c for c in group if c["ranks"] == ranks]
            if chosen:
                yield mean_row([ranks, name], chosen)


def contender_rows(cells):
    """Tutti's ratio to each contender alone, and in how many cells that contender is the best one."""
    names = dict.fromkeys(name for c in cells for name in c["ratios"])
    for ranks in sorted({c["ranks"] for c in cells}):
        for name in names:
            chosen = [c for c in cells if c["ranks"] == ranks and name in c["ratios"]]
            if chosen:
                ratio = mean(c["ratios"][name] for c in chosen)
                yield [ranks, name, f"{ratio:.3g}", len(chosen), sum(c["best_peer"] == name for c in chosen)]


def spinning_line(cells):
    """What the ranks' spinning costs Gloo, whose event thread shares a rank's CPU; the other tables have it at its best."""
    for c in cells:
        if c["place"] == "out" and "gloo/ring" in c["ratios"] and "gloo/spin" in c["ratios"]:
            ring, spin = (c["tutti_us"] / c["ratios"][name] for name in ("gloo/ring", "gloo/spin"))
            yield (f"Gloo is measured with ranks that sleep before its calls. If they spin on the CPUs of its event threads, an "
                   f"{c['collective']} of {c['size']} bytes takes {spin:.4g} us instead of {ring:.4g}.")
            return


def lost_rows(cells):
    for c in cells:
        if c["lost"]:
            yield [c["ranks"], c["collective"], size_text(c["size"]), c["place"], c["placement"],
                   c["hop"], c["algorithm"], f"{c['tutti_us']:.3g}", c["best_peer"], f"{c['best_us']:.3g}", f"{c['ratio']:.2f}"]


def contender_lines(records):
    """Contenders that were missing or failed, and in which part."""
    for name, (settings, _) in records.items():
        for key, text in settings.items():
            what, _, contender = key.partition(" ")
            if what == "missing":
                yield f"{contender} is missing: {text}"
            elif what == "failed":
                yield f"{contender}: failed in {name}: {text}"


def command_lines(records):
    """Each contender's version and command line, for any number of ranks."""
    for settings, _ in records.values():
        for key, text in settings.items():
            what, _, contender = key.partition(" ")
            if what == "command":
                version = settings.get(f"version {contender}", "").split(",")[0]
                yield f"{contender} ({version}): `{text.replace('-n ' + settings['ranks'], '-n N')}`"


def text_of(records):
    cells = [cell for _, found in records.values() for cell in found]
    first = next(iter(records.values()))[0]
    minutes = sum(float(settings["seconds"]) for settings, _ in records.values()) / 60
    what = ["ratio", "times as fast", "lost", "cells", "roofline, small", "roofline, large"]
    lost = list(lost_rows(cells))
    lines = ["# Tutti against others", "", "Written by `make bench`; docs/bench.md says how it is measured. Parts: "
             + ", ".join(f"[{name}]({name}.csv)" for name in records)
             + "; each file has a line for each cell.", "",
             f"{first['cpu']}, {first['cpus']} CPUs; {minutes:.0f} minutes in all.", "",
             "Ratio: geometric mean of Tutti's time over that of the best peer of each cell; below 1 Tutti is faster. "
             "Roofline: geometric mean of the bound over Tutti's time, for sizes up to 4K (cache-line hops) and from 1M "
             "(bandwidth).", "", "## Geometric means", ""]
    lines += [*table(["ranks", "collective", "buffers", *what], mean_rows(cells)), "", "## In all", "",
              "The six: " + ", ".join(MAIN) + ".", "", *table(["ranks", "", *what], overall_rows(cells)), "",
              "## Each contender", "", *spinning_line(cells), "",
              *table(["ranks", "contender", "ratio", "cells", "best peer in"], contender_rows(cells)), "",
              "Settings:", "", *(f"- {line}" for line in sorted(set(command_lines(records)))), ""]
    unmeasured = sorted(set(contender_lines(records)))
    if unmeasured:
        lines += ["## Contenders that could not be measured", "", *(f"- {line}" for line in unmeasured), ""]
    lines += ["## Cells lost", "", "The interval of the ratio lies wholly above 1, and again when the cell was measured once more.", ""]
    lines += table(["ranks", "collective", "size", "place", "buffers", "hop", "algo", "Tutti (us)", "best peer",
                    "its (us)", "ratio"], lost) if lost else ["None."]
    once = sum(cell["lost_once"] for cell in cells)
    lines += ["", f"{once} more were lost at first, but not when they were measured again."] if once else []
    return "\n".join([*lines, "", f"{len(lost)} of {len(cells)} cells lost.", ""])


def main():
    folder = Path(sys.argv[1])
    found = {name: read_record(folder / f"{name}.csv") for name in sys.argv[2:]}
    records = {name: record for name, record in found.items() if record[1]}
    if not records:
        print(f"summary: nothing was compared: no cell in {folder}", file=sys.stderr)
        return 1
    text = text_of(records)
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written: {folder}/comparison.md from the .csv of {', '.join(records)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
