# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that are described once and run again and again: tutti/persistent.h."""

from __future__ import annotations

from ctypes import addressof, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, Sequence, TypeVar

from ._call import call_struct, local
from ._dropped import leak_at_exit
from ._errors import Error, InvalidArgument, WaitLimit, checked, fail
from ._native import ErrorStruct, PersistentOpStruct, lib
from ._status import BUSY
from ._work import sliced

if TYPE_CHECKING:
    from ._operation import Operations

T = TypeVar("T")

# The kinds that have a persistent form, and what a method hands to its function, in its order.
KINDS = {
    "all_reduce": (1, ("input", "output", "op")),
    "reduce": (2, ("input", "output", "op", "root")),
    "broadcast": (3, ("output", "root")),
    "all_gather": (4, ("input", "output", "dim")),
    "gather": (5, ("input", "output", "dim", "root")),
    "scatter": (6, ("input", "output", "dim", "root")),
    "reduce_scatter": (7, ("input", "output", "op", "dim")),
    "all_to_all": (8, ("input", "output", "dim")),
    "barrier": (9, ()),
}


class PersistentOp:
    """One collective of a list, for Group.persistent: the name of its method, and the arguments of that method."""

    def __init__(self, name: str, *arguments: Any, **keywords: Any):
        if name not in KINDS:
            raise InvalidArgument(f"tutti: {name!r} has no persistent form; these have: {', '.join(KINDS)}")
        self.name, self.arguments, self.keywords = name, arguments, keywords


class Described:
    """An operation with its arrays as the library takes them."""

    def __init__(self, name: str, arguments: Sequence[Any], output: Any, keep: Any):
        kind, fields = KINDS[name]
        self.struct = PersistentOpStruct(kind=kind, **dict(zip(fields, arguments)))
        self.output, self.keep = output, keep


_dropped: list[tuple[int, Any]] = []  # objects that were released while they ran, with what they borrow


def _reap() -> None:
    """Releases those that have ended."""
    for _ in range(len(_dropped)):
        try:
            handle, keep = _dropped.pop(0)
        except IndexError:
            return
        if lib.tutti_persistent_wait(handle, 0, None) == BUSY:
            _dropped.append((handle, keep))
        else:
            lib.tutti_persistent_release(handle, None)


def end_dropped(group: Optional[int], wait: Callable[[Callable[[int], int]], object]) -> None:
    """Ends the released objects of a group, or of all, that still run: as end_dropped of _work.py does."""
    for handle, keep in list(_dropped):
        if group in (keep[-1].handle, None):
            wait(lambda limit, handle=handle: int(lib.tutti_persistent_wait(handle, limit, None)))
    _reap()


leak_at_exit(lambda: _dropped)


class Persistent(Generic[T]):
    """One collective, made by Group.NAME_init, or a list of them, made by Group.persistent.

    `run` runs it to its end; `start` and `wait` do so beside a computation. Both return the output, of a list the
    outputs in its order. The arrays are converted and checked once, and borrowed until `release`: their data may
    change between runs, their addresses, shapes and options may not.

    `with world.all_reduce_init(x) as reduction:` releases it at the end of the block.
    """

    def __init__(self, group: Operations, operations: Sequence[Described], output: T, options: Any):
        if _dropped:
            _reap()
        structs = (PersistentOpStruct * max(len(operations), 1))(*(operation.struct for operation in operations))
        state, made = local.state, c_void_p()
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        status = lib.tutti_persistent_init(group.handle, addressof(structs), len(operations), call, addressof(made))
        if status:
            fail(status, state.error)
        self.handle: int = made.value or 0
        self._group = group
        self._keep = (kept, [operation.keep for operation in operations], group)
        self._output = output
        self._running = False

    def run(self) -> T:
        """Runs all operations, and returns the output. Raises the first error in their order."""
        state = local.state
        if state.is_main and self._group._in_slices(state):
            self.start()
            try:
                return self.wait()
            except Error:
                raise
            except BaseException:
                lib.tutti_group_abort(self._group.handle, None)
                raise
        status = self._group._enter(lib.tutti_persistent_run, self.handle, state.error_address)
        if status:
            fail(status, state.error)
        return self._output

    def start(self) -> None:
        """Starts all operations and returns. BadState if it runs."""
        checked(lib.tutti_persistent_start, self.handle)
        self._running = True

    def wait(self, timeout: Optional[float] = None) -> T:
        """Waits for the end, at most `timeout` seconds, and returns the output. Again: the same again.

        Raises the first error in the order of the operations; WaitLimit (a TimeoutError) at the limit: it runs on.
        """
        details = ErrorStruct()
        if self._running:
            status = sliced(
                lambda limit: int(lib.tutti_persistent_wait(self.handle, limit, addressof(details))), timeout
            )
            if status == BUSY:
                raise WaitLimit(f"tutti: the persistent operation has not ended within {timeout} s; it goes on")
            self._running = False
        else:  # never started, has ended, or another thread runs it
            status = lib.tutti_persistent_wait(self.handle, 0, addressof(details))
        if status:
            fail(status, details)
        return self._output

    def cancel(self) -> None:
        """Cancels the operations that have not begun: they end Cancelled on all ranks. TooLate if one has begun."""
        checked(lib.tutti_persistent_cancel, self.handle)

    def release(self) -> None:
        """Gives it back. If it runs, it goes on to its end, and borrows its arrays until then."""
        if self._running and lib.tutti_persistent_wait(self.handle, 0, None) == BUSY:
            _dropped.append((self.handle, self._keep))
        else:
            checked(lib.tutti_persistent_release, self.handle)
        self.handle, self._running = 0, False
        self._keep = None  # type: ignore[assignment]

    def __del__(self) -> None:
        if getattr(self, "handle", 0) and _dropped is not None:
            try:
                self.release()
            except Error:  # made before a fork
                pass

    def __enter__(self) -> Persistent[T]:
        return self

    def __exit__(self, *_rest: object) -> None:
        if self.handle:
            self.release()
