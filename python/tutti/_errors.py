# SPDX-License-Identifier: BSD-3-Clause
"""One exception for each status of tutti/status.h. Those with a counterpart in Python are also that exception."""

import ctypes
import reprlib
from typing import Any, Dict, NoReturn, Optional, Tuple, Type

from . import _status
from ._native import ErrorStruct, lib

# fmt: off
__all__ = [
    "Error", "InvalidArgument", "BadState", "Busy", "WaitLimit", "WouldDeadlock", "Unsupported", "NotAvailable",
    "NotFound", "NoMemory", "NoResource", "DeviceMismatch", "Mismatch", "Cancelled", "TooLate", "RankTaken",
    "Version", "Auth", "Protocol", "Forked", "System", "Backend", "Internal", "Timeout", "PeerLeft", "PeerDead",
    "PeerCrashing", "PeerCorrupt", "Revoked",
]
# fmt: on


class Error(Exception):
    """A failed call. The text is the library's sentence: rank, operation, peer, times.

    status: the name of the status, such as "TIMEOUT"; code: its number. rank: this rank in its group, -1 if it is not
    known yet. suspect: the rank that is the most likely cause, -1 if unknown. operation: "all_reduce" and so on.
    sequence: number of the call in its lane, from 1; 0 = none. scope: the object that is unusable now: "call", "work",
    "group" or "process". elapsed and deadline: seconds; deadline is None without one. vendor_code: errno, or the code
    of the library behind the backend.
    """

    code: int = _status.OK

    def __init__(self, message: str, details: Optional[ErrorStruct] = None):
        super().__init__(message)
        found = details if details is not None else ErrorStruct(status=self.code, rank=-1, suspect=-1, deadline_ms=-1)
        self.code = found.status
        self.status: str = lib.tutti_status_name(found.status).decode()
        self.scope: str = _SCOPES[found.scope] if 0 <= found.scope < len(_SCOPES) else "call"
        self.operation: str = lib.tutti_operation_name(found.operation).decode()
        self.sequence: int = found.sequence
        self.rank: int = found.rank
        self.suspect: int = found.suspect
        self.elapsed: float = found.elapsed_ms / 1000
        self.deadline: Optional[float] = found.deadline_ms / 1000 if found.deadline_ms >= 0 else None
        self.vendor_code: int = found.vendor_code
        self.backend: str = found.backend.decode()

    def __reduce__(self) -> Tuple[object, ...]:
        return _restore, (type(self), str(self), dict(self.__dict__))


def wrong_type(what: str, value: Any, wanted: str) -> TypeError:
    """The exception for an argument of another type than the one it must have."""
    return TypeError(f"tutti: {what} is {reprlib.repr(value)} ({type(value).__name__}); it must be {wanted}")


def _restore(kind: Type[Error], message: str, fields: Dict[str, object]) -> Error:
    error = kind(message)
    error.__dict__.update(fields)
    return error


_SCOPES = ("call", "work", "group", "process")


class InvalidArgument(Error, ValueError):
    """An argument is outside what the function accepts."""

    code = _status.INVALID_ARGUMENT


class BadState(Error, RuntimeError):
    """The object is not in a state that allows this call, or it was destroyed."""

    code = _status.BAD_STATE


class Busy(Error):
    """Operations are still pending."""

    code = _status.BUSY


class WaitLimit(Busy, TimeoutError):
    """The `timeout` of a wait has passed. The operation goes on; wait again, or cancel it."""


class WouldDeadlock(Error, RuntimeError):
    """Waiting here could never end, as in a callback of the group."""

    code = _status.WOULD_DEADLOCK


class Unsupported(Error, NotImplementedError):
    """The backend of this group cannot do this."""

    code = _status.UNSUPPORTED


class NotAvailable(Error):
    """The backend cannot be used on this machine."""

    code = _status.NOT_AVAILABLE


class NotFound(Error, LookupError):
    """There is nothing of that name."""

    code = _status.NOT_FOUND


