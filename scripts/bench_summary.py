#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up the comparisons of scripts/bench: bench_summary.py RESULTS SECONDS

Reads the JSON of each comparison in RESULTS, prints one table of all and every cell that is lost, and writes both to
RESULTS/comparison.md.
"""
import json
import sys
from pathlib import Path


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def size_text(size):
    for unit in ("", "K", "M"):
        if size < 1024 or size % 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}G"


def summary_rows(runs):
    for run in runs:
        ranks = run["config"]["ranks"]
        if run["config"]["min_bytes"] == run["config"]["max_bytes"]:
            ranks = f"{ranks}, {size_text(run['config']['min_bytes'])}"
        for row in run["summary"]:
            yield [ranks, row["collective"], row["placement"], f"{row['geometric_mean']:.3f}",
                   f"{1 / row['geometric_mean']:.2f}", row["lost"], row["cells"]]
        if run["geometric_mean"]:
            yield [ranks, "**all**", "both", f"{run['geometric_mean']:.3f}", f"{1 / run['geometric_mean']:.2f}",
                   run["lost"], run["cells"]]


def lost_rows(runs):
    for run in runs:
        for cell in run["comparison"]:
            if cell["lost"]:
                yield [cell["ranks"], cell["collective"], size_text(cell["size"]), "in" if cell["inplace"] else "out",
                       cell["placement"], cell["hop"], f"{cell['tutti_us']:.4g}", cell["best_peer"],
                       f"{cell['best_us']:.4g}", f"{cell['ratio']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"]


def missing(runs):
    return sorted({f"{m['name']}: {m['why']}" for run in runs for m in run["config"]["missing"]})


def main():
    folder, seconds = Path(sys.argv[1]), int(sys.argv[2])
    files = [folder / f"{name}.json" for name in ("2-ranks", "2-ranks-large", "4-ranks", "8-ranks")]
    files = [file for file in files if file.is_file() and file.stat().st_size > 0]
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if not runs:
        print(f"bench_summary: nothing was measured: no comparison in {folder}", file=sys.stderr)
        return 1
    lost = list(lost_rows(runs))
    lines = ["# Tutti against others", "", "Written by `make bench`; docs/bench.md says how it is measured. Details: "
             + ", ".join(f"[{file.stem}]({file.stem}.md)" for file in files) + ".",
             "", f"{runs[0]['config'].get('cpu', 'unknown CPU')}, {runs[0]['config'].get('cpus', '?')} CPUs; "
             f"{seconds // 60} minutes in all.", "",
             "Ratio: geometric mean of Tutti's time over that of the best peer of each cell; below 1 Tutti is faster.",
             "", *table(["ranks", "collective", "buffers", "ratio", "times as fast", "lost", "cells"],
                        summary_rows(runs)), ""]
    lines += ["## Cells that are lost", ""]
    lines += table(["ranks", "collective", "size", "place", "buffers", "hop", "Tutti (us)", "best peer", "its (us)",
                    "ratio"], lost) if lost else ["None."]
    lines += [""]
    if missing(runs):
        lines += ["## Missing", "", *(f"- {line}" for line in missing(runs)), ""]
    text = "\n".join(lines)
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written: {folder}/comparison.md, and .json, .md and .svg of {', '.join(f.stem for f in files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
