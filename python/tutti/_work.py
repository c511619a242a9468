# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous operations: the handle, tasks of the caller, cancel tokens, and a queue of works.

The library borrows the arrays of an operation until it has ended. `_running` keeps them alive, also if the Work is
dropped; entries of ended operations are removed when the next one starts.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from ctypes import addressof, c_int, c_int32, c_int64, c_void_p
from functools import partial
from typing import Any, Callable, Generator, Generic, Iterator, Optional, TypeVar

from ._call import limit_ms, local, token_handle
from ._dropped import leak_at_exit
from ._errors import BadState, CLASSES, Error, WaitLimit, checked, error_of, fail
from ._native import ErrorStruct, lib
from ._status import BAD_STATE, BUSY, CANCELLED

_SLICE_MS = 100  # the main thread runs signal handlers so often while it waits
T = TypeVar("T")

_running: dict[int, Any] = {}  # handle -> what the operation borrows
_dropped: list[tuple[int, int]] = []  # (group, handle) of running operations without a Work


def _reap() -> None:
    """Releases dropped works that have ended."""
    for entry in list(_dropped):
        if _has_ended(entry[1]):
            try:
                _dropped.remove(entry)
            except ValueError:  # another thread has released it
                continue
            _running.pop(entry[1], None)
            lib.tutti_work_release(entry[1])


def end_dropped(group: Optional[int], wait: Callable[[Callable[[int], int]], object]) -> None:
    """Ends the dropped works of a group, or of all: wait(function of the limit in ms). No caller can wait for them."""
    for owner, handle in list(_dropped):
        if owner and group in (owner, None):
            wait(partial(lib.tutti_work_wait, handle))
    _reap()


def _read(function: Any, handle: int, value: Any) -> int:
    """The number that a function of the library without a tutti_error writes into `value`, a c_int32 or c_int64."""
    status = function(handle, addressof(value))
    if status:
        fail(status)
    return int(value.value)


def _has_ended(handle: int) -> bool:
    ended = c_int32()
    return lib.tutti_work_test(handle, addressof(ended)) != 0 or ended.value != 0


def _drop(group: int, handle: int) -> None:
    """The end of a Work's life. The operation may go on."""
    if handle in _running and not _has_ended(handle):
        _dropped.append((group, handle))
        return
    _running.pop(handle, None)
    lib.tutti_work_release(handle)


leak_at_exit(_running.values)


def sliced(wait: Callable[[int], int], timeout: Optional[float]) -> int:
    """Calls wait(limit in ms) in slices, so that signal handlers run. Returns its status: BUSY at the timeout."""
    left = limit_ms(timeout)
    until = time.monotonic() + left / 1000
    while True:
        status = wait(min(left, _SLICE_MS) if left >= 0 else _SLICE_MS)
        if status != BUSY:
            return status
        left = left if left < 0 else max(0, int((until - time.monotonic()) * 1000))
        if left == 0:
            return BUSY