class NoMemory(Error, MemoryError):
    """Out of memory."""

    code = _status.NO_MEMORY


class NoResource(Error, OSError):
    """Out of descriptors, threads or another limited resource."""

    code = _status.NO_RESOURCE


class DeviceMismatch(Error, ValueError):
    """The tensor lies on another device than the group works on."""

    code = _status.DEVICE_MISMATCH


class Mismatch(Error, ValueError):
    """The ranks called different operations, or with different arguments. The group stays usable."""

    code = _status.MISMATCH


class Cancelled(Error):
    """The operation was cancelled before it started."""

    code = _status.CANCELLED


class TooLate(Error):
    """The operation has started and cannot be cancelled."""

    code = _status.TOO_LATE


class RankTaken(Error):
    """Another process has claimed this rank."""

    code = _status.RANK_TAKEN


class Version(Error):
    """The ranks use different versions."""

    code = _status.VERSION


class Auth(Error, PermissionError):
    """The other side belongs to another user or holds another token."""

    code = _status.AUTH


class Protocol(Error, ConnectionError):
    """The other side sent something that is not in the protocol."""

    code = _status.PROTOCOL


class Forked(Error, RuntimeError):
    """The handle was made by the parent process."""

    code = _status.FORKED


class System(Error, OSError):
    """The operating system refused; vendor_code holds errno."""

    code = _status.SYSTEM


class Backend(Error):
    """The library behind the backend failed; vendor_code holds its code."""

    code = _status.BACKEND


class Internal(Error):
    """A defect in Tutti."""

    code = _status.INTERNAL


class Timeout(Error, TimeoutError):
    """The deadline passed; the text names the missing ranks. The group has failed."""

    code = _status.TIMEOUT


class PeerLeft(Error, ConnectionError):
    """A rank destroyed its group or ended while others still needed it."""

    code = _status.PEER_LEFT


class PeerDead(Error, ConnectionError):
    """A rank's process has died."""

    code = _status.PEER_DEAD


class PeerCrashing(PeerDead):
    """A rank's process is writing a core dump."""

    code = _status.PEER_CRASHING


class PeerCorrupt(Error, ConnectionError):
    """A rank published values that cannot be."""

    code = _status.PEER_CORRUPT


class Revoked(Error):
    """The group failed earlier; the text says why."""

    code = _status.REVOKED


def _classes(base: Type[Error]) -> Dict[int, Type[Error]]:
    found: Dict[int, Type[Error]] = {}
    for kind in base.__subclasses__():
        if "code" in vars(kind):
            found[kind.code] = kind
        found.update(_classes(kind))
    return found


CLASSES = _classes(Error)


def error_from(details: ErrorStruct) -> Error:
    """The exception for the details of a failure."""
    message = details.message.decode(errors="replace") or lib.tutti_status_string(details.status).decode()
    return CLASSES.get(details.status, Error)(message, details)


def fail(status: int, details: Optional[ErrorStruct] = None) -> NoReturn:
    """Raises the exception for a status and, if the call gave them, its details."""
    if details is not None and details.status == status:
        raise error_from(ErrorStruct.from_buffer_copy(details))
    raise error_from(ErrorStruct(status=status, rank=-1, suspect=-1, deadline_ms=-1))


def checked(function: object, *arguments: object) -> None:
    """Calls a function of the library that takes a tutti_error last, and raises its failure."""
    details = ErrorStruct()
    status = function(*arguments, ctypes.addressof(details))  # type: ignore[operator]
    if status:
        fail(status, details)


def error_of(function: object, *arguments: object) -> Optional[Error]:
    """The failure that a function of the library writes into the tutti_error that it takes last; None if it is OK."""
    details = ErrorStruct()
    status = function(*arguments, ctypes.addressof(details))  # type: ignore[operator]
    if status:
        fail(status, details)
    return error_from(details) if details.status else None
