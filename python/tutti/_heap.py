# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in memory that all ranks can reach. A group and those made of its ranks, on the same backend, share one heap: a
Family.

The library frees the heap with the last group that shares it. Arrays may live longer in Python: then the last group is
destroyed when the last array is.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Optional, Sequence

from ._errors import BadState, Error, InvalidArgument, checked
from ._native import lib
from ._tensor import DTYPES, FORMATS, NAMES, Tensor, view

if TYPE_CHECKING:
    from ._group import Group

blocks_alive = 0
_lock = threading.RLock()  # of all families: the end of an array may come in any thread


class Family:
    """The groups that share a heap, and the number of its arrays.

    ends_with_thread: the library destroys the first group of the family when its thread ends. So the first array makes
    another one, of one rank: `holder`.
    """

    def __init__(self, ends_with_thread: bool = False) -> None:
        self.ends_with_thread = ends_with_thread
        self.holder: Optional[Group] = None
        self.open: set[int] = set()
        self.last = 0  # the group that is destroyed with the last array
        self.blocks = 0
        self.registered: dict[int, Any] = {}  # address -> the array

    def opened(self, handle: int) -> None:
        with _lock:
            self.open.add(handle)

    def close(self, handle: int) -> bool:
        """Destroys a group, or keeps it for the arrays; returns whether it is destroyed."""
        with _lock:
            if self.blocks and self.open == {handle}:
                self.open.clear()
                self.last = handle
                return False
            checked(lib.tutti_group_destroy, handle)
            self.open.discard(handle)
            if not self.open:
                self.registered.clear()  # the library has unregistered them
            return True

    def free(self, address: int) -> None:
        """The end of an array."""
        global blocks_alive
        with _lock:
            handle = self.last or next(iter(self.open), 0)
            lib.tutti_free(handle, address, None)
            self.blocks -= 1
            blocks_alive -= 1
            if self.last and not self.blocks:
                lib.tutti_group_destroy(self.last, None)
                self.last = 0


class Block:
    """One block of memory of tutti_alloc. The arrays over it keep it alive."""

    def __init__(self, family: Family, address: int, shape: Sequence[int], typestr: Optional[str]):
        self.address = address
        if typestr is not None:
            self.__array_interface__ = {"version": 3, "data": (address, False), "shape": shape, "typestr": typestr}
        self._free = weakref.finalize(self, family.free, address)
        self._free.atexit = False


def empty(group: Group, shape: Sequence[int], number: int) -> Any:
    """See Group.empty."""
    global blocks_alive
    if any(length < 0 for length in shape):
        raise InvalidArgument(f"tutti: the shape {tuple(shape)} has a negative length")
    name = NAMES[number]
    nbytes = math.prod(shape) * DTYPES[name][1]
    if nbytes >= 1 << 63:
        raise InvalidArgument(f"tutti: an array of shape {tuple(shape)} does not fit into the address space")
    memory, family = ctypes.c_void_p(), group._family
    if family.ends_with_thread and not family.holder:
        family.holder = group.create([group.rank])
    group._blocking(lib.tutti_alloc, nbytes, ctypes.addressof(memory))
    numpy = _numpy()
    if not memory.value:
        return numpy.empty(shape, FORMATS[name]) if numpy and name in FORMATS else group._like(_nothing(number), shape)
    with _lock:
        family.blocks += 1
        blocks_alive += 1
    kind = numpy.dtype(FORMATS[name]).str if numpy and name in FORMATS else None
    block = Block(family, memory.value, tuple(shape), kind)
    return numpy.asarray(block) if kind else view(memory.value, shape, number, block)


def _nothing(number: int) -> Tensor:
    return view(0, (0,), number, None)


def _numpy() -> Any:
    if "numpy" not in sys.modules:
        try:
            import numpy  # noqa: F401
        except ImportError:
            return None
    return sys.modules["numpy"]


class Registration:
    """An array whose memory other ranks can reach, until `unregister` or the end of a `with` block."""

    def __init__(self, group: Group, array: Any):
        tensor = Tensor(array)
        if tensor.read_only or not tensor.is_compact:
            raise InvalidArgument("tutti: only a writable, compact array can be registered")
        struct = tensor._struct
        self.array = array
        self._group = group
        self.address: int = (struct.data or 0) + struct.byte_offset
        group._blocking(lib.tutti_register, self.address, tensor.nbytes)
        group._family.registered[self.address] = (array, tensor)

    def unregister(self) -> None:
        """Makes the memory private again. Collective."""
        if self.address not in self._group._family.registered:
            raise BadState("tutti: the array is not registered any more")
        self._group._blocking(lib.tutti_unregister, self.address)
        self._group._family.registered.pop(self.address, None)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        try:
            self.unregister()
        except Error:
            if kind is None:
                raise
