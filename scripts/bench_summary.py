#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up the comparisons of scripts/bench: bench_summary.py RESULTS PART...

Reads RESULTS/PART.csv of each part, which bench_vs.py has written, and prints geometric means for each number of
ranks, collective, placement and class of hop, what they are over all, and every cell that is lost; writes the same to
RESULTS/comparison.md.
"""
import csv
import math
import sys
from pathlib import Path

MAIN = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier")
REDUCTIONS = ("all_reduce", "reduce_scatter")
SMALL, MIDDLE, LARGE = 4 << 10, 64 << 10, 1 << 20


def number(text):
    return float(text) if text else None


def read_record(path):
    """The settings of a record, and its cells: the lines of Tutti that have a peer, with the peer's time."""
    lines = path.read_text(encoding="utf-8").splitlines()
    settings = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("# ")))

    def place(row):
        return tuple(row[name] for name in ("collective", "ranks", "size", "place", "buffers", "hop"))

    times = {(place(row), row["contender"]): float(row["p50_us"]) for row in rows}
    cells = [{"collective": row["collective"], "ranks": int(row["ranks"]), "size": int(row["size"]), "place": row["place"],
              "placement": row["buffers"], "hop": row["hop"], "algorithm": row["algorithm"],
              "bound_us": number(row["bound_us"]), "tutti_us": float(row["p50_us"]), "best_peer": row["best_peer"],
              "best_us": times[place(row), row["best_peer"]], "ratio": float(row["ratio"]), "low": float(row["low"]),
              "high": float(row["high"]), "lost": float(row["low"]) > 1}
             for row in rows if row["contender"] == "tutti" and row["best_peer"] and row["counted"] == "1"]
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
            yield [c["ranks"], c["collective"], size_text(c["size"]), c["place"], c["placement"],
                   c["hop"], c["algorithm"], f"{c['tutti_us']:.4g}", c["best_peer"], f"{c['best_us']:.4g}",
                   f"{c['ratio']:.2f} [{c['low']:.2f}, {c['high']:.2f}]"]


def contender_lines(records):
    """Contenders that were missing or failed, and in which part."""
    for name, (settings, _) in records.items():
        for key, text in settings.items():
            what, _, contender = key.partition(" ")
            if what == "missing":
                yield f"{contender} is missing: {text}"
            elif what == "failed":
                yield f"{contender}: failed in {name}: {text}"


def text_of(records):
    cells = [cell for _, found in records.values() for cell in found]
    first = next(iter(records.values()))[0]
    minutes = sum(float(settings["seconds"]) for settings, _ in records.values()) / 60
    what = ["ratio", "times as fast", "lost", "cells", "roofline, small", "roofline, large"]
    lost = list(lost_rows(cells))
    lines = ["# Tutti against others", "", "Written by `make bench`; docs/bench.md says how it is measured. Parts: "
             + ", ".join(f"[{name}]({name}.csv)" for name in records)
             + "; each file has a line for each contender in each cell.", "",
             f"{first['cpu']}, {first['cpus']} CPUs; {minutes:.0f} minutes in all.", "",
             "Ratio: geometric mean of Tutti's time over that of the best peer of each cell; below 1 Tutti is faster. "
             "Roofline: geometric mean of the bound over Tutti's time, for sizes up to 4K (cache-line hops) and from 1M "
             "(bandwidth).", "", "## Geometric means", ""]
    lines += [*table(["ranks", "collective", "buffers", "hop", *what], mean_rows(cells)), "", "## In all", "",
              "The six: " + ", ".join(MAIN) + ".", "", *table(["ranks", "", *what], overall_rows(cells)), ""]
    unmeasured = sorted(set(contender_lines(records)))
    if unmeasured:
        lines += ["## Contenders that could not be measured", "", *(f"- {line}" for line in unmeasured), ""]
    lines += ["## Cells lost", "", "The interval of the ratio lies wholly above 1.", ""]
    lines += table(["ranks", "collective", "size", "place", "buffers", "hop", "algo", "Tutti (us)", "best peer",
                    "its (us)", "ratio"], lost) if lost else ["None."]
    return "\n".join([*lines, "", f"{len(lost)} of {len(cells)} cells lost.", ""])


def main():
    folder = Path(sys.argv[1])
    found = {name: read_record(folder / f"{name}.csv") for name in sys.argv[2:]}
    records = {name: record for name, record in found.items() if record[1]}
    if not records:
        print(f"bench_summary: nothing was compared: no cell in {folder}", file=sys.stderr)
        return 1
    text = text_of(records)
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written: {folder}/comparison.md from the .csv of {', '.join(records)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
