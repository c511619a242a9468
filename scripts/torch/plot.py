#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws what scripts/bench_torch has measured: plot.py RESULTS.

Reads RESULTS/torch-N-ranks.csv and writes RESULTS/torch.svg: a panel of all_reduce for each number of ranks, with tutti and the
gloo whose event thread stands best in each cell.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results.plot import picture, read_lines  # noqa: E402

COLLECTIVE = "all_reduce"


def best_gloo(lines):
    """The two lines of a panel: gloo's is the lowest one of its placements, size by size."""
    placements = [dict(line) for name, line in lines.items() if name.startswith("gloo")]
    return {"Tutti": lines["Tutti"],
            "gloo": [(size, min(line[size] for line in placements if size in line)) for size, _ in lines["Tutti"]]}


def main():
    folder = Path(sys.argv[1])
    found = [read_lines(path) for path in folder.glob("torch-*-ranks.csv") if "steps" not in path.name]
    panels = {f"{COLLECTIVE}, {ranks} ranks": best_gloo(lines[COLLECTIVE])
              for ranks, lines in sorted(found, key=lambda item: int(item[0]))}
    title = "torch.distributed on one host: latency against size (median; lower is better)"
    (folder / "torch.svg").write_text(picture(title, panels), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
