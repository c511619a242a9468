# SPDX-License-Identifier: BSD-3-Clause
"""Where the native files of this package are: libtutti, its headers, and the program `tutti`.

A wheel has them beside this file. In the source tree they come from the build folder of the repository. The environment
variable TUTTI_LIBRARY names another libtutti, for tests and for a library that is installed otherwise.
"""

import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_REPOSITORY = _PACKAGE.parent.parent


def _first(what: str, *paths: Path) -> Path:
    for path in paths:
        if path.exists():
            return path
    places = ", ".join(map(str, paths))
    raise ImportError(f"tutti: there is no {what} at {places}. Run make, or install the package: pip install ./python")


def library() -> Path:
    """The path of libtutti.so of this installation."""
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return _first("library", Path(named))
    return _first("library", _PACKAGE / "lib" / "libtutti.so.0", _REPOSITORY / "build" / "libtutti.so.0")


def include() -> Path:
    """The folder to pass to a compiler as -I: it holds tutti/tutti.h."""
    return _first("folder of headers", _PACKAGE / "include", _REPOSITORY / "include")


def program() -> Path:
    """The path of the program `tutti` of this installation."""
    return _first("program", _PACKAGE / "bin" / "tutti", _REPOSITORY / "build" / "tutti")


def main() -> None:
    """Replaces this process by the program `tutti` (the console script of the package)."""
    path = str(program())
    os.execv(path, [path, *sys.argv[1:]])
