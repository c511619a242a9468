#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs clang-tidy over the sources, several at once.

    lint_tidy.py [BUILD [FILE...]]

BUILD holds compile_commands.json (default: build). Without files: everything in src/, tools/ and examples/.

The analyzer gives up a function after so many steps of its search: TIDY_NODES, or else 60000. With clang's own 225000 it
takes four times as long, and has not found more in this project: run it so before a release.
"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    if len(sys.argv) <= 1 and subprocess.call([ROOT / "scripts/build", "release"], stdout=subprocess.DEVNULL):
        print("lint: the release tree does not build")
        return 1
    # Kernels are compiled once per instruction set; one look at the source is enough.
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        commands.setdefault(str(Path(entry["directory"], entry["file"]).resolve()), entry)
    database = build / "tidy"
    database.mkdir(exist_ok=True)
    (database / "compile_commands.json").write_text(json.dumps(list(commands.values())), encoding="utf-8")

    files = [str(Path(name).resolve()) for name in sys.argv[2:]]
    rooms = tuple(f"{ROOT / room}/" for room in ("src", "tools", "examples"))
    files = files or [name for name in commands if name.startswith(rooms)]
    unknown = [name for name in files if name not in commands]
    if unknown or not files:
        print(f"lint: not in {build}/compile_commands.json: {' '.join(unknown) or 'any source'}")
        return 1

    errors = ROOT / "src/base/error"
    budget = f"max-nodes={int(os.environ.get('TIDY_NODES') or 60000)}"

    def tidy(name):
        command = ["clang-tidy-14", "--quiet", "-p", database, name]
        for word in ("-Xclang", "-analyzer-config", "-Xclang", budget):
            command.append(f"--extra-arg={word}")
        if errors.with_suffix(".h").exists() and name != str(errors.with_suffix(".c")):
            command += ["--extra-arg=-include", f"--extra-arg={ROOT / 'scripts/lint_tidy.h'}"]
        return subprocess.run(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)

    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for result in pool.map(tidy, sorted(files, key=lambda name: -os.path.getsize(name))):
            if result.returncode:
                failed += 1
                print(result.stdout, end="")
                print(result.stderr if not result.stdout else "", end="", flush=True)
    print(f"lint: clang-tidy looked at {len(files)} files, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
