# SPDX-License-Identifier: BSD-3-Clause
"""A rendezvous of the caller: an object with set(key, value) and get(key, timeout), for the library's callbacks."""

import ctypes
from typing import Any

from ._native import STORE_GET, STORE_SET, StoreStruct

_SYSTEM, _TIMEOUT = 19, 22


def store_struct(store: Any) -> StoreStruct:
    """`store.set(key: str, value: bytes)` stores a value once; `store.get(key: str, timeout: float) -> bytes` waits for
    the key, and raises TimeoutError or KeyError if it does not appear. Any thread calls both."""
    if not callable(getattr(store, "set", None)) or not callable(getattr(store, "get", None)):
        raise TypeError(f"store is a URL or has set(key, value) and get(key, timeout), not {type(store).__name__}")

    def set_(_user: object, key: bytes, value: int, length: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(value, length) if length else b"")
        except Exception:
            return _SYSTEM
        return 0

    def get(_user: object, key: bytes, value: int, capacity: int, length: Any, timeout_ms: int) -> int:
        try:
            found = bytes(store.get(key.decode(), timeout_ms / 1000))
        except (TimeoutError, KeyError):
            return _TIMEOUT
        except Exception:
            return _SYSTEM
        ctypes.memmove(value, found, min(len(found), capacity))
        length[0] = len(found)
        return 0

    return StoreStruct(size=ctypes.sizeof(StoreStruct), set=STORE_SET(set_), get=STORE_GET(get))
