# SPDX-License-Identifier: BSD-3-Clause
"""What bench_vs.py prints of a comparison: a table for each collective, then means and lost cells."""
import math
import statistics


def time_text(us):
    return f"{us / 1000:.0f}k" if us >= 1e6 else f"{us:.{3 if us < 1 else 2 if us < 10 else 1 if us < 100 else 0}f}"


def ratio_text(ratio):
    return f"{ratio:.{4 if ratio < 0.1 else 2 if ratio < 10 else 1}f}"


def peer_text(cell, contender):
    entry = cell.entries.get(contender.name)
    if entry:
        other = entry.hop[0] if entry.hop != cell.hop else ""
        return f"{time_text(entry.us)} {ratio_text(entry.ratio):>6}{'!' if entry.wins else '?' if entry.once else ''}{other}".ljust(17)
    return "failed " if contender.jobs and contender.failed == contender.jobs else "- "


def mean_text(entries):
    if not entries:
        return "nothing to compare with"
    mean = math.exp(statistics.fmean(math.log(entry.ratio) for entry in entries))
    return (f"geometric mean of the ratios {mean:.3f} (Tutti is {1 / mean:.2f} times as fast); "
            f"{sum(entry.wins for entry in entries)} of {len(entries)} cells lost")


def print_tables(c):
    print("# time: median of the repetitions' medians. ratio: Tutti's time over the contender's, paired within each job; below 1\n"
          "#   Tutti is faster. interval: from the lowest to the highest of the repetitions' 95 % intervals; '!': it lies wholly\n"
          "#   above 1, the cell is lost. A letter: the contender's class of hop, where it is another one")
    present = [contender for contender in c.options.contenders.values() if not contender.missing]
    last = None
    for cell in c.cells:
        if cell.collective != last:
            last = cell.collective
            print(f"#\n# {last}\n#{'size':>10} {'place':>5} {'hop':>7} {'algo':>9} {'tutti':>9}",
                  *(f"{contender.name:>17}" for contender in present), " best peer: ratio, interval")
        best = cell.best and cell.entries[cell.best]
        print(f" {cell.size:>10} {cell.place:>5} {cell.hop:>7} {cell.algorithm or '-':>9} "
              f"{time_text(cell.tutti_us):>9}", *(f"{peer_text(cell, contender):>17}" for contender in present),
              f" {cell.best}: {ratio_text(best.ratio)}{f' [{ratio_text(best.low)}, {ratio_text(best.high)}]' if best.high else ''}"
              f"{' !' if cell.lost else ''}" if best else "")
    counted = [cell for cell in c.cells if cell.best]
    print("#\n# To each contender:")
    for name, contender in c.options.contenders.items():
        if contender.missing:
            print(f"# {name:24} missing: {contender.missing}")
            continue
        entries = [cell.entries[name] for cell in counted if name in cell.entries and cell.entries[name].ratio > 0]
        print(f"# {name:24} {mean_text(entries)}; version {contender.version}")
        if contender.failed:
            print(f"# {'':24} {contender.failed} of {contender.jobs} jobs failed, the last because {contender.failure}")
        if contender.wrong:
            print(f"# {'':24} {contender.wrong} elements of its results were wrong; such rows are left out")
    print("#\n# To the best peer of each cell:")
    for name in (*dict.fromkeys(cell.collective for cell in counted), "all"):
        entries = [cell.entries[cell.best] for cell in counted if name in (cell.collective, "all")]
        if entries:
            print(f"# {name:16} {mean_text(entries)}")
    if c.wrong:
        print(f"# Wrong elements of Tutti's results: {c.wrong} FAILED")
    once = sum(cell.lost_once for cell in counted)
    print(f"# Cells: {len(counted)}, lost: {sum(cell.lost for cell in counted)}"
          f"{f'; lost at first, but not again: {once}' if once else ''}")
