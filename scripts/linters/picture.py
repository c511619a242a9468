#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws docs/architecture.svg from the includes of src/, and checks what docs/architecture.md says of the source.

    picture.py [--check]

Each folder directly in src/ is a box with the folders in it; rows are the layers of layers.py. An arrow says that files
of the upper one include headers of the lower one; an arrow that follows from others is left out. --check writes
nothing. It fails if the picture is out of date, if the page's table of folders lacks a folder or names one too many, or
if the page names a file that does not exist or a function that its file does not define.
"""
import re
import sys
from collections import defaultdict
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from layers import INCLUDE, LAYERS, find  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "architecture.svg"
WIDTH, ROW, BOX, GAP, SIDE = 960, 104, 64, 24, 16
ROW_OF_TABLE = re.compile(r"^\| `src/([\w/]+)/` \|", re.M)
STEP = re.compile(r"`(src/[\w/]+\.[ch])(?:: (\w+))?`")  # of a walk: file and function


def folders():
    """The folders of src/ that hold sources, as names below src/."""
    return sorted({str(path.parent.relative_to(SRC)) for path in SRC.rglob("*.[ch]*")})


def arrows():
    """(upper folder, lower folder) for every pair of folders with an include, without those that follow from others."""
    uses = defaultdict(set)
    for source in SRC.rglob("*.[ch]*"):
        for line in source.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            target = find(source, match.group(1), SRC) if match else None
            if target:
                upper, lower = (path.relative_to(SRC).parts[0] for path in (source, target))
                if upper != lower:
                    uses[upper].add(lower)

    def reaches(start, end):
        return any(step == end or reaches(step, end) for step in uses[start])

    return sorted((upper, lower) for upper in list(uses) for lower in uses[upper]
                  if not any(reaches(other, lower) for other in uses[upper] if other != lower))


def places():
    """The rectangle (x, y, width) of each folder: one row a layer, the highest layer on top."""
    found = {}
    for row, layer in enumerate(reversed(LAYERS)):
        width = (WIDTH - 2 * SIDE - GAP * (len(layer) - 1)) / len(layer)
        for column, folder in enumerate(sorted(layer)):
            found[folder] = (SIDE + column * (width + GAP), SIDE + row * ROW, width)
    return found


def draw():
    place = places()
    height = 2 * SIDE + (len(LAYERS) - 1) * ROW + BOX
    inside = defaultdict(list)
    for name in folders():
        folder, _, rest = name.partition("/")
        if rest and "/" not in rest:
            inside[folder].append(rest)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
             "<title>The folders of src/: an arrow points to what a folder includes</title>",
             '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
             'orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    pairs = arrows()
    for upper, lower in pairs:
        (x1, y1, w1), (x2, y2, w2) = place[upper], place[lower]
        low, high = max(x1, x2), min(x1 + w1, x2 + w2)
        # Straight down where the boxes overlap; arrows that pass a row between are moved aside.
        start = end = (low + high) / 2 if low < high else None
        if start is None:
            start, end = x1 + w1 / 2, x2 + w2 / 2
        lines.append(f'<line x1="{start:.0f}" y1="{y1 + BOX}" x2="{end:.0f}" y2="{y2}" stroke="#555" '
                     'stroke-width="1.5" marker-end="url(#end)"/>')
    for folder, (x, y, width) in sorted(place.items()):
        middle = x + width / 2
        lines.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BOX}" rx="6" fill="#eef3fa" '
                     'stroke="#4a6fa5"/>')
        lines.append(f'<text x="{middle:.0f}" y="{y + (27 if inside[folder] else 38)}" text-anchor="middle" '
                     f'font-size="17" font-weight="bold">{escape(folder)}</text>')
        if inside[folder]:
            lines.append(f'<text x="{middle:.0f}" y="{y + 49}" text-anchor="middle" font-size="13" fill="#333">'
                         f'{escape(" · ".join(inside[folder]))}</text>')
    return "\n".join(lines) + "\n</svg>\n"


def check_steps(page):
    """What is wrong with the files and functions that the page names."""
    for name, function in STEP.findall(page):
        path = ROOT / name
        if not path.is_file():
            yield f"there is no file {name}"
        elif function and not re.search(rf"^[A-Za-z_][\w \t\n*()]*?\b{function}\(", path.read_text(encoding="utf-8"), re.M):
            yield f"{name} has no function {function}"


def main():
    picture = draw()
    if sys.argv[1:] != ["--check"]:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    faults = []
    if not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != picture:
        faults.append(f"{PICTURE.relative_to(ROOT)} is out of date: run {Path(__file__).resolve().relative_to(ROOT)}")
    page = PAGE.read_text(encoding="utf-8")
    listed = ROW_OF_TABLE.findall(page)
    wrong = [f"the table of folders lacks `src/{name}/`" for name in sorted(set(folders()) - set(listed))]
    wrong += [f"there is no folder src/{name}/" for name in sorted(set(listed) - set(folders()))]
    faults += [f"{PAGE.relative_to(ROOT)}: {text}" for text in wrong + list(check_steps(page))]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
