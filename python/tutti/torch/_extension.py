# SPDX-License-Identifier: BSD-3-Clause
"""The C++ extension: built once for the torch that is installed, and cached.

Torch's C++ ABI changes with each release, so the extension is compiled where it is used. The cache's key has the
versions of torch, Python and libtutti and the hash of all sources. One process builds under a lock; others wait for it.
A finished file appears by an atomic rename. Cost: one run of the compiler, about a minute.
"""

import atexit
import contextlib
import ctypes
import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Iterator, List, Tuple

import torch

from .. import _install

_SOURCES = Path(__file__).resolve().parent / "csrc"
_NAME = "_tutti_torch"


def _library() -> ctypes.CDLL:
    """libtutti, loaded: the loader then finds it by its name for the extension, which stores no path of it."""
    library = ctypes.CDLL(str(_install.library()))
    library.tutti_version_string.restype = ctypes.c_char_p
    return library


def _key(version: str) -> str:
    digest = hashlib.sha256()
    for folder, pattern in ((_SOURCES, "*.[ch]pp"), (Path(_install.include()), "tutti/*.h*")):
        for path in sorted(folder.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    python = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    return f"torch-{torch.__version__}-{python}-tutti-{version}-{digest.hexdigest()[:16]}"


def _roots() -> List[Path]:
    """The folders that may hold built extensions, the best one first."""
    named = os.environ.get("TUTTI_TORCH_CACHE")
    if named:
        return [Path(named)]
    roots = [Path(tempfile.gettempdir()) / f"tutti-{os.getuid()}"]
    with contextlib.suppress(RuntimeError):  # the user has no home
        roots.insert(0, Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutti")
    return roots


def _is_trusted(root: Path) -> bool:
    """The code in the folder is executed, so no other user may write there."""
    status = root.stat()
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o002


def _folder(key: str) -> Path:
    """The folder of an extension: one that holds it, which may be read-only, or else the first that can be written."""
    roots = _roots()
    for root in roots:
        if os.path.exists(root / key / f"{_NAME}.so") and _is_trusted(root):  # Path.exists fails without rights
            return root / key
    for root in roots:
        with contextlib.suppress(OSError):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_trusted(root):
                raise ImportError(
                    f"tutti: other users can write to {root}, where the extension for torch would be built. Set "
                    "TUTTI_TORCH_CACHE to a folder of your own."
                )
            if os.access(root, os.W_OK):
                (root / key).mkdir(mode=0o700, exist_ok=True)
                return root / key
    raise ImportError(
        f"tutti: the extension for torch would be built in {' or '.join(map(str, roots))}, where this process cannot "
        "write. Set TUTTI_TORCH_CACHE to a folder of your own."
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Holds the lock file, which the system releases if its process ends. False: there are no locks, so every process
    builds."""
    with open(path, "w") as file:
        locked = False
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            locked = True
        yield locked


def _compiler() -> str:
    named = os.environ.get("CXX")
    for name in [named] if named else ["c++", "g++", "clang++"]:
        if shutil.which(name.split()[0]):
            return name
    raise ImportError(
        "tutti: there is no C++ compiler ($CXX, c++, g++ or clang++). The backend of torch.distributed is compiled at "
        "its first use. Install one (Debian: apt install g++), or set CXX."
    )


def _command(output: Path) -> List[str]:
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").exists():
        raise ImportError(
            f"tutti: there is no {python}/Python.h. The backend of torch.distributed is compiled at its first use. "
            "Install Python's headers (Debian: apt install python3-dev)."
        )
    root = Path(torch.__file__).resolve().parent
    library = Path(_install.library())
    headers = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include", python]
    return [
        *_compiler().split(),
        *("-shared", "-fPIC", "-std=c++20", "-O2", "-fvisibility=hidden", "-Wl,--as-needed"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-DTORCH_EXTENSION_NAME={_NAME}",
        f"-I{_install.include()}",
        *(word for path in headers for word in ("-isystem", str(path))),
        str(_SOURCES / "all.cpp"),
        *("-o", str(output), str(library), f"-L{root / 'lib'}"),
        *("-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"),
    ]


# Runs a command in the shell's process group, and kills the group when standard input ends: when the process that builds
# has ended, however. A signal at that process's end would reach the compiler's driver only, not the compiler itself.
_WATCHED = """
exec 3<&0
"$@" </dev/null &
compiler=$!
{ read -r _ <&3; kill -KILL 0; } &
watcher=$!
wait $compiler
status=$?
kill $watcher 2>/dev/null
exit $status
"""


def _run(command: List[str], scratch: str) -> Tuple[int, str]:
    """The exit code of a compiler, and what it has printed. It ends with this process."""
    with subprocess.Popen(
        ["sh", "-c", _WATCHED, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": scratch},
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout and process.stdin
        try:
            text = process.stdout.read()
        finally:
            process.stdin.close()
        return process.wait(), text


def _build(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        output = Path(folder) / target.name
        command = _command(output)
        print(
            f"tutti: building the backend of torch.distributed for torch {torch.__version__}, once, in about a minute",
            file=sys.stderr,
            flush=True,
        )
        status, text = _run(command, folder)
        if status != 0:
            raise ImportError(
                f"tutti: the backend of torch.distributed cannot be built for torch {torch.__version__}. The compiler "
                f"says:\n{text[-4000:]}\nThe command was: {' '.join(command)}"
            )
        os.replace(output, target)


@functools.cache
def load() -> ModuleType:
    """The module of the extension. Builds it if there is none for this torch."""
    library = _library()
    folder = _folder(_key(library.tutti_version_string().decode()))
    target = folder / f"{_NAME}.so"
    if not target.exists():
        with _locked(folder / "lock") as locked:
            if locked:
                for left in folder.glob("build-*"):  # of a process that was killed
                    shutil.rmtree(left, ignore_errors=True)
            if not target.exists():
                _build(target)
    spec = importlib.util.spec_from_file_location(_NAME, target)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    atexit.register(module.end_futures)
    return module