class Work(Generic[T]):
    """An operation that runs. Wait for it by `wait`, or in asyncio by `await work`; both return its output."""

    def __init__(self, group: int, handle: int, keep: Any, output: Callable[[], T]):
        if _dropped:
            _reap()
        _running[handle] = keep
        self._group = group  # 0: destroying the group does not wait for it
        self.handle = handle
        self._output = output
        self._owned = True  # not by a queue

    def __del__(self) -> None:
        if self._owned and _drop is not None:
            _drop(self._group, self.handle)

    def test(self) -> bool:
        """Whether the operation has ended. Never waits."""
        ended = c_int32()
        status = lib.tutti_work_test(self.handle, addressof(ended))
        if status:
            raise BadState("tutti: the work was released")
        if ended.value:
            _running.pop(self.handle, None)
        return bool(ended.value)

    done = test

    def wait(self, timeout: Optional[float] = None, token: Optional[CancelToken] = None) -> T:
        """Waits for the end, at most `timeout` seconds, and returns the output.

        Raises the operation's error; WaitLimit (a TimeoutError) at the limit: the operation goes on. If `token` fires,
        raises Cancelled with scope "call", and the operation goes on.
        """
        left = -1 if timeout is None else limit_ms(timeout)
        until = time.monotonic() + left / 1000 if left > 0 else 0.0
        error = ErrorStruct() if token is not None else local.state.error
        stop = token_handle(token, "token") if token is not None else 0
        while True:
            limit = _SLICE_MS if local.state.is_main and not 0 <= left <= _SLICE_MS else left
            if token is not None:
                status = lib.tutti_work_wait_token(self.handle, limit, stop, addressof(error))
            else:
                status = lib.tutti_work_wait(self.handle, limit)
            if status == 0:
                _running.pop(self.handle, None)
                return self._output()
            if self.test():
                return self._finish()
            if status != BUSY:  # the token has fired, or this thread may not wait
                fail(status, error if token is not None else None)
            if left >= 0:
                left = max(0, int((until - time.monotonic()) * 1000))
                if left == 0:
                    raise WaitLimit(f"tutti: the operation has not ended within {timeout} s; it goes on")

    def _finish(self) -> T:
        problem = self.error()
        if problem is not None:
            raise problem
        return self._output()

    def error(self) -> Optional[Error]:
        """The operation's error, None if it ended well. BadState before the end."""
        error = error_of(lib.tutti_work_error, self.handle)
        _running.pop(self.handle, None)
        return error

    def result(self) -> T:
        """The output, without waiting. BadState before the end; the operation's error if it failed."""
        return self._finish()

    def cancel(self) -> None:
        """Cancels an operation that has not begun: it ends Cancelled on all ranks. TooLate if it has begun."""
        checked(lib.tutti_work_cancel, self.handle)

    def cancelled(self) -> bool:
        """Whether it has ended Cancelled, or will because of a cancel on this rank."""
        return bool(_read(lib.tutti_work_cancelled, self.handle, c_int32()))

    def fileno(self) -> int:
        """A descriptor for select, poll and epoll, readable from the end on. It belongs to the Work."""
        fd = c_int()
        checked(lib.tutti_work_eventfd, self.handle, addressof(fd))
        return fd.value

    def wait_stream(self, stream: Optional[int] = None) -> None:
        """Makes work that is queued later on the device's stream wait for the end of this operation."""
        checked(lib.tutti_work_wait_stream, self.handle, stream)

    def __await__(self) -> Generator[Any, None, T]:
        """`await work` in asyncio. If the task is cancelled, the operation goes on."""
        if not self.test():
            yield from self._ended().__await__()
        return self._finish()

    async def _ended(self) -> None:
        import asyncio  # here, because it is larger than this package

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        fd = os.dup(self.fileno())  # a loop has one reader for a descriptor, and several tasks may wait
        try:
            loop.add_reader(fd, lambda: None if future.done() else future.set_result(None))
            await future
        finally:
            loop.remove_reader(fd)
            os.close(fd)


class Task(Work[T]):
    """A work that the caller completes: `group.task()`. It is waited for, awaited and queued like an operation."""

    def complete(self, status: str = "OK", message: Optional[str] = None) -> None:
        """Ends the work, from any thread: with a status of tutti.Error.status ("CANCELLED", ...) and a sentence."""
        number = 0 if status == "OK" else {lib.tutti_status_name(code).decode(): code for code in CLASSES}.get(status)
        if number is None:
            raise ValueError(f"{status!r} is no status")
        checked(lib.tutti_work_complete, self.handle, number, None if message is None else message.encode())


class CancelToken:
    """Cancels many operations together: `token=` of their calls.

    timeout: the token fires so many seconds after its creation; None: never by itself. parent: fires this one, too.
    """

    def __init__(self, timeout: Optional[float] = None, parent: Optional[CancelToken] = None):
        token = c_void_p()
        above = token_handle(parent, "parent") if parent is not None else None
        checked(lib.tutti_cancel_token_create, above, limit_ms(timeout), addressof(token))
        self.handle: int = token.value or 0
        self._destroy = weakref.finalize(self, lib.tutti_cancel_token_destroy, self.handle, None)
        self._destroy.atexit = False

    def cancel(self) -> int:
        """Fires the token. Returns how many operations had begun, and so go on."""
        began = c_int64()
        checked(lib.tutti_cancel_token_cancel, self.handle, addressof(began))
        return began.value

    def fired(self) -> bool:
        return bool(_read(lib.tutti_cancel_token_fired, self.handle, c_int32()))


