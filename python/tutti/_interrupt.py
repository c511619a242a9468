# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while the main thread waits inside the library.

Python runs signal handlers in the main thread, between two bytecodes: not while that thread is in a call of C. A daemon
thread reads the descriptor of signal.set_wakeup_fd, to which Python's C handler writes each signal at once. If SIGINT
has Python's own handler, which raises KeyboardInterrupt, and the main thread is still in the same call 50 ms later, the
daemon thread aborts the group of that call. The call returns REVOKED, and Python raises KeyboardInterrupt in its place.
The main thread may not have entered the library yet, and agree ends only by an abort that comes during it. So the daemon
thread aborts again and again, until the call has returned.
The daemon thread may run late. A call that began after the signal is not aborted: the main thread has run Python since,
and so it has run the handler. The descriptor is a socket, whose messages carry the time of the signal.

The other ranks get Revoked instead of a wait until the deadline, which is right: this rank has left the operation. A
program's own handler of SIGINT may go on, so nothing may be aborted before it has run. While there is one, operations
of the main thread are started and awaited in slices, between which handlers run. A call that cannot be started is made by
another thread: in_thread_until_abort.

An abort does not end the making of a group: see in_other_thread.
"""

import _signal  # type: ignore[import-not-found]
import os
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any, Callable, List, Optional, Tuple, Union

from ._native import lib

_GRACE = 0.05
_CHECK_NS = 1_000_000  # asking whether the wakeup descriptor is still this module's takes 5 µs: once a millisecond
_SLICE = 0.1  # the main thread runs signal handlers so often while another one makes its call
_SO_TIMESTAMPNS = 35  # of Linux
_SIGINT = int(signal.SIGINT)
# Every call of the main thread asks for the handler: signal.getsignal takes 2 µs to look for an enum, this one 0.03.
_getsignal = _signal.getsignal
armed = False
_refused = False
_write = -1
_checked_ns = 0


def watches(main: Any) -> bool:
    """In the main thread: whether the watch would end a call that waits, or SIGINT has no handler in Python."""
    if not armed:
        arm(main)
    elif time.monotonic_ns() - _checked_ns > _CHECK_NS:
        _check()
    handler = _getsignal(_SIGINT)
    return armed and (handler is signal.default_int_handler or not callable(handler))


def arm(main: Any) -> None:
    """Starts the watch, if the wakeup descriptor is free. `main.group` is the group of the main thread's call."""
    global armed, _refused, _write
    if armed or _refused:
        return
    receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sender.setblocking(False)
    if not _take_descriptor(sender.fileno()):
        receiver.close()
        sender.close()
        _refused = True
        return
    armed, _write = True, sender.detach()
    threading.Thread(target=_watch, args=(receiver, main), name="tutti-interrupt", daemon=True).start()
    os.register_at_fork(after_in_child=_forked)


def _take_descriptor(write: int) -> bool:
    """Makes Python write signals to this descriptor, unless the program has one of its own."""
    try:
        previous = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    except ValueError:  # an interpreter that gets no signals
        return False
    if previous in (write, -1):
        return True
    signal.set_wakeup_fd(previous)
    return False


def _check() -> None:
    """Ends the watch if the program has set its own wakeup descriptor since, as asyncio's add_signal_handler does."""
    global armed, _refused, _checked_ns
    _checked_ns = time.monotonic_ns()
    armed = _take_descriptor(_write)
    _refused = not armed


def _forked() -> None:
    """The child has no watch thread, and must not write to the parent's."""
    global armed
    if armed:
        armed = False
        previous = signal.set_wakeup_fd(-1)
        if previous != _write:
            signal.set_wakeup_fd(previous)


def _watch(receiver: socket.socket, main: Any) -> None:
    while True:
        number, times, _, _ = receiver.recvmsg(1, socket.CMSG_SPACE(16))
        if times and _nanoseconds(times[0][2]) < main.began:
            continue
        if number[0] == _SIGINT and _getsignal(_SIGINT) is signal.default_int_handler:
            before: Optional[int] = main.group
            calls = main.calls
            if before:
                time.sleep(_GRACE)
                while main.group == before and main.calls == calls:
                    lib.tutti_group_abort(before, None)
                    time.sleep(_GRACE)


def _nanoseconds(timespec: bytes) -> int:
    seconds, rest = struct.unpack("qq", timespec)
    return int(seconds * 1000000000 + rest)


def in_other_thread(call: Callable[[], int], stays: Callable[[], bool]) -> int:
    """Runs a call that nothing can end early, such as a rendezvous, in a thread; the caller waits, and takes signals.

    After Ctrl-C the thread goes on until the call's deadline. `stays`: whether the thread has to live as long as what
    it made: a rank that is a thread leaves its group when that thread ends.
    """
    outcome, ended = _start_thread(call, stays)
    _wait_in_slices(ended)
    return _result(outcome)


def in_thread_until_abort(call: Callable[[], int], abort: Callable[[], object]) -> int:
    """Runs a call that `abort` ends in a thread; the caller waits, and takes signals.

    An exception of a signal handler aborts the call. It is raised when the call has returned, because the call writes to
    the caller's memory; until then further exceptions of handlers are dropped.
    """
    outcome, ended = _start_thread(call, lambda: False)
    try:
        _wait_in_slices(ended)
    except BaseException:
        while not ended.is_set():
            with suppress(BaseException):
                abort()
                ended.wait(_GRACE)
        raise
    return _result(outcome)


def _start_thread(
    call: Callable[[], int], stays: Callable[[], bool]
) -> Tuple[List[Union[int, BaseException]], threading.Event]:
    outcome: List[Union[int, BaseException]] = []
    ended = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as problem:  # for the caller, which would wait for ever
            outcome.append(problem)
        ended.set()
        if stays():
            threading.Event().wait()

    threading.Thread(target=run, name="tutti-call", daemon=True).start()
    return outcome, ended


def _result(outcome: List[Union[int, BaseException]]) -> int:
    """What the call has returned; or raises its exception."""
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def _wait_in_slices(ended: threading.Event) -> None:
    """The kernel may give a signal of the process to another thread, which ends no wait of this one."""
    while not ended.wait(_SLICE):
        pass
