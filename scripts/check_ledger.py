#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks docs/requirements.md against what was built and tested.

    check_ledger.py --build DIR --junit FILE [--all] [--requirements FILE]

In every row that is marked done:
  - Each name in the column "Tutti" exists.
  - Each test in the column "Test", and each of its variants api.NAME.BACKEND, ran and passed (FILE of `ctest --output-junit`).
  - The column "Backends" names the backends that these tests printed. An operation between ranks needs more than local.
  - The tests really test each function: one of them fails when LD_PRELOAD replaces the function by one that does nothing
    and returns 0 (OK, NULL, MPI_SUCCESS). Functions of MPI, and those of Tutti in rows without an api or python test, are
    replaced in the ranks of the script.mpi.ledger_* tests. With --all, a variant on each other backend has to fail, too, and
    the python.* tests, which get the replacement as a library that needs libtutti, by TUTTI_LIBRARY.

Every `torch.FILE.TEST` in the text is a test of tests/torch. Those need PyTorch, so make check-torch runs them.

Exit status 0 if no row failed.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

SOURCE = Path(__file__).resolve().parent.parent
COMPILER = [os.environ.get("CC", "cc"), f"-I{SOURCE / 'include'}"]
COLUMNS = ["Spec", "What the spec names", "Tutti", "Test", "State", "Backends"]
BACKENDS = ["local", "shm", "hier", "gloo", "mpi", "nccl", "rccl", "fault", "null"]  # the order in which rows name them
API, PYTHON, MPI = "api.", "python.", "script.mpi.ledger_"  # tests whose function can be replaced
MPI_FUNCTION = re.compile(r"MPI_[A-Z][a-z]\w*")
# What a test prints: the ledger's programs a line for each backend, `tutti check` at its beginning.
ON_BACKEND = re.compile(r"\bon backend (\w+)$|^tutti check .*, backend (\w+)\b", re.M)
NOTHING = "nothing"  # a function that no test calls
# Seconds. A test that hangs without the function has noticed that it is missing, after five times its own time at the least;
# one that spins, when a process of it has taken all CPUs for as long as the test took before.
TIME_LIMIT, OWN_TIME_LIMIT, HANGS, SPINS = 4, 400, 5, len(os.sched_getaffinity(0))


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, **options).stdout


def words(text):
    return set(re.findall(r"\w+", text))


def in_order(backends):
    return sorted(backends, key=lambda b: ((BACKENDS + [b]).index(b), b))


def read_rows(path):
    """The rows of every table with the ledger's columns."""
    rows, inside = [], False
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
        inside = text.startswith("|") and (inside or cells == COLUMNS)
        if not inside or cells == COLUMNS or not set("".join(cells)) - set("-"):
            continue
        if len(cells) != len(COLUMNS):
            sys.exit(f"line {line}: a row has {len(cells)} columns instead of {len(COLUMNS)}")
        spec, named, names, tests, state, backends = cells
        rows.append(SimpleNamespace(
            line=line, title=f"{spec}, {named}", names=re.findall(r"`([^`]+?)(?:\(\))?`", names), state=state,
            tests=re.findall(r"`([^`]+)`", tests), backends=re.findall(r"\w+", backends),
            problems=[] if state in ("done", "open") else [f'its state is "{state}", neither done nor open']))
    return rows


def read_results(path):
    """Test -> (what became of it, the backends that it printed)."""
    states = {"run": "passed", "fail": "failed"}
    return {case.get("name"): (states.get(case.get("status"), "skipped"),
                               set(filter(None, sum(ON_BACKEND.findall(case.findtext("system-out") or ""), ()))))
            for case in ElementTree.parse(path).getroot().iter("testcase")}


