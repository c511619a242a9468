# SPDX-License-Identifier: BSD-3-Clause
"""The gradient bucketer: averages a model's gradients while the backward pass computes the rest (tutti/overlap.h)."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple, Union

from ._call import deadline_ms, int32, integer, wire_number
from ._dropped import Registry
from ._errors import checked, fail
from ._native import BucketerStruct, ErrorStruct, lib
from ._operation import reduce_op
from ._tensor import writing

if TYPE_CHECKING:
    from ._group import Group


registry = Registry(lib.tutti_bucketer_destroy)


class Bucketer:
    """Buckets over the gradients, in the order of the model's layers.

    They stay borrowed until `destroy`; if the object is dropped, until the group is destroyed.
    """

    def __init__(
        self,
        group: Group,
        gradients: Sequence[Any],
        op: Union[str, int] = "avg",
        bucket_bytes: int = 0,
        timeout: Optional[float] = None,
        lane: int = 0,
        wire: str = "full",
    ):
        borrowed = [writing(gradient, f"gradients[{index}]") for index, gradient in enumerate(gradients)]
        pointers = (c_void_p * max(len(borrowed), 1))(*(address for address, _ in borrowed))
        options = BucketerStruct(
            ctypes.sizeof(BucketerStruct),
            reduce_op(op),
            integer(bucket_bytes, "bucket_bytes"),
            deadline_ms(timeout),
            int32(lane, "lane"),
            wire_number(wire),
        )
        made = c_void_p()
        arguments = (addressof(pointers), len(borrowed), addressof(options), addressof(made))
        checked(lib.tutti_bucketer_create, group.handle, *arguments)
        self.handle: int = made.value or 0
        self._group = group
        registry.keep(self.handle, (borrowed, list(gradients)))

    def __del__(self) -> None:
        if getattr(self, "handle", 0) and registry is not None:
            registry.drop(self._group.handle, self.handle)

    def ready(self, index: int) -> None:
        """Gradient `index` is complete for this step. Does not wait."""
        if index < 0:
            raise IndexError(index)
        checked(lib.tutti_bucketer_ready, self.handle, index)

    def wait(self) -> None:
        """Ends the step: the gradients hold their results."""
        self._enter(lib.tutti_bucketer_wait)

    def describe(self) -> Tuple[int, int]:
        """(number of buckets, bytes of the largest one)."""
        buckets, largest = c_size_t(), c_size_t()
        checked(lib.tutti_bucketer_describe, self.handle, addressof(buckets), addressof(largest))
        return buckets.value, largest.value

    def destroy(self) -> None:
        """Waits for started buckets and frees the memory."""
        self._enter(lib.tutti_bucketer_destroy)
        registry.destroyed(self.handle)
        self.handle = 0

    def _enter(self, function: Any) -> None:
        """Calls a function that waits for the buckets, and so for other ranks."""
        details = ErrorStruct()
        status = self._group._enter_unstarted(function, self.handle, addressof(details))
        if status:
            fail(status, details)

    def __enter__(self) -> Bucketer:
        return self

    def __exit__(self, *_rest: object) -> None:
        if self.handle:
            self.destroy()
