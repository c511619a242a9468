#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks docs/requirements.md against what was built and tested.

For every row that is marked done:
  - each name in the column "Tutti" exists: functions are exported by libtutti.so, those of MPI are called by every plug-in
    of backend mpi, those of NCCL and RCCL are in the table of backends nccl and rccl, settings and Tutti's own environment
    variables are printed by `tutti info --config`, other launchers' variables are known to the library, constants, types and
    fields stand in the public headers;
  - each test in the column "Test" ran and passed (files of `ctest --output-junit`), none was skipped, and so did its
    variants api.NAME.BACKEND;
  - the column "Backends" names the backends on which these tests were, as they have said themselves; a row with a
    collective or a message has more than backend local;
  - each function is really tested: one of the row's api.* tests fails when the function is replaced, by LD_PRELOAD, with
    one that does nothing and returns 0 (OK, NULL, MPI_SUCCESS), and so does one of its variants on each backend. Functions of MPI, and those of Tutti in rows without an
    api test, are replaced in the ranks of the script.mpi.ledger_* tests.

    check_ledger.py --build DIR [--junit FILE]... [--requirements FILE] [--verbose]
    check_ledger.py --build DIR --junit FILE... --write

Without --junit only the results of the tests that are run here are known. --write fills the column "Backends" from the
results, also where a row or a table lacks it, and checks nothing. Exit status 0 if no row failed.
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
# Seconds, beside ten times its own time: a test that hangs without the function has noticed that it is missing.
TIME_LIMIT = 4
GOOD_TIME_LIMIT = 120  # for a test with nothing missing, on a machine that has other work
STRUCTS_RETURNED = ("DLTensor", "DLDataType", "DLDevice")
COLUMNS = ["Spec", "What the spec names", "Tutti", "Test", "State", "Backends"]
BACKENDS = ["local", "shm", "hier", "gloo", "mpi", "nccl", "rccl", "fault", "null"]  # the order in which rows name them
# What a test prints: the ledger's programs a line for each backend, `tutti check` at its beginning.
ON_BACKEND = re.compile(r"\bon backend (\w+)$|^tutti check .*, backend (\w+)\b", re.M)
# Operations between ranks are declared here; rows that name one have to be proved on more than threads.
COMMUNICATING = ("tutti/collectives.h", "tutti/p2p.h")
THREADS_ONLY = ("tutti_run_threads",)  # a job has no use for it
HEADERS = ("tutti/tutti.h", "tutti/backend.h")
API_TESTS = "api."
MPI_TESTS = "script.mpi.ledger_"  # tests/mpi/ledger.inc says what they do for this script
NOTHING = "nothing"  # the name of the library that replaces no function
MPI_FUNCTION = re.compile(r"MPI_[A-Z][a-z]\w*")
NCCL_FUNCTION = re.compile(r"nccl([A-Z]\w*)")
NCCL_TABLE = SOURCE / "src" / "backends" / "nccl" / "api.h"


class Row:
    def __init__(self, line, spec, name, tutti, test, state, backends=None):
        self.line, self.spec, self.name, self.state = line, spec, name, state
        self.backends = None if backends is None else re.findall(r"\w+", backends)
        self.names = re.findall(r"`([^`]+)`", tutti)
        self.tests = re.findall(r"`([^`]+)`", test)
        self.problems = []


def table_lines(path):
    """(line number, cells) of every line of the tables that have the ledger's columns; the last one may be missing."""
    inside = False
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.startswith("|"):
            inside = False
            continue
        cells = [c.strip().replace("\0", "|") for c in text.replace("\\|", "\0").strip()[1:-1].split("|")]
        inside = inside or cells in (COLUMNS, COLUMNS[:-1])
        if inside:
            yield number, cells


def is_head(cells):
    return cells in (COLUMNS, COLUMNS[:-1]) or set("".join(cells)) <= set("-: ")


def read_rows(path):
    rows = []
    for number, cells in table_lines(path):
        if is_head(cells):
            continue
        if len(cells) not in (len(COLUMNS), len(COLUMNS) - 1):
            sys.exit(f"{path}:{number}: a row has {len(cells)} columns instead of {len(COLUMNS)}")
        row = Row(number, *cells)
        if row.state not in ("done", "open"):
            row.problems.append(f'its state is "{row.state}", neither done nor open')
        rows.append(row)
    if not rows:
        sys.exit(f"{path}: no rows found")
    return rows


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                          **options).stdout


