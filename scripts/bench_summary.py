#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up the comparisons of scripts/bench: bench_summary.py RESULTS PART...

Reads RESULTS/PART.json of each part, and prints geometric means for each number of ranks, collective, placement and class of
hop, what they are over all, and every cell that is lost; writes the same to RESULTS/comparison.md.
"""
import json
import math
import sys
from pathlib import Path

MAIN = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier")
REDUCTIONS = ("all_reduce", "reduce_scatter")
SMALL, MIDDLE, LARGE = 4 << 10, 64 << 10, 1 << 20


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
    order = {name: i for i, name in enumerate([*MAIN, "reduce", "gather", "scatter", "sendrecv"])}
    keys = {(c["ranks"], order[c["collective"]], c["collective"], c["placement"] == "heap", c["placement"], c["hop"])
            for c in cells}
    for ranks, _, collective, _, placement, hop in sorted(keys):
        chosen = [c for c in cells if (c["ranks"], c["collective"], c["placement"], c["hop"]) ==
                  (ranks, collective, placement, hop)]
        yield mean_row([ranks, collective, placement, hop], chosen)


def overall_rows(cells):
    main = [c for c in cells if c["collective"] in MAIN]
    heap = [c for c in main if c["placement"] == "heap" and c["size"] >= MIDDLE]
    groups = [("the six, private buffers", [c for c in main if c["placement"] == "private"]),
              ("reductions in the heap from 64K", [c for c in heap if c["collective"] in REDUCTIONS]),
              ("the other ones in the heap from 64K", [c for c in heap if c["collective"] not in REDUCTIONS])]
    for ranks in sorted({c["ranks"] for c in cells}):
        for name, group in groups:
            chosen = [c for c in group if c["ranks"] == ranks]
            if chosen:
                yield mean_row([ranks, name], chosen)


def lost_rows(cells):
    for c in cells:
        if c["lost"]:
            yield [c["ranks"], c["collective"], size_text(c["size"]), "in" if c["inplace"] else "out", c["placement"],
                   c["hop"], c["algorithm"] or "", f"{c['tutti_us']:.4g}", c["best_peer"], f"{c['best_us']:.4g}",
                   f"{c['ratio']:.2f} [{c['low']:.2f}, {c['high']:.2f}]"]


def contender_lines(runs):
    """Who was missing, and who failed in which part."""
    lines = {f"{m['name']} is missing: {m['why']}" for run in runs.values() for m in run["config"]["missing"]}
    for name, run in runs.items():
        lines |= {f"{c['name']}: {c['failed']} of {c['blocks']} jobs failed in {name}: {c['failure']}"
                  for c in run["config"]["contenders"] if c["failed"]}
    return sorted(lines)


def text_of(runs):
    cells = [cell for run in runs.values() for cell in run["comparison"] if cell["counted"]]
    config = next(iter(runs.values()))["config"]
    minutes = sum(run["config"]["seconds"] for run in runs.values()) / 60
    what = ["ratio", "times as fast", "lost", "cells", "roofline, small", "roofline, large"]
    lost = list(lost_rows(cells))
    lines = ["# Tutti against others", "", "Written by `make bench`; docs/bench.md says how it is measured. Parts: "
             + ", ".join(f"[{name}]({name}.md)" for name in runs) + ".", "",
             f"{config.get('cpu', 'unknown CPU')}, {config.get('cpus', '?')} CPUs; {minutes:.0f} minutes in all.", "",
             "Ratio: geometric mean of Tutti's time over that of the best peer of each cell; below 1 Tutti is faster. "
             "Roofline: geometric mean of the bound over Tutti's time, for sizes up to 4K (cache-line hops) and from 1M "
             "(bandwidth).", "", "## Geometric means", ""]
    lines += [*table(["ranks", "collective", "buffers", "hop", *what], mean_rows(cells)), "", "## In all", "",
              "The six: " + ", ".join(MAIN) + ".", "", *table(["ranks", "", *what], overall_rows(cells)), ""]
    if contender_lines(runs):
        lines += ["## Contenders that could not be measured", "", *(f"- {line}" for line in contender_lines(runs)), ""]
    lines += ["## Cells lost", "", "The interval of the ratio lies wholly above 1.", ""]
    lines += table(["ranks", "collective", "size", "place", "buffers", "hop", "algo", "Tutti (us)", "best peer",
                    "its (us)", "ratio"], lost) if lost else ["None."]
    return "\n".join([*lines, "", f"{len(lost)} of {len(cells)} cells lost.", ""])


def main():
    folder = Path(sys.argv[1])
    runs = {}
    for name in sys.argv[2:]:
        file = folder / f"{name}.json"
        run = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"comparison": []}
        if run["comparison"]:
            runs[name] = run
    if not runs:
        print(f"bench_summary: nothing was compared: no cell in {folder}", file=sys.stderr)
        return 1
    text = text_of(runs)
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written: {folder}/comparison.md, and .json, .md and .svg of {', '.join(runs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
