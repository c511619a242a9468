# SPDX-License-Identifier: BSD-3-Clause
"""Handlers that run when asynchronous operations end, on the thread that ended them."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from ._dropped import Registry
from ._errors import Error, checked, error_from
from ._native import EVENT_HANDLER, ErrorStruct, EventStruct, lib

if TYPE_CHECKING:
    from ._group import Group


class Event(NamedTuple):
    """An operation that has ended."""

    operation: str
    operation_id: int
    lane: int
    error: Optional[Error]


Handler = Callable[[Event], object]
registry = Registry(lib.tutti_events_destroy)


class _Handler:
    def __init__(self, function: Handler, once: bool):
        self.function, self.once, self.listener = function, once, 0


def _trampoline(handlers: dict[int, _Handler], keys: dict[int, int]) -> Any:
    """The C function of all handlers of an object. It lives as long as the object, since C may be about to return from it."""

    def call(address: int, key: int) -> None:
        entry = handlers[key]
        if entry.once:
            del handlers[key]
            keys.pop(entry.listener, None)
        event = EventStruct.from_address(address)
        error = None
        if event.status and event.error:
            error = error_from(ErrorStruct.from_buffer_copy(ErrorStruct.from_address(event.error)))
        entry.function(Event(lib.tutti_operation_name(event.operation).decode(), event.operation_id, event.lane, error))

    return EVENT_HANDLER(call)


class Events:
    """Watches a group: see tutti/events.h. An exception in a handler is printed.

    Destroy it before the group. If the object is dropped, its handlers stay until the group is destroyed.
    """

    def __init__(self, group: Group):
        events = ctypes.c_void_p()
        checked(lib.tutti_events_create, group.handle, ctypes.addressof(events))
        self.handle: int = events.value or 0
        self._group = group.handle
        self._handlers: dict[int, _Handler] = {}
        self._keys: dict[int, int] = {}  # of handlers, by the number that `remove` takes
        self._numbers = itertools.count(1)
        self._trampoline = _trampoline(self._handlers, self._keys)
        registry.keep(self.handle, self._trampoline)

    def __del__(self) -> None:
        if getattr(self, "handle", 0) and registry is not None:
            registry.drop(self._group, self.handle)

    def on_complete(self, handler: Handler) -> int:
        """Adds a listener for operations that end well; its number is for `remove`."""
        return self._add(lib.tutti_events_on_complete, handler)

    def on_error(self, handler: Handler) -> int:
        """Adds a listener for operations that fail."""
        return self._add(lib.tutti_events_on_error, handler)

    def on_operation(self, operation_id: int, handler: Handler) -> int:
        """Adds a handler for the next operation with `operation_id=` that ends; it is called once."""
        return self._add(lib.tutti_events_on_operation, handler, operation_id)

    def _add(self, function: Any, handler: Handler, *number: int) -> int:
        listener = ctypes.c_int64()
        key = next(self._numbers)
        self._handlers[key] = entry = _Handler(handler, bool(number))  # before the call: the handler may run at once
        try:
            checked(function, self.handle, *number, self._trampoline, key, ctypes.addressof(listener))
        except Error:
            del self._handlers[key]
            raise
        entry.listener = listener.value
        if key in self._handlers:
            self._keys[listener.value] = key
        return listener.value

    def remove(self, listener: int) -> None:
        """Removes a listener or handler. Afterwards it does not run again."""
        checked(lib.tutti_events_remove, self.handle, listener)
        self._handlers.pop(self._keys.pop(listener, 0), None)

    def destroy(self) -> None:
        checked(lib.tutti_events_destroy, self.handle)
        registry.destroyed(self.handle)
        self.handle = 0

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_rest: object) -> None:
        if self.handle:
            self.destroy()