class Build:
    """What was built: exported functions, known names, and how to start each test."""

    def __init__(self, directory):
        self.directory = directory
        self.compiler = os.environ.get("CC", "cc")
        cache = (directory / "CMakeCache.txt").read_text(encoding="utf-8")
        if re.search(r"^TUTTI_SANITIZE:\w+=.+$", cache, re.M):
            sys.exit(f"{directory} is built with a sanitizer, which does not allow functions to be replaced; "
                     "use the release build")
        library = directory / "libtutti.so"
        symbols = run(["nm", "-D", "--defined-only", str(library)])
        self.exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if " T " in line}
        self.library_bytes = library.read_bytes()
        self.mpi_functions = self.called_by_plugins()
        self.nccl_functions = set(re.findall(r"\bX\((\w+),", NCCL_TABLE.read_text(encoding="utf-8")))
        include = "".join(f"#include <{h}>\n" for h in HEADERS)
        options = [self.compiler, "-E", "-P", f"-I{SOURCE / 'include'}", "-x", "c", "-"]
        text = run(options, input=include)
        self.words = set(re.findall(r"\w+", text)) | set(re.findall(r"\w+", run(options + ["-dM"], input=include)))
        # "TYPE [*] tutti_name(": the type decides what the replacement has to return.
        declarations = re.findall(r'__attribute__\s*\(\(visibility\("default"\)\)\)\s+([\w\s]+?[\s*]+)(tutti_\w+)\s*\(', text)
        self.return_types = {name: kind.strip() for kind, name in declarations}
        communicating = "".join((SOURCE / "include" / h).read_text(encoding="utf-8") for h in COMMUNICATING)
        self.communicating = set(re.findall(r"^TUTTI_API tutti_status (tutti_\w+)\(tutti_group \*", communicating, re.M))
        self.settings = run([str(directory / "tutti"), "info", "--config"])
        listing = json.loads(run(["ctest", "--show-only=json-v1"], cwd=directory))
        self.tests = {t["name"]: t for t in listing["tests"]}

    def called_by_plugins(self):
        """The functions of MPI that every plug-in of backend mpi calls."""
        called = []
        for plugin in (self.directory / "lib" / "tutti" / "plugins").glob("tutti-mpi-*.so"):
            symbols = run(["nm", "-D", "--undefined-only", str(plugin)])
            called.append({line.split()[-1] for line in symbols.splitlines()})
        return {name for name in set.intersection(*called) if MPI_FUNCTION.fullmatch(name)} if called else set()

    def knows(self, name):
        """None if the name exists, else what is wrong. Names with spaces or dashes are commands: not checked here."""
        if re.fullmatch(r"tutti_\w+(\(\))?", name):
            bare = name.removesuffix("()")
            if bare in self.return_types:
                return None if bare in self.exported else "is declared, but the library does not export it"
            return None if bare in self.words else "is not in the public headers"
        if MPI_FUNCTION.fullmatch(name):
            return None if name in self.mpi_functions else "is not called by every plug-in of backend mpi"
        if NCCL_FUNCTION.fullmatch(name):
            known = NCCL_FUNCTION.fullmatch(name)[1] in self.nccl_functions
            return None if known else "is not in the table of backends nccl and rccl"
        if re.fullmatch(r"(tutti_\w+)?\.\w+", name):
            return None if set(re.findall(r"\w+", name)) <= self.words else "is not a field in the public headers"
        if re.fullmatch(r"[a-z]\w*(\.\w+)+", name):
            pattern = rf"(?<![\w.]){re.escape(name)}(?![\w.])"
            return None if re.search(pattern, self.settings) else "is not a setting that `tutti info --config` prints"
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
            known = name in self.words or re.search(rf"\b{name}\b", self.settings)
            known = known or name.encode() + b"\0" in self.library_bytes
            return None if known else "is neither a constant of the headers nor a variable that the library knows"
        return None

    def functions(self, row):
        bare = [n.removesuffix("()") for n in row.names]
        return [n for n in bare if n in self.return_types or MPI_FUNCTION.fullmatch(n)]

    def with_variants(self, tests):
        """The tests, and what runs the same program on other backends."""
        return [t for t in self.tests for test in tests
                if t == test or (test.startswith(API_TESTS) and t.startswith(test + "."))]

    def can_replace(self, function):
        return function in self.exported or function in self.mpi_functions

    def provers(self, row, function):
        """The tests of the row that are run without the function."""
        api = [t for t in row.tests if t.startswith(API_TESTS)]
        mpi = [t for t in row.tests if t.startswith(MPI_TESTS)]
        return mpi if MPI_FUNCTION.fullmatch(function) or not api else api

    def variants(self, row, function):
        """backend -> the variants of the row's tests on it, which are run without the function, too."""
        found = {}
        if function in self.return_types and function not in THREADS_ONLY:
            for test in self.with_variants(row.tests):
                if test not in row.tests:
                    found.setdefault(test.rsplit(".", 1)[1], []).append(test)
        return found


