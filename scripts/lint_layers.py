#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails when a file of src/ includes upward against the layers.

    lint_layers.py [ROOT]

A file includes only its own room and rooms of lower layers; rooms of the same layer do not know one another, and
neither do backends. Nothing in src/ includes tools, tests or examples.
"""
import re
import sys
from pathlib import Path

# From the bottom to the top. Whoever adds a room says here where it stands.
LAYERS = [
    {"base"},
    {"store", "kernels", "tensor", "diag"},
    {"device"},  # packs strided tensors by what tensor knows of them
    {"engine"},
    {"backends"},
    {"core"},
    {"api"},
]
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def find(source, name, src):
    """The file that an include means, or None: first beside the source, then from src/, as the compiler looks."""
    for candidate in (source.parent / name, src / name):
        if candidate.is_file():
            return candidate.resolve()
    return None


def complaint(source, target, src):
    """What is wrong with `source` including `target`, or None."""
    if not target.is_relative_to(src):
        return "lies outside src/"
    own, other = (path.relative_to(src).parts for path in (source, target))
    if len(other) < 2 or other[0] not in HEIGHT:
        return "lies in no known room (add it to LAYERS in scripts/lint_layers.py)"
    if own[0] != other[0]:
        if HEIGHT[own[0]] < HEIGHT[other[0]]:
            return f"goes upward: {own[0]} is below {other[0]}"
        if HEIGHT[own[0]] == HEIGHT[other[0]]:
            return f"goes sideways: {own[0]} and {other[0]} are in the same layer"
    elif own[0] == "backends" and len(other) > 2 and own[1] != other[1]:
        return f"goes sideways: backend {own[1]} and backend {other[1]} do not know one another"
    return None


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    src = root / "src"
    faults = 0
    sources = sorted(path for path in src.rglob("*.[ch]"))
    for source in sources:
        room = source.relative_to(src).parts[0]
        if room not in HEIGHT:
            print(f"{source.relative_to(root)}: lies in no known room (add it to LAYERS in scripts/lint_layers.py)")
            faults += 1
            continue
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = find(source, match.group(1), src)
            fault = complaint(source, target, src) if target else "is not found beside the file or from src/"
            if fault:
                print(f'{source.relative_to(root)}:{number}: include "{match.group(1)}" {fault}')
                faults += 1
    if not sources:
        print(f"{src}: no sources")
        faults += 1
    return 1 if faults else 0


sys.exit(main())
