# SPDX-License-Identifier: BSD-3-Clause
"""The record of a comparison: how it is written, read and merged, and which peer is the best one in a cell.

A record is a CSV file. Lines `# NAME = VALUE` describe the machine and the contenders. Then comes a line for each cell: one
collective at one size in one form. Beside Tutti's time it has a field for each contender, `TIME RATIO`: the ratio is Tutti's time
over the contender's, paired within a job. A `!` behind it says that the ratio's interval lies wholly above 1; a `?` that it did
so at first, but not when the cell was measured again (bench_vs.py --confirm). A letter behind that is the first one of the hop's
class, if it is not the class of the cell.
"""
import collections
import csv

HOPS = ("near", "far", "same", "moved", "unknown")
HEAP = "tutti/heap"  # Tutti again, its buffers in the heap: no peer; the ratio is that of private buffers to it
FIXED = ("collective", "size", "place", "hop", "algorithm", "bound_us", "tutti_us")
Entry = collections.namedtuple("Entry", "us ratio wins hop low high once", defaults=(0, 0, False))  # low, high: 0 if read from a file


class Cell:
    def __init__(self, collective, size, place, hop="unknown"):
        self.key = self.collective, self.size, self.place = collective, size, place
        self.hop, self.algorithm, self.bound_us, self.tutti_us, self.entries = hop, "", 0.0, 0.0, {}

    def judge(self):
        peers = {name: entry for name, entry in self.entries.items() if name != HEAP and entry.ratio > 0}
        # Not the least time: the times of two contenders come from different jobs, while each ratio comes from one.
        self.best = max(peers, key=lambda name: (peers[name].wins, peers[name].ratio), default=None)
        self.lost = self.best is not None and peers[self.best].wins
        self.lost_once = not self.lost and any(entry.once for entry in peers.values())
        self.ratio = peers[self.best].ratio if self.best else None

    def time_of(self, name):
        """A contender's time; beside Tutti's if it was measured with another class of hop."""
        entry = self.entries[name]
        return entry.us if entry.hop == self.hop or not entry.ratio else self.tutti_us / entry.ratio

    def heap_ratio(self):
        """Tutti's time in the heap over the best peer's, or None."""
        entry = self.entries.get(HEAP)
        return self.ratio / entry.ratio if entry and entry.ratio and self.best else None


def text_of(entry, cell):
    other = entry.hop[0] if entry.hop != cell.hop else ""
    return f"{entry.us:.3g} {entry.ratio:.3g}{'!' if entry.wins else '?' if entry.once else ''}{other}"


def write(file, settings, cells):
    names = list(dict.fromkeys(name for cell in cells for name in cell.entries))
    for name, value in settings.items():
        file.write(f"# {name} = {' '.join(str(value).split())}\n")
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*FIXED, *names])
    for cell in cells:
        rows.writerow([*cell.key, cell.hop, cell.algorithm, f"{cell.bound_us:.3g}" if cell.bound_us else "",
                       f"{cell.tutti_us:.4g}",
                       *(text_of(cell.entries[name], cell) if name in cell.entries else "" for name in names)])


def entry_of(text, cell):
    us, ratio = text.split()
    hop = next((hop for hop in HOPS if hop[0] == ratio[-1]), cell.hop)
    return Entry(float(us), float(ratio.rstrip("!?nfsmu")), "!" in ratio, hop, once="?" in ratio)


def read(path):
    """Settings and judged cells of a record; nothing of a file that is empty or missing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    settings = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# "))
    cells = []
    for row in csv.DictReader(line for line in lines if not line.startswith("# ")):
        cell = Cell(row["collective"], int(row["size"]), row["place"], row["hop"])
        cell.algorithm, cell.bound_us, cell.tutti_us = row["algorithm"], float(row["bound_us"] or 0), float(row["tutti_us"])
        cell.entries = {name: entry_of(text, cell) for name, text in row.items() if name not in FIXED and text}
        cell.judge()
        cells.append(cell)
    return settings, cells


def merge(old, new):
    """The cells of both. In a cell of both, the entries of the new one count, and what is Tutti's own is of the one with more
    contenders: a job for a few of them may have run its ranks elsewhere."""
    cells = {cell.key: cell for cell in old}
    for cell in new:
        before = cells.get(cell.key, cell)
        more = before if len(before.entries) > len(cell.entries) else cell
        more.entries = before.entries | cell.entries
        cells[cell.key] = more
        more.judge()
    return list(cells.values())
