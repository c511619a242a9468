#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs PyTorch's own tests of torch.distributed with gloo and with tutti, and compares.

    upstream.py [--sizes 2,4] [--filter REGEX] [--out FILE]

The tests are torch/testing/_internal/distributed/distributed_test.py of the installed torch. Whatever passes with gloo
has to pass with tutti, apart from EXCEPTIONS. Each backend and world size is one process, which forks the ranks of each
test; these processes run at once. FILE gets one row a test, without the tests that torch skips everywhere. A test for
gloo only also runs with tutti: there BACKEND equals both names. A test that fails in another way than its exception says
is no exception. An exception that is not needed fails a run of all tests at all sizes. A process that ends before its
last test fails every run.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODULE = "torch.testing._internal.distributed.distributed_test"

SIZES = "2,4"

# Tests that pass with gloo and not with tutti, each with what its failure says and the reason.
EXCEPTIONS = {
    "test_ddp_logging_data_cpu": (
        "String comparison failed: 'custom' != 'tutti'",
        'torch calls every backend from outside torch "custom" in this record (backendTypeToString in ProcessGroup.hpp)',
    ),
}


class AsGloo(str):
    """The name "tutti", which also equals "gloo", for the tests' conditions."""

    __slots__ = ()

    def __eq__(self, other):
        return other in ("gloo", "tutti")

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


def load_tests(backend: str):
    """The module of the tests, with BACKEND as their conditions need it."""
    import importlib.util

    import torch.distributed as dist
    from torch.testing._internal import common_distributed

    # The tests with sub-groups of ranks 1 and 2 ask for 8 ranks, but 3 suffice.
    common_distributed.skip_if_small_worldsize = unittest.skipIf(int(os.environ["WORLD_SIZE"]) < 3, "3 ranks")
    path = importlib.util.find_spec(MODULE).origin
    source = Path(path).read_text(encoding="utf-8")
    module = types.ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    if backend == "tutti":
        import _tutti_torch_backend
        import tutti.torch
        from tutti.torch import _extension

        _tutti_torch_backend.register()
        _extension.load()  # the ranks inherit it
        dist.monitored_barrier = tutti.torch.monitored_barrier
        for names in common_distributed.DistTestCases.backend_feature.values():
            names.add("tutti")
        assert source.count('BACKEND = os.environ["BACKEND"]') == 1
        source = source.replace('BACKEND = os.environ["BACKEND"]', "BACKEND = _backend")
        module._backend = AsGloo("tutti")
    exec(compile(source, path, "exec"), module.__dict__)
    if backend == "tutti":
        for name in vars(module):
            if name.endswith("PROFILING_SUPPORTED_BACKENDS"):
                vars(module)[name].append("tutti")
    return module


def worker(backend: str, size: int, pattern: str, rows: str) -> None:
    """Runs the tests of one backend and world size; appends "name<TAB>result" to the file `rows`."""
    temp = tempfile.gettempdir()  # of this process alone
    os.environ.update(
        BACKEND=backend,
        WORLD_SIZE=str(size),
        TEMP_DIR=temp,
        INIT_METHOD=f"file://{temp}/shared_init_file",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="100",
    )
    for folder in ("barrier", "test_dir", "init_dir"):
        os.makedirs(f"{temp}/{folder}")
    import torch

    torch.set_num_threads(1)
    module = load_tests(backend)

    class Case(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    # The ranks' functions look their class up by its module.
    Case.__module__ = "__main__"
    globals()["Case"] = Case
    with open(rows, "a", encoding="utf-8") as file:
        for name in sorted(n for n in dir(Case) if n.startswith("test_") and re.search(pattern, n)):
            print(f"==== {backend} {size} {name}", flush=True)
            shared = f"{temp}/shared_init_file"
            if os.path.exists(shared):
                os.remove(shared)
            result = unittest.TestResult()
            Case(name).run(result)
            outcome = "pass"
            for _, reason in result.skipped:
                print(f"skipped: {reason}", flush=True)
                outcome = "skip"
            for _, text in result.failures + result.errors:
                print(text, flush=True)
                excepted = backend == "tutti" and name in EXCEPTIONS and EXCEPTIONS[name][0] in text
                outcome = "exception" if excepted and outcome != "FAIL" else "FAIL"
            file.write(f"{name}\t{outcome}\n")
            file.flush()


def run(backend: str, size: int, pattern: str, folder: Path) -> tuple[dict[str, str], int]:
    """The results by test, and the exit status of the process that made them."""
    rows = folder / f"{backend}-{size}.tsv"
    log = folder / f"{backend}-{size}.log"
    rows.unlink(missing_ok=True)
    with open(log, "w", encoding="utf-8") as file, tempfile.TemporaryDirectory(prefix="tutti-upstream-") as temp:
        status = subprocess.run(
            [sys.executable, __file__, "--worker", backend, str(size), pattern, str(rows)],
            env={**os.environ, "TMPDIR": temp},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    text = rows.read_text(encoding="utf-8") if rows.exists() else ""
    return dict(line.split("\t") for line in text.splitlines()), status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--filter", default="")
    parser.add_argument("--folder", default="build/torch", help="for logs and the rows of each run")
    parser.add_argument("--out", help="a file for the table of all results")
    options = parser.parse_args()
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    columns = {}
    bad = []
    runs = [(backend, int(size)) for size in options.sizes.split(",") for backend in ("gloo", "tutti")]
    with ThreadPoolExecutor(len(runs)) as pool:  # most tests wait most of the time
        results_of = list(pool.map(lambda one: run(*one, options.filter, folder), runs))
    for (backend, size), (results, status) in zip(runs, results_of):
        columns[f"{backend} {size}"] = results
        if status:
            bad.append(f"{backend} at {size} ranks: the process has ended with status {status}, see {folder}")
    names = sorted(set().union(*columns.values()))
    used = set()
    for name in names:
        for size in options.sizes.split(","):
            gloo, ours = columns[f"gloo {size}"].get(name), columns[f"tutti {size}"].get(name)
            if gloo != "pass" or ours == "pass":
                continue
            if ours == "exception":
                used.add(name)
            else:
                bad.append(f"{name} at {size} ranks: {ours}")
    if options.sizes == SIZES and not options.filter:  # a test may need its exception at one size only
        bad += [f"{name} is no exception: see its row" for name in EXCEPTIONS if name not in used]
    run_somewhere = [n for n in names if any(results.get(n) != "skip" for results in columns.values())]
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\t".join(["test", *columns]) + "\n")
            for name in run_somewhere:
                file.write("\t".join([name, *(c.get(name, "-") for c in columns.values())]) + "\n")
    print(f"{len(names)} tests, of which torch skips {len(names) - len(run_somewhere)} everywhere")
    for column, results in columns.items():
        counts = {kind: sum(r == kind for r in results.values()) for kind in ("pass", "skip", "exception", "FAIL")}
        print(f"{column} ranks: {counts}")
    for name in sorted(used):
        print(f"exception: {name}: {EXCEPTIONS[name][1]}")
    print("\n".join(bad) if bad else "whatever passes with gloo passes with tutti, apart from the exceptions")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        sys.exit(main())