def read_results(paths):
    """Test name -> "passed", "skipped" or "failed", and test name -> backends that it was on, from JUnit files."""
    results = {}
    backends = {}
    for path in paths:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled", "skipped"):
                state = "skipped"
            elif case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
                state = "failed"
            else:
                state = "passed"
            results[case.get("name")] = state
            said = ON_BACKEND.findall(case.findtext("system-out") or "")
            backends[case.get("name")] = {name for pair in said for name in pair if name}
    return results, backends


def in_order(backends):
    return sorted(backends, key=lambda b: (BACKENDS.index(b) if b in BACKENDS else len(BACKENDS), b))


def ran_on(row, build, backends):
    tests = build.with_variants(row.tests)
    return in_order(set().union(*(backends.get(t, set()) for t in tests)))


def write_backends(path, build, results, backends):
    """Writes the last column of every row, from the results; returns how many lines have changed."""
    lines = path.read_text(encoding="utf-8").splitlines()
    changed = 0
    for number, cells in table_lines(path):
        old = lines[number - 1]
        if cells == COLUMNS[:-1]:
            last = COLUMNS[-1]
        elif is_head(cells):
            last = "---" if len(cells) < len(COLUMNS) else cells[-1]
        else:
            row = Row(number, *cells)
            good = {t: b for t, b in backends.items() if results[t] == "passed"}
            last = " ".join(ran_on(row, build, good)) if row.state == "done" else ""
        kept = old.rstrip()
        if len(cells) == len(COLUMNS):
            kept = kept[:-1].rsplit("|", 1)[0] + "|"
        dashes = set(last) == {"-"}
        lines[number - 1] = f"{kept}{last}|" if dashes else f"{kept} {last} |" if last else f"{kept} |"
        changed += lines[number - 1] != old
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return changed


class Prover:
    """Runs tests with one function replaced. Each pair is run once."""

    def __init__(self, build, directory):
        self.build, self.directory = build, Path(directory)
        self.own_time = {}  # of each test, in seconds, with nothing replaced
        self.compile(NOTHING, "")

    def compile(self, name, text):
        source = self.directory / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        subprocess.run([self.build.compiler, "-shared", "-fPIC", "-w", f"-I{SOURCE / 'include'}", "-o",
                        str(self.directory / f"{name}.so"), str(source)], check=True)

    def replace(self, function):
        kind = self.build.return_types.get(function, "int")
        if kind in STRUCTS_RETURNED:
            text = f"#include <tutti/dlpack.h>\n{kind} {function}(void) {{ return ({kind}){{0}}; }}\n"
        elif kind in ("float", "double"):
            text = f"{kind} {function}(void) {{ return 0; }}\n"
        else:  # integers and pointers come back in the same register, and nobody looks at it for void
            text = f"long {function}(void) {{ return 0; }}\n"
        self.compile(function, text)

    def passes(self, test, replaced):
        """Whether the test passes while REPLACED.so comes before Tutti and MPI."""
        entry = self.build.tests[test]
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        environment = dict(os.environ)
        environment.update(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
        # The launcher of an MPI job needs MPI whole: its ranks alone are told.
        variable = "TUTTI_TEST_PRELOAD" if test.startswith(MPI_TESTS) else "LD_PRELOAD"
        environment[variable] = str(self.directory / f"{replaced}.so")
        process = subprocess.Popen(entry["command"], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                   cwd=properties.get("WORKING_DIRECTORY", self.build.directory))
        begin = time.monotonic()
        try:
            limit = GOOD_TIME_LIMIT if replaced == NOTHING else TIME_LIMIT + 10 * self.own_time[test]
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

    def notices(self, function, lists):
        """(function, test) -> whether the test notices. Of each list tests are run until one does, the fastest first."""
        noticed = {}
        for tests in lists:
            for test in sorted(tests, key=self.own_time.get):
                if (function, test) not in noticed:
                    noticed[function, test] = not self.passes(test, function)
                if noticed[function, test]:
                    break
        return noticed


def prove(build, rows, verbose):
    """(function, test) -> whether the test notices; and the tests that fail even with nothing replaced."""
    wanted = {}  # function -> a list of tests for each row that names it
    for row in rows:
        for function in filter(build.can_replace, build.functions(row)):
            lists = wanted.setdefault(function, [])
            for tests in ([t for t in build.provers(row, function) if t in build.tests],
                          *build.variants(row, function).values()):
                if tests not in lists:
                    lists.append(tests)
    with tempfile.TemporaryDirectory() as directory:
        prover = Prover(build, directory)
        # A test that hangs leaves its CPU to others: more tests at once than CPUs.
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(prover.replace, wanted))
            tests = sorted({t for lists in wanted.values() for tests in lists for t in tests})
            unusable = {t for t, good in zip(tests, pool.map(lambda t: prover.passes(t, NOTHING), tests)) if not good}
            usable = {f: [[t for t in tests if t not in unusable] for tests in lists] for f, lists in wanted.items()}
            noticed = {}
            for result in pool.map(prover.notices, usable, usable.values()):
                noticed.update(result)
    if verbose:
        for (function, test), result in sorted(noticed.items()):
            print(f"{test} {'fails' if result else 'PASSES'} without {function}")
    return noticed, unusable


