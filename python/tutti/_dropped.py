# SPDX-License-Identifier: BSD-3-Clause
"""Objects of a group that the library uses until they are destroyed, also if Python's object is gone before."""

from __future__ import annotations

import atexit
import ctypes
from typing import Any, Callable, Iterable

from ._status import BAD_STATE, OK


def leak_at_exit(find: Callable[[], Iterable[Any]]) -> None:
    """The threads of the library may use what `find` returns while the interpreter ends: it must stay."""

    def leak() -> None:
        for owner in list(find()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))

    atexit.register(leak)


class Registry:
    """Objects of one kind: what each borrows, and those whose Python object is gone. They end before their group."""

    def __init__(self, destroy: Callable[[int, None], int]):
        self._destroy = destroy
        self._borrowed: dict[int, Any] = {}  # handle -> what the library uses
        self._dropped: dict[int, set[int]] = {}  # group -> handles
        leak_at_exit(self._borrowed.values)

    def keep(self, handle: int, borrowed: Any) -> None:
        self._borrowed[handle] = borrowed

    def drop(self, group: int, handle: int) -> None:
        """The Python object is gone, and was not destroyed."""
        self._dropped.setdefault(group, set()).add(handle)

    def destroyed(self, handle: int) -> None:
        self._borrowed.pop(handle, None)

    def end(self, group: int, enter: Callable[..., int]) -> None:
        """Destroys the dropped ones, since they would keep the group busy: by enter(function, *arguments)."""
        dropped = self._dropped.get(group, set())
        for handle in list(dropped):
            # BAD_STATE: KeyboardInterrupt came right after the call that destroyed it
            if enter(self._destroy, handle, None) in (OK, BAD_STATE):
                self.destroyed(handle)
                dropped.discard(handle)
        if not dropped:
            self._dropped.pop(group, None)
