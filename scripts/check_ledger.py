#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks docs/requirements.md against what was built and tested.

    check_ledger.py --build DIR --junit FILE [--all] [--requirements FILE]

In every row that is marked done:
  - Each name in the column "Tutti" exists (Build.complaint).
  - Each test in the column "Test", and each of its variants api.NAME.BACKEND, ran and passed (FILE of `ctest --output-junit`).
  - The column "Backends" names the backends that these tests printed. An operation between ranks needs more than local.
  - The tests really test each function: one of them fails when LD_PRELOAD replaces the function by one that does nothing
    and returns 0 (OK, NULL, MPI_SUCCESS). Functions of MPI, and those of Tutti in rows without an api test, are replaced in
    the ranks of the script.mpi.ledger_* tests. With --all, a variant on each other backend has to fail, too.

Exit status 0 if no row failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
COLUMNS = ["Spec", "What the spec names", "Tutti", "Test", "State", "Backends"]
BACKENDS = ["local", "shm", "hier", "gloo", "mpi", "nccl", "rccl", "fault", "null"]  # the order in which rows name them
API, MPI = "api.", "script.mpi.ledger_"  # tests whose function can be replaced
MPI_FUNCTION = re.compile(r"MPI_[A-Z][a-z]\w*")
# What a test prints: the ledger's programs a line for each backend, `tutti check` at its beginning.
ON_BACKEND = re.compile(r"\bon backend (\w+)$|^tutti check .*, backend (\w+)\b", re.M)
THREADS_ONLY = "tutti_run_threads"  # a job has no use for it
NOTHING = "nothing"  # the library that replaces no function
# Seconds. A test that hangs without the function has noticed that it is missing, after ten times its own time at the least.
TIME_LIMIT, OWN_TIME_LIMIT = 4, 120


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, **options).stdout


def words(text):
    return set(re.findall(r"\w+", text))


def in_order(backends):
    return sorted(backends, key=lambda b: (BACKENDS.index(b) if b in BACKENDS else len(BACKENDS), b))


class Row:
    def __init__(self, line, cells):
        if len(cells) not in (len(COLUMNS), len(COLUMNS) - 1):
            sys.exit(f"line {line}: a row has {len(cells)} columns instead of {len(COLUMNS)}")
        self.line, self.spec, self.name, self.state = line, cells[0], cells[1], cells[4]
        self.names, self.tests = (re.findall(r"`([^`]+)`", cell) for cell in cells[2:4])
        self.backends = re.findall(r"\w+", cells[5]) if len(cells) == len(COLUMNS) else None
        self.problems = [] if self.state in ("done", "open") else [f'its state is "{self.state}", neither done nor open']


def read_rows(path):
    """The rows of every table with the ledger's columns; a row may lack the last one."""
    rows, inside = [], False
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
        inside = text.startswith("|") and (inside or cells == COLUMNS)
        if inside and cells != COLUMNS and set("".join(cells)) - set("-"):
            rows.append(Row(line, cells))
    return rows