def check_backends(row, build, results, backends):
    """Whether the row says where it is proved, and is proved everywhere."""
    for test in build.with_variants(row.tests):
        if test not in row.tests and results.get(test) != "passed":
            row.problems.append(f"`{test}` {results.get(test, 'did not run')}")
    found = ran_on(row, build, backends)
    if row.backends is None:
        row.problems.append("it does not say on which backends it is proved; scripts/check_ledger.py --write does so")
    elif in_order(set(row.backends)) != found:
        row.problems.append(f"it claims to be proved on {' '.join(row.backends) or 'no backend'}, "
                            f"but its tests were on {' '.join(found) or 'none'}")
    bare = {n.removesuffix("()") for n in row.names}
    if set(found) <= {"local"} and bare & build.communicating:
        row.problems.append("its operations between ranks are proved on local alone")


def check(row, build, results, noticed, unusable):
    for name in row.names:
        problem = build.knows(name)
        if problem:
            row.problems.append(f"`{name}` {problem}")
    for test in row.tests:
        if test not in build.tests:
            row.problems.append(f"`{test}` is not a test of this build")
        elif results is not None and results.get(test) != "passed":
            row.problems.append(f"`{test}` {results.get(test, 'did not run')}")
        elif test in unusable:
            row.problems.append(f"`{test}` fails as it is")
    functions = build.functions(row)
    if not functions:
        row.problems.append("it names no function")
    for function in functions:
        provers = build.provers(row, function)
        outcomes = [noticed.get((function, t)) for t in provers if t not in unusable]
        if not provers:
            kind = f"{MPI_TESTS}*" if MPI_FUNCTION.fullmatch(function) else "api"
            row.problems.append(f"it names no {kind} test")
        elif build.can_replace(function) and outcomes and not any(outcomes):
            row.problems.append(f"no test of this row fails when `{function}` only returns OK")
        blind = []
        for backend, tests in build.variants(row, function).items():
            outcomes = [noticed.get((function, t)) for t in tests if t not in unusable]
            if build.can_replace(function) and outcomes and not any(outcomes):
                blind.append(backend)
        if blind:
            row.problems.append(f"on {' '.join(in_order(blind))} no test of this row fails when `{function}` only returns OK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, help="the release build")
    parser.add_argument("--junit", type=Path, action="append", default=[], help="a result file of ctest")
    parser.add_argument("--requirements", type=Path, default=SOURCE / "docs" / "requirements.md")
    parser.add_argument("--write", action="store_true", help="fill the column \"Backends\" from the results, and end")
    parser.add_argument("--verbose", action="store_true", help="also print every pair of test and replaced function")
    arguments = parser.parse_args()

    rows = read_rows(arguments.requirements)
    build = Build(arguments.build.resolve())
    results, backends = read_results(arguments.junit) if arguments.junit else (None, None)
    if arguments.write:
        if results is None:
            parser.error("--write needs the results of the tests: --junit FILE")
        changed = write_backends(arguments.requirements, build, results, backends)
        print(f"{arguments.requirements.name}: {changed} lines changed")
        return 0
    done = [row for row in rows if row.state == "done"]
    noticed, unusable = prove(build, done, arguments.verbose)
    for row in done:
        check(row, build, results, noticed, unusable)
        if results is not None:
            check_backends(row, build, results, backends)
    failed = [row for row in rows if row.problems]
    for row in failed:
        print(f"{arguments.requirements.name}:{row.line}: {row.spec}, {row.name}: {'; '.join(row.problems)}")
    opened = sum(row.state == "open" for row in rows)
    print(f"ledger: {len(rows)} rows, {len(done)} done, {opened} open, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
