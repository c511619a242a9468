#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails when files of src/ depend on one another upward or in a circle.

    layers.py [ROOT]

A file includes only its own folder and folders of lower layers; folders of the same layer do not know one another, and
neither do backends. Nothing in src/ includes tools, tests or examples.

NAME.c and NAME.h count as one file. It depends on what it includes, and on every file that defines a tti_ function or
variable that it uses, whatever header declares that. No file depends on itself by way of others.

A file that a comment names exists: beside the file with the comment, else in the same part of the project, else
anywhere. The first of these that has files of that name has exactly one; otherwise the comment names the folder, too.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

# From the bottom to the top. A new folder is given its place here.
LAYERS = [
    {"base"},
    {"kernels"},
    {"store", "tensor", "diag"},
    {"device"},  # packs strided tensors by what tensor knows of them
    {"engine"},
    {"backends"},
    {"core"},
    {"api"},
]
HEIGHT = {folder: height for height, folders in enumerate(LAYERS) for folder in folders}
UNKNOWN = "lies in no known folder (add it to LAYERS in scripts/linters/layers.py)"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
# At the beginning of a line: a function with its body, or a variable.
DEFINITION = re.compile(r"^(?!static\b|typedef\b|extern\b)[A-Za-z_][\w \t\n*]*?\b(tti_\w+)"
                        r"(?:\s*\([^;{}]*\)\s*(?=\{)|(?:\[[^\]\n]*\])*\s*[=;])", re.M)
NAME = re.compile(r"\btti_\w+")

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(/\*.*?\*/|//[^\n]*)', re.S)
FILE_IN_COMMENT = re.compile(r"(?<![\w./<>-])([\w-]+/)*[\w-]+\.(?:c|h|cc)\b")
# Files of other projects that comments name.
FOREIGN = {"cuda.h", "hip_runtime_api.h", "nccl.h", "reduce_kernel.h"}


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
        return UNKNOWN
    if own[0] != other[0]:
        if HEIGHT[own[0]] < HEIGHT[other[0]]:
            return f"goes upward: {own[0]} is below {other[0]}"
        if HEIGHT[own[0]] == HEIGHT[other[0]]:
            return f"goes sideways: {own[0]} and {other[0]} are in the same layer"
    elif own[0] == "backends" and len(other) > 2 and own[1] != other[1]:
        return f"goes sideways: backend {own[1]} and backend {other[1]} do not know one another"
    return None


def check_layers(sources, root, src):
    """The number of faults; the files that each file includes."""
    faults = 0
    includes = defaultdict(set)
    for source in sources:
        folder = source.relative_to(src).parts[0]
        if folder not in HEIGHT:
            print(f"{source.relative_to(root)}: {UNKNOWN}")
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
            elif target.with_suffix("") != source.with_suffix(""):
                includes[source].add(target)
    return faults, includes


def dependencies(sources, includes):
    """For each file without its suffix: the files it depends on, and why."""
    code = {source: NOT_CODE.sub(" ", source.read_text(encoding="utf-8")) for source in sources}
    definers = defaultdict(set)
    for source, text in code.items():
        if source.suffix == ".c":
            for name in DEFINITION.findall(text):
                definers[name].add(source.with_suffix(""))
    reasons = defaultdict(lambda: defaultdict(list))
    for source, text in code.items():
        stem = source.with_suffix("")
        for target in includes[source]:
            reasons[stem][target.with_suffix("")].append("its header")
        if source.suffix == ".c":
            for name in sorted(set(NAME.findall(text))):
                # A name that two plug-in files define, or two instruction sets, means the one that is linked.
                if len(definers[name]) == 1 and stem not in definers[name]:
                    reasons[stem][next(iter(definers[name]))].append(name)
    return reasons


def circles(reasons):
    """The strongly connected components with more than one file (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in reasons[node] if node in reasons else ():
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(stack[at:])
            del stack[at:]

    for node in sorted(reasons):
        if node not in index:
            visit(node)
    return found


def check_circles(reasons, src):
    found = circles(reasons)
    for circle in found:
        print(f"src/: {len(circle)} files depend on one another in a circle:")
        for node in sorted(circle):
            for other in sorted(set(reasons[node]) & set(circle)):
                print(f"  {node.relative_to(src)} -> {other.relative_to(src)}: {', '.join(reasons[node][other])}")
    return len(found)


def named_file_fault(source, name, files):
    """What is wrong with `name` in a comment of `source`, or None."""
    found = [path for path in files[name.rsplit("/", 1)[-1]] if ("/" + path.as_posix()).endswith("/" + name)]
    depth = 3 if source.parts[1] == "backends" else 2
    for near in ([path for path in found if path.parent == source.parent],
                 [path for path in found if path.parts[:depth] == source.parts[:depth]], found):
        if near:
            return None if len(near) == 1 else "may be " + " or ".join(map(str, near)) + ": write the folder"
    return "does not exist"


def check_named_files(root):
    folders = [root / name for name in ("bench", "examples", "include", "src", "tests", "tools")]
    paths = [path.relative_to(root) for folder in folders for path in sorted(folder.rglob("*"))
             if path.suffix in (".c", ".h", ".cc")]
    files = defaultdict(list)
    for path in paths:
        files[path.name].append(path)
    faults = 0
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        for comment in COMMENT.finditer(text):
            for named in FILE_IN_COMMENT.finditer(comment.group(1) or ""):
                fault = named.group() not in FOREIGN and named_file_fault(path, named.group(), files)
                if fault:
                    line = text.count("\n", 0, comment.start(1) + named.start()) + 1
                    print(f"{path}:{line}: {named.group()} in a comment {fault}")
                    faults += 1
    return faults


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    src = root / "src"
    sys.setrecursionlimit(10000)
    sources = sorted(path for name in ("*.[ch]", "*.cc") for path in src.rglob(name))
    faults, includes = check_layers(sources, root, src)
    faults += check_circles(dependencies(sources, includes), src)
    faults += check_named_files(root)
    if not sources:
        print(f"{src}: no sources")
        faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