def read_results(path):
    """Test -> "passed", "skipped" or "failed"; test -> the backends that it printed."""
    states, backends = {}, {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, state = case.get("name"), case.get("status")
        states[name] = {"run": "passed", "fail": "failed"}.get(state, "skipped")
        backends[name] = set(filter(None, sum(ON_BACKEND.findall(case.findtext("system-out") or ""), ())))
    return states, backends


class Build:
    """What was built: exported functions, known names, and how to start each test."""

    def __init__(self, directory):
        self.directory = directory
        if re.search(r"^TUTTI_SANITIZE:\w+=.+$", (directory / "CMakeCache.txt").read_text(encoding="utf-8"), re.M):
            sys.exit(f"{directory} has a sanitizer, which does not let functions be replaced; use the release build")
        self.compiler = [os.environ.get("CC", "cc"), f"-I{SOURCE / 'include'}"]
        library = directory / "libtutti.so"
        symbols = run("nm", "-D", "--defined-only", str(library))
        self.exported = set(re.findall(r" T (\w+)", symbols))
        undefined = [words(run("nm", "-D", "--undefined-only", str(plugin)))
                     for plugin in (directory / "lib/tutti/plugins").glob("tutti-mpi-*.so")]
        self.mpi = {name for name in set.intersection(*undefined) if MPI_FUNCTION.fullmatch(name)} if undefined else set()
        include = "#include <tutti/tutti.h>\n#include <tutti/backend.h>\n"
        headers = run(*self.compiler, "-E", "-P", "-x", "c", "-", input=include)
        # "TYPE [*] tutti_name(": the type decides what the replacement has to return.
        declared = re.findall(r'visibility\("default"\)\)\)\s+([\w\s]+?[\s*]+)(tutti_\w+)\s*\(', headers)
        self.types = {name: kind.strip() for kind, name in declared}
        between = "".join((SOURCE / "include/tutti" / h).read_text(encoding="utf-8") for h in ("collectives.h", "p2p.h"))
        self.communicating = set(re.findall(r"^TUTTI_API tutti_status (tutti_\w+)\(tutti_group \*", between, re.M))
        self.tests = {t["name"]: t for t in json.loads(run("ctest", "--show-only=json-v1", cwd=directory))["tests"]}

        public = words(headers) | words(run(*self.compiler, "-E", "-dM", "-x", "c", "-", input=include))
        config = run(str(directory / "tutti"), "info", "--config")
        nccl = re.findall(r"\bX\((\w+),", (SOURCE / "src/backends/nccl/library/api.h").read_text(encoding="utf-8"))
        # A kind of name, the names that there are, and what is wrong with others. Other names are commands: not checked.
        self.kinds = [
            (r"tutti_\w+", (public - set(self.types)) | (set(self.types) & self.exported), "is not in the public headers"),
            (MPI_FUNCTION, self.mpi, "is not called by every plug-in of backend mpi"),
            (r"nccl[A-Z]\w*", {f"nccl{name}" for name in nccl}, "is not in the table of backends nccl and rccl"),
            (r"[a-z]\w*(\.\w+)+", set(re.findall(r"(?<![\w.])\w+(?:\.\w+)+(?![\w.])", config)),
             "is not a setting that `tutti info --config` prints"),
            (r"[A-Z][A-Z0-9_]+", public | words(config),
             "is neither a constant of the headers nor a variable that the library knows"),
        ]
        self.public, self.library = public, library.read_bytes()

    def complaint(self, name):
        """What is wrong with a name, or None."""
        if re.fullmatch(r"(tutti_\w+)?\.\w+", name):
            return None if words(name) <= self.public else "is not a field in the public headers"
        for pattern, known, complaint in self.kinds:
            if re.fullmatch(pattern, name):
                in_library = name.isupper() and name.encode() + b"\0" in self.library
                return None if name in known or in_library else complaint
        return None

    def variants(self, row):
        """The tests that run the row's api programs on other backends."""
        return [t for t in self.tests for test in row.tests if test.startswith(API) and t.startswith(test + ".")]

    def proofs(self, row, every_backend):
        """(function, backend) -> tests of the row, one of which has to fail without the function. Backend "": those it names."""
        api, mpi = ([t for t in row.tests if t.startswith(prefix)] for prefix in (API, MPI))
        found = {}
        for function in (name.removesuffix("()") for name in row.names):
            if MPI_FUNCTION.fullmatch(function):
                found[function, ""] = mpi
            elif function in self.types:
                found[function, ""] = api or mpi
                for test in self.variants(row) if every_backend and function != THREADS_ONLY else ():
                    found.setdefault((function, test.rsplit(".", 1)[1]), []).append(test)
        return found


class Prover:
    """Runs tests without a function, each pair once."""

    def __init__(self, build, directory):
        self.build, self.directory = build, Path(directory)
        self.own_time, self.noticed = {}, {}

    def compile(self, functions):
        """All replacements are one object; each library exports one of them."""
        lines = ["#include <tutti/dlpack.h>"]
        for function in functions:
            kind = self.build.types.get(function, "int")
            if kind in ("DLTensor", "DLDataType", "DLDevice"):
                lines.append(f"{kind} {function}(void) {{ return ({kind}){{0}}; }}")
            else:  # integers and pointers come back in the same register, and for void the caller reads none
                lines.append(f"{kind if kind in ('float', 'double') else 'long'} {function}(void) {{ return 0; }}")
        compiled = self.directory / "replacements.o"
        run(*self.build.compiler, "-w", "-fPIC", "-c", "-x", "c", "-", "-o", str(compiled), input="\n".join(lines) + "\n")
        for function in (*functions, NOTHING):
            script = self.directory / f"{function}.map"
            script.write_text("{ global: %s; local: *; };" % function, encoding="utf-8")
            run("ld", "-shared", f"--version-script={script}", str(compiled), "-o", str(script.with_suffix(".so")))

    def passes(self, test, replaced):
        """Whether the test passes while REPLACED.so comes before Tutti and MPI."""
        properties = {p["name"]: p["value"] for p in self.build.tests[test].get("properties", [])}
        environment = os.environ | dict(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
        # The launcher of an MPI job needs MPI whole: only its ranks load the library.
        environment["TUTTI_TEST_PRELOAD" if test.startswith(MPI) else "LD_PRELOAD"] = f"{self.directory / replaced}.so"
        begin = time.monotonic()
        process = subprocess.Popen(self.build.tests[test]["command"], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                   cwd=properties.get("WORKING_DIRECTORY", self.build.directory))
        try:
            limit = OWN_TIME_LIMIT if replaced == NOTHING else TIME_LIMIT + 10 * self.own_time[test]
            return process.wait(timeout=limit) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            if replaced == NOTHING:
                self.own_time[test] = time.monotonic() - begin

    def prove(self, function, lists):
        """Of each list, runs the tests without the function until one fails, the fastest first."""
        for tests in lists:
            for test in sorted(tests, key=self.own_time.get):
                if (function, test) not in self.noticed:
                    self.noticed[function, test] = not self.passes(test, function)
                if self.noticed[function, test]:
                    break


def prove(build, rows, every_backend):
    """(function, test) -> whether the test fails without the function; and the tests that fail with nothing replaced."""
    wanted = {}  # function -> lists of tests
    for row in rows:
        for (function, _), tests in build.proofs(row, every_backend).items():
            if function in build.exported | build.mpi:
                wanted.setdefault(function, []).append([t for t in tests if t in build.tests])
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        # A test that hangs leaves its CPU to others: more tests at once than CPUs.
        prover = Prover(build, directory)
        prover.compile(wanted)
        tests = sorted({t for lists in wanted.values() for tests in lists for t in tests})
        unusable = {t for t, good in zip(tests, pool.map(lambda t: prover.passes(t, NOTHING), tests)) if not good}
        lists = [[[t for t in tests if t not in unusable] for tests in lists] for lists in wanted.values()]
        list(pool.map(prover.prove, wanted, lists))
    return prover.noticed, unusable


def check(row, build, states, backends, noticed, unusable):
    """Fills in what is wrong with a row that is done."""
    complain = row.problems.append
    for name in row.names:
        problem = build.complaint(name.removesuffix("()"))
        if problem:
            complain(f"`{name}` {problem}")
    variants = build.variants(row)
    for test in row.tests + variants:
        if test not in build.tests:
            complain(f"`{test}` is not a test of this build")
        elif states.get(test) != "passed":
            complain(f"`{test}` {states.get(test, 'did not run')}")
        elif test in unusable:
            complain(f"`{test}` fails as it is")
    proofs = build.proofs(row, True)
    if not proofs:
        complain("it names no function")
    blind = {}  # function -> backends on which no test fails
    for (function, backend), tests in proofs.items():
        outcomes = [noticed[function, t] for t in tests if (function, t) in noticed]
        if not tests:
            complain(f"it names no {MPI + '*' if MPI_FUNCTION.fullmatch(function) else 'api'} test")
        elif outcomes and not any(outcomes):
            blind.setdefault((function, bool(backend)), []).append(backend)
    for (function, elsewhere), backends_blind in blind.items():
        place = f"on {' '.join(in_order(backends_blind))} " if elsewhere else ""
        complain(f"{place}no test of this row fails when `{function}` only returns OK")

    found = in_order(set().union(*(backends.get(t, ()) for t in row.tests + variants)))
    if row.backends is None:
        complain(f"it does not say on which backends it is proved: {' '.join(found)}")
    elif in_order(set(row.backends)) != found:
        complain(f"it claims to be proved on {' '.join(row.backends) or 'no backend'}, "
                 f"but its tests were on {' '.join(found) or 'none'}")
    if set(found) <= {"local"} and build.communicating & {function for function, _ in proofs}:
        complain("its operations between ranks are proved on local alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, help="the release build")
    parser.add_argument("--junit", type=Path, required=True, help="the result file of ctest")
    parser.add_argument("--requirements", type=Path, default=SOURCE / "docs/requirements.md")
    parser.add_argument("--all", action="store_true", help="replace each function on every backend")
    options = parser.parse_args()
    name = options.requirements.name
    build = Build(options.build.resolve())
    states, backends = read_results(options.junit)
    rows = read_rows(options.requirements)
    if not rows:
        sys.exit(f"{options.requirements}: no rows found")
    done = [row for row in rows if row.state == "done"]
    noticed, unusable = prove(build, done, options.all)
    for row in done:
        check(row, build, states, backends, noticed, unusable)
    failed = [row for row in rows if row.problems]
    for row in failed:
        print(f"{name}:{row.line}: {row.spec}, {row.name}: {'; '.join(row.problems)}")
    opened = sum(row.state == "open" for row in rows)
    print(f"ledger: {len(rows)} rows, {len(done)} done, {opened} open, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
