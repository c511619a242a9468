#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs clang-tidy over the sources, several at once.

    tidy.py [BUILD [FILE...]]

BUILD holds compile_commands.json (default: build). Without files: everything in src/, tools/ and examples/.

A file that has passed is not checked again: the hash of its preprocessed text, of its own text, of the rules and of the
command names an empty file in ~/.cache/tutti/tidy (below XDG_CACHE_HOME, if set). TIDY_CACHE=off checks all.

The analyzer gives up a function after a number of steps: TIDY_NODES, or else 3000, with TUTTI_TEST_ALL=1 (`make check-all`)
60000, by default of clang 225000. Most of its time goes into the longest functions: with 3000 a fresh checkout takes a
tenth of the time, still follows each path of short functions, and all other checks see everything.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti/tidy"
UNUSED_DAYS = 30


class Passed:
    """Which files have passed already, by their content."""

    def __init__(self):
        self.on = os.environ.get("TIDY_CACHE") != "off"
        if self.on:
            CACHE.mkdir(parents=True, exist_ok=True)
            version = subprocess.run(["clang-tidy-14", "--version"], capture_output=True, check=True).stdout
            self.rules = version + (ROOT / ".clang-tidy").read_bytes() + (ROOT / "scripts/linters/tidy.h").read_bytes()

    def mark(self, entry, name, command):
        """The file that says that this content has passed; None if that is not known."""
        if not self.on:
            return None
        words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
        # Without line markers and with relative __FILE__, so that every checkout of the same content has the same text.
        kept = [word for before, word in zip([""] + words, words) if word not in ("-c", "-o") and before != "-o"]
        preprocess = kept + ["-E", "-P", f"-fmacro-prefix-map={ROOT}=."]
        done = subprocess.run(preprocess, cwd=entry["directory"], capture_output=True, check=False)
        if done.returncode:
            return None
        text = shlex.join(str(word) for word in command).replace(str(ROOT), ".").encode()
        parts = (self.rules, text, Path(name).read_bytes(), done.stdout)
        return CACHE / hashlib.sha256(b"\0".join(parts)).hexdigest()

    def forget_unused(self):
        """Removes what no run has asked for lately."""
        oldest = time.time() - UNUSED_DAYS * 86400
        for mark in CACHE.iterdir() if self.on else ():
            if mark.stat().st_mtime < oldest:
                mark.unlink(missing_ok=True)


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    if len(sys.argv) <= 1 and subprocess.call([ROOT / "scripts/build", "release"], stdout=subprocess.DEVNULL):
        print("lint: the release tree does not build")
        return 1
    # Kernels are compiled once per instruction set; one look at the source is enough. Clang does not know GCC's options.
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        entry["command"] = re.sub(r" -mmem(cpy|set)-strategy=\S+", "", entry["command"])
        commands.setdefault(str(Path(entry["directory"], entry["file"]).resolve()), entry)
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps(list(commands.values())), encoding="utf-8")

    files = [str(Path(name).resolve()) for name in sys.argv[2:]]
    folders = tuple(f"{ROOT / folder}/" for folder in ("src", "tools", "examples"))
    files = files or [name for name in commands if name.startswith(folders)]
    unknown = [name for name in files if name not in commands]
    if unknown or not files:
        print(f"lint: not in {build}/compile_commands.json: {' '.join(unknown) or 'any source'}")
        return 1

    errors = ROOT / "src/base/error"
    steps = os.environ.get("TIDY_NODES") or (60000 if os.environ.get("TUTTI_TEST_ALL") else 3000)
    budget = f"max-nodes={int(steps)}"

    passed = Passed()

    def tidy(name):
        """What clang-tidy says of a file; None if the same content has passed before."""
        command = ["clang-tidy-14", "--quiet", "-p", database, name]
        for word in ("-Xclang", "-analyzer-config", "-Xclang", budget):
            command.append(f"--extra-arg={word}")
        if errors.with_suffix(".h").exists() and name != str(errors.with_suffix(".c")):
            command += ["--extra-arg=-include", f"--extra-arg={ROOT / 'scripts/linters/tidy.h'}"]
        mark = passed.mark(commands[name], name, command)
        if mark and mark.exists():
            mark.touch()
            return None
        result = subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                check=False)
        if mark and result.returncode == 0:
            mark.touch()
        return result

    failed = known = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for result in pool.map(tidy, sorted(files, key=lambda name: -os.path.getsize(name))):
            known += result is None
            if result and result.returncode:
                failed += 1
                print(result.stdout, end="")
                print(result.stderr if not result.stdout else "", end="", flush=True)
    passed.forget_unused()
    print(f"lint: clang-tidy looked at {len(files) - known} files, {failed} failed; {known} have passed before")
    return 1 if failed else 0


sys.exit(main())