class Queue:
    """Waits for many works together, in the order of `add`. A work in a queue is used by the queue only.

    `with tutti.Queue() as queue:` waits for all of them at the end of the block.
    """

    def __init__(self) -> None:
        queue = c_void_p()
        checked(lib.tutti_queue_create, addressof(queue))
        self.handle: int = queue.value or 0
        self._members: list[Work[Any]] = []
        self._lock = threading.Lock()

    def add(self, work: Work[Any]) -> None:
        with self._lock:
            checked(lib.tutti_queue_enqueue, self.handle, work.handle)
            work._owned = False  # the queue releases it
            self._members.append(work)

    def __len__(self) -> int:
        """Members, ended or not."""
        return _read(lib.tutti_queue_count, self.handle, c_int64())

    def pending(self) -> int:
        """Members that have not ended."""
        return _read(lib.tutti_queue_pending, self.handle, c_int64())

    def wait_all(self, timeout: Optional[float] = None) -> None:
        """Waits until every member has ended. Raises the first error in their order; WaitLimit at the limit."""
        error = ErrorStruct()
        status = sliced(lambda limit: int(lib.tutti_queue_wait_all(self.handle, limit, addressof(error))), timeout)
        if status == BUSY:
            raise WaitLimit(f"tutti: {self.pending()} works of the queue have not ended within {timeout} s")
        if status:
            fail(status, error)

    def wait_any(self, timeout: Optional[float] = None) -> Optional[int]:
        """Waits until a member has ended, and returns its index; None at the limit or if the queue is empty."""
        index, error = c_int64(-1), ErrorStruct()

        def wait(limit: int) -> int:
            status = lib.tutti_queue_wait_any(self.handle, limit, addressof(index), addressof(error))
            return BUSY if status == 0 and index.value < 0 and len(self) else int(status)

        status = sliced(wait, timeout)
        if status not in (0, BUSY):
            fail(status, error)
        return index.value if index.value >= 0 else None

    def error(self, index: int) -> Optional[Error]:
        """The error of member `index`, None if it ended well. BadState before its end."""
        return error_of(lib.tutti_queue_status, self.handle, index)

    def result(self, index: int) -> Any:
        """The output of member `index`."""
        problem = self.error(index)
        if problem is not None:
            raise problem
        return self._members[index]._output()

    def clear_completed(self) -> int:
        """Releases the members that have ended, and returns their number. Later members get lower indices."""
        with self._lock:
            ended = [work for work in self._members if _has_ended(work.handle)]
            cleared = _read(lib.tutti_queue_clear_completed, self.handle, c_int64())
            # Works that ended in between were released, too: their handles are stale, which counts as ended.
            self._members = [work for work in self._members if not self._is_gone(work)]
            for work in ended:
                _running.pop(work.handle, None)
        return cleared

    @staticmethod
    def _is_gone(work: Work[Any]) -> bool:
        ended = c_int32()
        return bool(lib.tutti_work_test(work.handle, addressof(ended)) == BAD_STATE)

    def cancel_all(self) -> int:
        """Cancels each member that has not begun, and returns how many had begun or cannot be cancelled."""
        return _read(lib.tutti_queue_cancel_all, self.handle, c_int64())

    def destroy(self) -> None:
        """Waits for the members, then releases them and the queue. Their errors are dropped."""
        if not self.handle:
            raise BadState("tutti: the queue was destroyed before")
        while self.pending():
            try:
                self.wait_all(1)
            except Error:
                pass
        checked(lib.tutti_queue_destroy, self.handle)
        self.handle = 0
        for work in self._members:
            _running.pop(work.handle, None)
        self._members = []

    def __del__(self) -> None:
        # A queue with pending works stays, and so do their arrays.
        if getattr(self, "handle", 0) and not self.pending():
            self.destroy()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        if kind is not None:
            self.cancel_all()
        try:
            if kind is None:
                self.wait_all()
        finally:
            self.destroy()

    def __iter__(self) -> Iterator[Work[Any]]:
        return iter(list(self._members))
