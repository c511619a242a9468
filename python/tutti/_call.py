# SPDX-License-Identifier: BSD-3-Clause
"""The options of one call, and the state that each thread keeps for its calls."""

from __future__ import annotations

import ctypes
import math
import operator
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

from ._errors import Error, InvalidArgument, error_from, wrong_type
from ._native import CALLBACK, CallStruct, ErrorStruct

if TYPE_CHECKING:
    from typing import TypedDict

    from ._work import CancelToken

    class MessageOptions(TypedDict, total=False):
        """What every operation accepts, by name.

        timeout: deadline in seconds; when it passes, the group fails with Timeout. math.inf = none; default: the
        group's. lane: 0 to lanes-1. scale: this rank's factor of "premul_sum". stream: the device's stream, as a
        number. token: cancels this operation, too. cancellable, enqueue, handlers_on_ok, callback_anywhere: the flags
        of tutti/collectives.h. operation_id: a number for Events. on_end: called with None or the Error, once, when the
        operation has ended.
        """

        timeout: Optional[float]
        lane: int
        scale: float
        stream: Optional[int]
        token: Optional[CancelToken]
        cancellable: bool
        enqueue: bool
        handlers_on_ok: bool
        callback_anywhere: bool
        operation_id: int
        on_end: Optional[Callable[[Optional[Error]], object]]

    class Options(MessageOptions, total=False):
        """Collectives: also tag, any number, equal on all ranks; and all_reduce of float32 takes wire: "bf16" sends
        half of the bytes, "fp8" a quarter, rounded ("full" is the default).
        """

        tag: int
        wire: str


_MOST_MS = 1 << 61
_LIMITS = {"lane": 1 << 31, "tag": 1 << 32, "operation_id": 1 << 63}
WIRES = {"full": 0, "bf16": 1, "fp8": 2}
CANCELLABLE, HAS_STREAM, ENQUEUE, HANDLERS_ON_OK, CALLBACK_ANYWHERE, HAS_SCALE = 1, 2, 4, 8, 16, 32
_FLAGS = {
    "cancellable": CANCELLABLE,
    "enqueue": ENQUEUE,
    "handlers_on_ok": HANDLERS_ON_OK,
    "callback_anywhere": CALLBACK_ANYWHERE,
}


class State:
    """A thread's error, and its call with default options. The watch of _interrupt.py reads the main thread's."""

    __slots__ = ("error", "error_address", "call", "call_address", "is_main", "group", "calls", "began")

    def __init__(self) -> None:
        self.error = ErrorStruct()
        self.error_address = ctypes.addressof(self.error)
        self.call = CallStruct(size=ctypes.sizeof(CallStruct), error=self.error_address)
        self.call_address = ctypes.addressof(self.call)
        self.is_main = threading.current_thread() is threading.main_thread()
        self.group: Optional[int] = None  # the group of the call that this thread is in
        self.calls = 0  # calls of this thread
        self.began = 0  # time of the last one, in nanoseconds by time.time_ns


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = State()


local = _Local()


def integer(value: Any, what: str) -> int:
    """The argument `what` as an int, also one of NumPy's."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(what, value, "an integer") from None


def integers(values: Any, what: str) -> list[int]:
    """The argument `what`, a sequence of integers."""
    try:
        found = list(values)
    except TypeError:
        raise wrong_type(what, values, "a sequence of integers") from None
    return [integer(value, f"{what}[{index}]") for index, value in enumerate(found)]


def encoded(value: Any, what: str) -> bytes:
    """The argument `what`, a string, as the library reads it."""
    if not isinstance(value, str):
        raise wrong_type(what, value, "a string")
    return value.encode()


def _real(value: Any, what: str, wanted: str) -> Any:
    """The argument `what`, unless it is no real number."""
    try:
        math.isnan(value)
    except TypeError:
        raise wrong_type(what, value, wanted) from None
    return value


def int32(value: Any, what: str) -> int:
    """An int32_t of the library. ctypes would cut a larger number without a word, and refuse NumPy's integers."""
    number = integer(value, what)
    if -(1 << 31) <= number < 1 << 31:
        return number
    raise InvalidArgument(f"tutti: {what} is {number}, which is out of range")


def deadline_ms(timeout: Optional[float]) -> int:
    """A deadline as the library takes it: 0 = the group's, -1 = none."""
    if timeout is None:
        return 0
    if timeout == math.inf:
        return -1
    if not _real(timeout, "timeout", "a number of seconds") > 0:
        raise InvalidArgument(f"tutti: the timeout is {timeout} s; it is above 0, or math.inf for none")
    return max(1, math.ceil(min(timeout * 1000, _MOST_MS)))


def limit_ms(timeout: Optional[float]) -> int:
    """A limit of a wait: None = forever, 0 = do not wait."""
    if timeout is None or timeout == math.inf:
        return -1
    if not _real(timeout, "timeout", "a number of seconds") >= 0:
        raise InvalidArgument(f"tutti: the limit is {timeout} s; it is at least 0, or None for none")
    return math.ceil(min(timeout * 1000, _MOST_MS))


def wire_number(name: str) -> int:
    """A tutti_wire by its name."""
    if not isinstance(name, str) or name not in WIRES:
        raise InvalidArgument(f"tutti: wire is {name!r}; it is one of {', '.join(WIRES)}")
    return WIRES[name]


def call_struct(error_address: int, options: Any) -> Tuple[int, Any]:
    """(address of a tutti_call, what has to stay alive until the operation's end)."""
    call = CallStruct(size=ctypes.sizeof(CallStruct), error=error_address)
    keep: list[Any] = [call]
    for name, value in options.items():
        if name == "timeout":
            call.timeout_ms = deadline_ms(value)
        elif name in _LIMITS:
            number = integer(value, name)
            if not 0 <= number < _LIMITS[name]:
                raise InvalidArgument(f"tutti: {name} is {number}; it is at least 0 and below {_LIMITS[name]}")
            setattr(call, name, number)
        elif name == "scale":
            call.scale = _real(value, "scale", "a number")
            call.flags |= HAS_SCALE if value == 0 else 0  # without the flag 0 means 1; flags make a call slower
        elif name == "wire":
            call.wire = wire_number(value)
        elif name == "stream":
            if value is not None:
                call.flags |= HAS_STREAM
                call.stream = integer(value, "stream")
        elif name == "token":
            if value is not None:
                call.token = token_handle(value, "token")
                keep.append(value)
        elif name in _FLAGS:
            call.flags |= _FLAGS[name] if value else 0
        elif name == "on_end":
            if value is not None:
                call.callback = end_callback(value)
                keep.append(call.callback)
        else:
            raise TypeError(f"unknown option {name!r}")
    return ctypes.addressof(call), keep


def token_handle(token: Any, what: str) -> int:
    """The handle of the argument `what`, a CancelToken."""
    from ._work import CancelToken

    if not isinstance(token, CancelToken):
        raise wrong_type(what, token, "a CancelToken")
    return token.handle


def end_callback(function: Callable[[Optional[Error]], object]) -> Any:
    """A tutti_callback that passes the error, or None, to `function`."""
    if not callable(function):
        raise wrong_type("on_end", function, "a function of the error or None")

    def ended(status: int, details: int, _user: object) -> None:
        error = error_from(ErrorStruct.from_buffer_copy(ErrorStruct.from_address(details))) if status else None
        function(error)

    return CALLBACK(ended)
