#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the comparisons of scripts/bench: plot.py RESULTS PART...

Reads RESULTS/PART.csv of each part and writes latency against size as RESULTS/PART.svg: a panel for each collective with
logarithmic axes. bench_vs.py's records have a line for each cell: of a library's settings the fastest counts, size by size. The
records of scripts/torch have a line for each contender. The lines are those of private buffers, out of place unless a contender
has only the other form; Tutti has a second line for the heap. The picture needs nothing else, and adapts to a dark page.
"""
import csv
import math
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from results import record as bench_record  # noqa: E402

MARGIN, LEFT, TOP, BOTTOM = 16, 46, 26, 32  # in pixels of the viewBox; y grows downwards
LETTER = 6.1  # width of one at 11 px, about
LABEL_APART, LEGEND_LINE = 10.5, 18
COLOURS = (("#cf222e", "#0969da", "#9a6700", "#1a7f37", "#8250df"), ("#ff7b72", "#58a6ff", "#e3b341", "#3fb950", "#bc8cff"))  # light, dark
LIBRARIES = ("openmpi", "mpich", "gloo", "impi")
NOT_DRAWN = ("gloo/spin",)  # not the library at its best
DASHES = ("", "6 3", "2 2.5", "9 3 2 3")
STYLE = """text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:11px;fill:#24292f}
.title{font-size:15px;font-weight:600}.panel{font-size:12px;font-weight:600}.tick{font-size:10px;fill:#57606a}.name{font-size:9px}
.end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:#d0d7de;stroke-width:0.6}
.line{fill:none;stroke-width:1.4;stroke-linejoin:round}.thick{stroke-width:2.6}.dots{stroke-width:4.8;stroke-linecap:round}"""
DARK = "text{fill:#e6edf3}.tick{fill:#9da7b1}.grid{stroke:#3d444d}"


class Style:
    """How a contender's lines look: a colour for each library, dashes for its settings."""

    def __init__(self, name, colour, dash):
        self.name, self.colour, self.thick = name, colour, colour == 0
        self.dash = f" d{dash}" if dash else ""

    def path(self, data):
        thick = " thick" if self.thick else ""
        return f'<path class="line k{self.colour}{thick}{self.dash}" d="{data}"/>'


class Area:
    """The axes of a panel."""

    def __init__(self, left, top, width, height, lines):
        self.left, self.top, self.width, self.height = left, top, width, height
        points = [point for line in lines.values() for point in line]
        sizes = [math.log2(size) if size else 0 for size, _ in points]
        times = [math.log10(us) for _, us in points]
        self.first, self.last = min(sizes), max(sizes)
        self.low = math.floor(min(times) + 1e-9)
        self.high = max(math.ceil(max(times) - 1e-9), self.low + 1)

    def x(self, log_size):
        return self.left + (log_size - self.first) / (self.last - self.first) * self.width

    def y(self, log_us):
        return self.top + (self.high - log_us) / (self.high - self.low) * self.height


def read_cells(path):
    """Of bench_vs.py's record."""
    settings, cells = bench_record.read(path)
    panels = {}
    for place in ("out", "in"):
        for cell in (cell for cell in cells if cell.place == place):
            times = {"Tutti": cell.tutti_us}
            for name in cell.entries:
                line = "Tutti, heap" if name == bench_record.HEAP else name.split("/")[0]
                if name not in NOT_DRAWN:
                    times[line] = min(cell.time_of(name), times.get(line, math.inf))
            for line, us in times.items():
                panels.setdefault(cell.collective, {}).setdefault(line, {}).setdefault(cell.size, us)
    return settings.get("ranks", "0"), {collective: {name: sorted(line.items()) for name, line in lines.items()}
                                        for collective, lines in panels.items()}


def read_lines(path):
    """The number of ranks, and {collective: {name of a line: [(size, us)]}} in the order of the record."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("# ")))
    if rows and "contender" not in rows[0]:
        return read_cells(path)
    forms = {}
    for row in rows:
        name = row["contender"]
        if name == "tutti":
            name = "Tutti" if row["buffers"] == "private" else "Tutti, heap"
        elif row["buffers"] != "private":
            continue
        line = forms.setdefault(row["collective"], {}).setdefault(name, {})
        line.setdefault(row["place"], []).append((int(row["size"]), float(row["p50_us"])))
    panels = {collective: {name: sorted(line.get("out") or line["in"]) for name, line in lines.items()}
              for collective, lines in forms.items()}
    return rows[0]["ranks"] if rows else "0", panels


def styles_of(panels):
    """{name: Style}, Tutti first, the others in the order of the libraries."""
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    styles = {name: Style(name, 0, dash) for dash, name in enumerate(("Tutti", "Tutti, heap")) if name in names}
    for i, library in enumerate(LIBRARIES):
        found = [name for name in names if name.split("/")[0].rstrip("5") == library]
        styles.update({name: Style(name, i + 1, dash % len(DASHES)) for dash, name in enumerate(found)})
    return styles


def label(x, y, attributes, text):
    return f'<text x="{x:.0f}" y="{y:.0f}"{attributes}>{escape(text)}</text>'


def time_text(us):
    for unit, least in (("s", 1e6), ("ms", 1e3), ("us", 1)):
        if us >= least:
            return f"{us / least:g} {unit}"
    return f"{us * 1e3:g} ns"


def size_text(exponent):
    return f"{1 << exponent % 10}{('', 'K', 'M', 'G', 'T')[exponent // 10]}"


def legend(styles, width, top):
    """Its elements, and how high it is."""
    x, y, out = MARGIN, top, []
    for style in styles.values():
        wide = 30 + LETTER * len(style.name) + 14
        if x > MARGIN and x + wide > width - MARGIN:
            x, y = MARGIN, y + LEGEND_LINE
        out += [style.path(f"M{x:.1f} {y - 4:.1f}h24") + label(x + 29, y, "", style.name)]
        x += wide
    return out, y - top + LEGEND_LINE


def axes(area):
    grid, out = "", []
    decades = area.high - area.low
    for i in range(decades + 1):
        y = area.y(area.low + i)
        grid += f"M{area.left:.1f} {y:.1f}h{area.width:.1f}"
        if decades <= 6 or i % 2 == 0:
            out.append(label(area.left - 5, y + 3.5, ' class="tick end"', time_text(10.0 ** (area.low + i))))
    first, last = math.ceil(area.first - 1e-9), math.floor(area.last + 1e-9)
    for exponent in range(first, last + 1, (last - first) // 5 + 1):
        x = area.x(exponent)
        grid += f"M{x:.1f} {area.top:.1f}v{area.height:.1f}"
        out.append(label(x, area.top + area.height + 14, ' class="tick mid"', size_text(exponent)))
    return [f'<path class="grid" d="{grid}"/>', *out]


def end_labels(area, ends):
    """Names beside the ends of the lines, moved apart where they would overlap; none if they do not fit."""
    if LABEL_APART * len(ends) > area.height:
        return []
    ends.sort(key=lambda end: end[0])
    heights = []
    for wanted, _ in ends:
        heights.append(max(wanted, heights[-1] + LABEL_APART if heights else area.top))
    most = area.top + area.height + 4
    for i in range(len(ends) - 1, -1, -1):
        heights[i] = min(heights[i], most)
        most = heights[i] - LABEL_APART
    return [label(area.left + area.width + 6, y, f' class="name f{style.colour}"', style.name)
            for y, (_, style) in zip(heights, ends)]


def draw_lines(area, lines, styles):
    out, ends = axes(area), []
    for name, style in reversed(styles.items()):  # the first one is drawn last, above the others
        places = [(round(area.x(math.log2(size))), round(area.y(math.log10(us)))) for size, us in lines.get(name, ())]
        if places:
            steps = " ".join(f"{x - x0} {y - y0}" for (x0, y0), (x, y) in zip(places, places[1:]))
            out.append(style.path(f"M{places[0][0]} {places[0][1]}l{steps}"))
            if style.thick and not style.dash:
                dots = "".join(f"M{x} {y}h0" for x, y in places)
                out.append(f'<path class="dots k{style.colour}" d="{dots}"/>')
            ends.append((places[-1][1] + 3, style))
    return out + end_labels(area, ends)


def draw_bars(area, lines, styles, right):
    """One size only, as a barrier has it: a bar for each contender, longer by the logarithm of its time."""
    out, names, values = [], 74, 52
    step = min(20, area.height / len(lines))
    width = right - area.left - names - values + LEFT
    x, low = area.left - LEFT + names, area.low - 0.5  # the shortest bar is one, too
    shown = [style for name, style in styles.items() if name in lines]
    for i, style in enumerate(shown):
        us = lines[style.name][0][1]
        y = area.top + i * step
        length = width * max(0.02, (math.log10(us) - low) / (area.high - low))
        faint = ' fill-opacity="0.6"' if style.dash else ""
        out += [label(x - 5, y + step / 2 + 3.5, ' class="tick end"', style.name),
                f'<rect class="f{style.colour}" x="{x:.1f}" y="{y + step * 0.15:.1f}" width="{length:.1f}" '
                f'height="{step * 0.7:.1f}" rx="2"{faint}/>',
                label(x + length + 5, y + step / 2 + 3.5, ' class="tick"', f"{us:.3g} us")]
    return out


def dash_rules():
    return "".join(f".d{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(DASHES) if dash)


def colour_rules(dark):
    return "".join(f".k{i}{{stroke:{colour}}}.f{i}{{fill:{colour}}}" for i, colour in enumerate(COLOURS[dark]))


def picture(title, panels):
    styles = styles_of(panels)
    columns = min(3, max(1, len(panels)))
    total = 760 if columns == 1 else 1000
    panel_width, panel_height = (total - 2 * MARGIN) / columns, (420, 320, 260)[columns - 1]
    names_width = min(110, 12 + LETTER * 0.82 * max((len(name) for name in styles), default=0))
    entries, legend_height = legend(styles, total, 44)
    head = 34 + legend_height + 8
    height = head + -(-len(panels) // columns) * panel_height + MARGIN / 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height:.0f}" width="{total}" height="{height:.0f}" '
           f'role="img">', f"<title>{escape(title)}</title>", "<style>", STYLE, dash_rules() + colour_rules(False),
           f"@media (prefers-color-scheme: dark){{{DARK}{colour_rules(True)}}}", "</style>",
           label(MARGIN, 22, ' class="title"', title), *entries]
    for i, (collective, lines) in enumerate(panels.items()):
        left, top = MARGIN + i % columns * panel_width, head + i // columns * panel_height
        area = Area(left + LEFT, top + TOP, panel_width - LEFT - names_width - 8, panel_height - TOP - BOTTOM, lines)
        out.append(label(area.left, area.top - 9, ' class="panel"', collective))
        out += draw_lines(area, lines, styles) if area.last > area.first else \
            draw_bars(area, lines, styles, left + panel_width - LEFT)
    return "\n".join([*out, "</svg>", ""])


def main():
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        ranks, panels = read_lines(folder / f"{name}.csv")
        title = f"Latency against size, {ranks} ranks on one host (median; lower is better)"
        (folder / f"{name}.svg").write_text(picture(title, panels), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
