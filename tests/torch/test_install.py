# SPDX-License-Identifier: BSD-3-Clause
"""The entry point, and the extension's build at its first use."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import _tutti_torch_backend
import ranks
import torch
import torch.distributed as dist

# With COMPILER_GO, a pipe, it waits for a line in it.
COMPILER = """#!/bin/sh
echo run >> "$COMPILER_LOG"
[ -z "$COMPILER_GO" ] || read -r _ < "$COMPILER_GO"
for last; do :; done
while [ "$1" != -o ]; do shift; done
cp "$EXTENSION" "$2"
"""

# A compiler with a compiler of its own. Both hold the pipe COMPILER_LOG open, and never end.
ENDLESS = """#!/bin/sh
exec 9> "$COMPILER_LOG"
sleep 100000 &
echo started >&9
wait
"""


def start(program, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parent,
    )


def output(process):
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()  # if it hangs
    return process.returncode, out, err


def wait_for(pipe, events):
    """Until the pipe has one of the events, for 300 s at most."""
    poll = select.poll()
    poll.register(pipe, events)
    if not poll.poll(300000):
        raise AssertionError("the compiler has not started or not ended in 300 s")


def has_open(process, name):
    """Whether a process that runs has a file of this name open."""
    folder = Path(f"/proc/{process.pid}/fd")
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed since
            if (folder / number).readlink().name == name:
                return True
    return False


WORLD = """
import torch.distributed as dist, torch
dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
t = torch.ones(2)
dist.all_reduce(t)
print(dist.get_backend(), t.sum().item())
"""


class Install(unittest.TestCase):
    def test_the_name_needs_no_import(self):
        """An installation has these metadata, and `import torch` finds them."""
        project = (Path(__file__).parents[2] / "python" / "pyproject.toml").read_text(encoding="utf-8")
        entry = re.search(r"\[project.entry-points.\"torch.backends\"\]\n(\w+) = \"(.*)\"", project)
        with tempfile.TemporaryDirectory() as folder:
            metadata = Path(folder) / "tutti-0.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tutti\nVersion: 0\n", encoding="utf-8")
            (metadata / "entry_points.txt").write_text(f"[torch.backends]\n{entry[1]} = {entry[2]}\n", encoding="utf-8")
            path = folder + os.pathsep + os.environ.get("PYTHONPATH", "")
            code, out, err = output(start(WORLD, PYTHONPATH=path))
            self.assertEqual((code, out.split()), (0, ["tutti", "2.0"]), err)

    def test_the_entry_point_is_light(self):
        """It imports and builds nothing: the package is not imported before the first use."""
        program = (
            "import torch, sys, _tutti_torch_backend as b; b.register(); b.register(); print('tutti' in sys.modules)"
        )
        code, out, err = output(start(program, TUTTI_TORCH_CACHE="/nowhere", CXX="/nowhere"))
        self.assertEqual((code, out.strip()), (0, "False"), err)

    def test_the_entry_point_never_raises(self):
        original = dist.Backend.register_backend
        names = dist.Backend.TUTTI
        try:
            del dist.Backend.TUTTI
            dist.Backend.register_backend = None
            with self.assertWarns(UserWarning):
                _tutti_torch_backend.register()
        finally:
            dist.Backend.register_backend = original
            dist.Backend.TUTTI = names

    def test_without_a_compiler(self):
        program = "from tutti.torch import _extension; _extension.load()"
        with tempfile.TemporaryDirectory() as folder:
            code, _, err = output(start(program, TUTTI_TORCH_CACHE=folder, CXX="/nowhere/c++"))
            self.assertNotEqual(code, 0)
            self.assertIn("there is no C++ compiler", err)
            code, _, err = output(start(program, TUTTI_TORCH_CACHE=folder, CXX="false"))
            self.assertIn("cannot be built for torch", err)

    def test_a_folder_that_others_write_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            code, _, err = output(
                start("from tutti.torch import _extension; _extension.load()", TUTTI_TORCH_CACHE=folder)
            )
            self.assertNotEqual(code, 0)
            self.assertIn("other users can write", err)

    def test_folders(self):
        """An extension is found where this process cannot write; without a home it is built below the temporary folder."""
        from tutti.torch import _extension

        environment = {name: value for name, value in os.environ.items() if name != "TUTTI_TORCH_CACHE"}
        with tempfile.TemporaryDirectory() as folder, mock.patch("tempfile.gettempdir", return_value=f"{folder}/tmp"):
            built = Path(folder, "tutti", "key")
            built.mkdir(parents=True)
            (built / f"{_extension._NAME}.so").touch()
            with mock.patch.dict(os.environ, {**environment, "XDG_CACHE_HOME": folder}, clear=True):
                self.assertEqual(_extension._folder("other"), built.with_name("other"))
                with mock.patch("os.access", return_value=False):
                    self.assertEqual(_extension._folder("key"), built)
                    with self.assertRaisesRegex(ImportError, "cannot write.*TUTTI_TORCH_CACHE"):
                        _extension._folder("a third")
            environment.pop("XDG_CACHE_HOME", None)
            with mock.patch.dict(os.environ, environment, clear=True):
                with mock.patch.object(Path, "home", side_effect=RuntimeError):
                    self.assertEqual(_extension._folder("key"), Path(folder, "tmp", f"tutti-{os.getuid()}", "key"))

    def test_one_rank_builds(self):
        from tutti.torch import _extension

        built = _extension.load().__file__
        program = "from tutti.torch import _extension; print(_extension.load().__file__)"
        with tempfile.TemporaryDirectory() as folder:
            compiler = Path(folder) / "compiler"
            compiler.write_text(COMPILER, encoding="utf-8")
            compiler.chmod(0o755)
            log, pipe = f"{folder}/log", f"{folder}/pipe"
            os.mkfifo(pipe)
            go = os.open(pipe, os.O_RDWR)
            options = {"TUTTI_TORCH_CACHE": f"{folder}/cache", "CXX": str(compiler), "EXTENSION": built}
            processes = [start(program, COMPILER_LOG=log, COMPILER_GO=pipe, **options) for _ in range(3)]
            for process in processes:  # the compiler goes on when all have come to the lock
                while process.poll() is None and not has_open(process, "lock"):
                    time.sleep(0.01)
            os.write(go, b"\n")
            results = [output(process) for process in processes]
            os.close(go)
            self.assertEqual([code for code, _, _ in results], [0, 0, 0], results)
            self.assertEqual(Path(log).read_text(encoding="utf-8").split(), ["run"])
            self.assertEqual(len({out for _, out, _ in results}), 1)
            self.assertIn(torch.__version__, results[0][1])

    def test_the_compiler_ends_with_its_rank(self):
        from tutti.torch import _extension

        built = _extension.load().__file__
        program = "from tutti.torch import _extension; print(_extension.load().__file__)"
        with tempfile.TemporaryDirectory() as folder:
            compiler = Path(folder) / "compiler"
            log, pipe = f"{folder}/log", f"{folder}/pipe"
            os.mkfifo(pipe)
            options = {"TUTTI_TORCH_CACHE": f"{folder}/cache", "CXX": str(compiler)}
            for signal_number in (signal.SIGKILL, signal.SIGTERM):
                compiler.write_text(ENDLESS, encoding="utf-8")
                compiler.chmod(0o755)
                end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                rank = start(program, COMPILER_LOG=pipe, **options)
                wait_for(end, select.POLLIN)
                os.read(end, 100)
                rank.send_signal(signal_number)
                rank.communicate(timeout=300)
                wait_for(end, 0)  # POLLHUP, which needs no asking: no process holds the pipe open any more
                os.close(end)
            compiler.write_text(COMPILER, encoding="utf-8")
            code, _, err = output(start(program, EXTENSION=built, COMPILER_LOG=log, **options))
            self.assertEqual(code, 0, err)
            self.assertEqual(list(Path(folder, "cache").glob("*/build-*")), [], "what killed builds have left")


if __name__ == "__main__":
    ranks  # the import registers the name
    unittest.main()