def read_build(directory):
    """What was built: the tests, the functions that can be replaced, and the names of each kind that there are."""
    if re.search(r"^TUTTI_SANITIZE:\w+=.+$", (directory / "CMakeCache.txt").read_text(encoding="utf-8"), re.M):
        sys.exit(f"{directory} has a sanitizer, which does not let functions be replaced; use the release build")
    library = directory / "libtutti.so"
    undefined = [words(run("nm", "-D", "--undefined-only", str(plugin)))
                 for plugin in (directory / "lib/tutti/plugins").glob("tutti-mpi-*.so")]
    mpi = set(filter(MPI_FUNCTION.fullmatch, set.intersection(*undefined))) if undefined else set()
    include = "#include <tutti/tutti.h>\n#include <tutti/backend.h>\n"
    headers = run(*COMPILER, "-E", "-P", "-x", "c", "-", input=include)
    # "TYPE [*] tutti_name(": the type decides what the replacement has to return.
    types = {name: kind.strip() for kind, name in
             re.findall(r'visibility\("default"\)\)\)\s+([\w\s]+?[\s*]+)(tutti_\w+)\s*\(', headers)}
    exported = set(re.findall(r" T (\w+)", run("nm", "-D", "--defined-only", str(library)))) & set(types)
    between = "".join((SOURCE / "include/tutti" / h).read_text(encoding="utf-8") for h in ("collectives.h", "p2p.h"))
    public = words(headers) | words(run(*COMPILER, "-E", "-dM", "-x", "c", "-", input=include))
    config = run(str(directory / "tutti"), "info", "--config")
    settings, texts = set(re.findall(r"(?<![\w.])\w+(?:\.\w+)+(?![\w.])", config)), library.read_bytes()
    nccl = re.findall(r"\bX\((\w+),", (SOURCE / "src/backends/nccl/library/api.h").read_text(encoding="utf-8"))
    # A kind of name, whether there is one, and what is wrong with others. Other names are commands: not checked.
    kinds = [(r"tutti_\w+", lambda name: name in public - set(types) | exported, "is not in the public headers"),
             (r"(tutti_\w+)?\.\w+", lambda name: words(name) <= public, "is not a field in the public headers"),
             (MPI_FUNCTION, lambda name: name in mpi, "is not called by every plug-in of backend mpi"),
             (r"nccl[A-Z]\w*", lambda name: name[4:] in nccl, "is not in the table of backends nccl and rccl"),
             (r"(?!tutti_)[a-z]\w*(\.\w+)+", lambda name: name in settings,
              "is not a setting that `tutti info --config` prints"),
             (r"[A-Z][A-Z0-9_]+", lambda name: name in public | words(config) or name.encode() + b"\0" in texts,
              "is neither a constant of the headers nor a variable that the library knows")]
    return SimpleNamespace(
        directory=directory, types=types, replaceable=exported | mpi, kinds=kinds,
        communicating=set(re.findall(r"^TUTTI_API tutti_status (tutti_\w+)\(tutti_group \*", between, re.M)),
        tests={t["name"]: t for t in json.loads(run("ctest", "--show-only=json-v1", cwd=directory))["tests"]})


def proofs(build, row):
    """(function, backend) -> tests of the row, one of which has to fail without the function. Backend "": those it names."""
    api, python, mpi = ([t for t in row.tests if t.startswith(prefix)] for prefix in (API, PYTHON, MPI))
    found = {}
    for function in row.names:
        if MPI_FUNCTION.fullmatch(function):
            found[function, ""] = mpi
        elif function in build.types:
            found[function, ""] = api or python or mpi
            for test in row.variants if function != "tutti_run_threads" else ():  # a job has no use for that
                found.setdefault((function, test.rsplit(".", 1)[1]), []).append(test)
    return found


def for_python(path):
    return path.with_suffix(".python.so")


def write_replacement(build, function, path, python):
    # Integers and pointers come back in the same register, and for void the caller reads none.
    kind = build.types.get(function)
    kind = kind if kind in ("float", "double", "DLTensor", "DLDataType", "DLDevice") else "long"
    code = f"#include <tutti/dlpack.h>\n{kind} {function}(void) {{ return ({kind}){{0}}; }}\n"
    build_shared = (*COMPILER, "-w", "-fPIC", "-shared", "-x", "c", "-", "-o")
    run(*build_shared, str(path), input=code)
    if python:  # a symbol is looked up in the library that was opened, then in what it needs
        run(*build_shared, str(for_python(path)), "-Wl,--no-as-needed", f"-Wl,-rpath,{build.directory}",
            f"-L{build.directory}", "-ltutti", input=code)


def passes(build, test, library, limit, cpu_limit):
    """Whether the test passes while the library comes before Tutti and MPI, within both limits."""
    properties = {p["name"]: p["value"] for p in build.tests[test].get("properties", [])}
    environment = os.environ | dict(v.split("=", 1) for v in properties.get("ENVIRONMENT", []))
    if test.startswith(PYTHON):  # ctypes asks the library itself, so a preloaded one has no effect
        environment["TUTTI_LIBRARY"] = str(for_python(library))
    else:  # the launcher of an MPI job needs MPI whole: only its ranks load the library
        environment["TUTTI_TEST_PRELOAD" if test.startswith(MPI) else "LD_PRELOAD"] = str(library)
    limited = ["prlimit", f"--cpu={math.ceil(cpu_limit)}", "--core=0"] + build.tests[test]["command"]
    process = subprocess.Popen(limited, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True,
                               cwd=properties.get("WORKING_DIRECTORY", build.directory))
    try:
        return process.wait(timeout=limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def prove(build, rows, all_proofs):
    """(function, test) -> whether the test fails without the function; and the tests that fail with nothing replaced."""
    wanted, own_time, noticed = {}, {}, {}  # function -> lists of tests; test -> seconds
    for row in rows:
        for (function, backend), tests in proofs(build, row).items():
            here = [t for t in tests if t in build.tests and (all_proofs or not t.startswith(PYTHON))]
            if here and function in build.replaceable and (all_proofs or not backend):
                wanted.setdefault(function, []).append(here)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        # Most tests wait most of the time, and one that hangs leaves its CPU to others: more tests at once than CPUs.
        library = {function: Path(folder) / f"{function}.so" for function in (*wanted, NOTHING)}
        list(pool.map(lambda item: write_replacement(build, *item, all_proofs), library.items()))

        def time_test(test):
            begin = time.monotonic()
            good = passes(build, test, library[NOTHING], OWN_TIME_LIMIT, OWN_TIME_LIMIT)
            own_time[test] = time.monotonic() - begin
            return good

        def prove_function(function):
            """Of each list, runs the tests without the function until one fails, the fastest first."""
            for tests in wanted[function]:
                for test in sorted(set(tests) - unusable, key=own_time.get):
                    if (function, test) not in noticed:
                        own = own_time[test]
                        noticed[function, test] = not passes(build, test, library[function], TIME_LIMIT + HANGS * own,
                                                             TIME_LIMIT + SPINS * own)
                    if noticed[function, test]:
                        break

        tests = sorted({t for lists in wanted.values() for tests in lists for t in tests})
        unusable = {t for t, good in zip(tests, pool.map(time_test, tests)) if not good}
        # The longest first, so that none runs alone at the end.
        list(pool.map(prove_function, sorted(wanted, reverse=True, key=lambda function: max(
            (own_time[t] for tests in wanted[function] for t in tests), default=0))))
    return noticed, unusable


def check(build, row, results, noticed, unusable):
    """Notes what is wrong with a row that is done."""
    complain = row.problems.append
    for name in row.names:
        for pattern, exists, problem in build.kinds:
            if re.fullmatch(pattern, name) and not exists(name):
                complain(f"`{name}` {problem}")
    for test in row.tests + row.variants:
        if test not in build.tests:
            complain(f"`{test}` is not a test of this build")
        elif results.get(test, ("",))[0] != "passed":
            complain(f"`{test}` {results.get(test, ('did not run',))[0]}")
        elif test in unusable:
            complain(f"`{test}` fails as it is")
    to_prove = proofs(build, row)
    if not to_prove:
        complain("it names no function")
    for (function, backend), tests in to_prove.items():
        outcomes = [noticed[function, t] for t in tests if (function, t) in noticed]
        if not tests:
            complain(f"it names no {MPI + '*' if MPI_FUNCTION.fullmatch(function) else 'api'} test")
        elif outcomes and not any(outcomes):
            complain(f"{f'on {backend} ' if backend else ''}no test of this row fails when `{function}` only returns OK")
    found = in_order(set().union(*(results.get(t, ("", ()))[1] for t in row.tests + row.variants)))
    if in_order(set(row.backends)) != found:
        complain(f"it claims to be proved on {' '.join(row.backends) or 'no backend'}, "
                 f"but its tests were on {' '.join(found) or 'none'}")
    if set(found) <= {"local"} and build.communicating & {function for function, _ in to_prove}:
        complain("its operations between ranks are proved on local alone")


def missing_torch_tests(path):
    """The tests of tests/torch that the text names and that do not exist."""
    named = set(re.findall(r"`torch\.(\w+)\.(\w+)`", path.read_text(encoding="utf-8")))
    sources = {file.stem: file.read_text(encoding="utf-8") for file in (SOURCE / "tests/torch").glob("test_*.py")}
    return sorted(f"torch.{file}.{test}" for file, test in named if f"    def {test}(" not in sources.get(file, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in ("--build", "--junit"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--requirements", type=Path, default=SOURCE / "docs/requirements.md")
    parser.add_argument("--all", action="store_true", help="replace each function on every backend and in Python")
    options = parser.parse_args()
    build, results, rows = read_build(options.build.resolve()), read_results(options.junit), read_rows(options.requirements)
    if not rows:
        sys.exit(f"{options.requirements}: no rows found")
    for row in rows:  # the tests that run its api programs on other backends
        row.variants = [t for t in build.tests for test in row.tests if test.startswith(API) and t.startswith(test + ".")]
    done = [row for row in rows if row.state == "done"]
    noticed, unusable = prove(build, done, options.all)
    for row in done:
        check(build, row, results, noticed, unusable)
    failed = [row for row in rows if row.problems]
    for row in failed:
        print(f"{options.requirements.name}:{row.line}: {row.title}: {'; '.join(row.problems)}")
    missing = missing_torch_tests(options.requirements)
    for test in missing:
        print(f"{options.requirements.name}: `{test}` is not a test of tests/torch")
    opened = sum(row.state == "open" for row in rows)
    print(f"ledger: {len(rows)} rows, {len(done)} done, {opened} open, {len(failed)} failed")
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
