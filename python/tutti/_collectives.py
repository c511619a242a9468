# SPDX-License-Identifier: BSD-3-Clause
"""The collectives of Group: tutti/collectives.h.

NAME_async, made of NAME by `started`, returns a Work; NAME_init, made of it by `initialised`, a Persistent.
"""

from __future__ import annotations

from ctypes import c_int64
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence, Union

from ._call import int32, integers
from ._errors import InvalidArgument, wrong_type
from ._native import lib
from ._operation import Operations, initialised, reduce_op, started
from ._persistent import Persistent, PersistentOp
from ._tensor import reading, writing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._call import Options


def _counts(counts: Optional[Sequence[int]], size: int, what: str) -> Any:
    """A list with one number for each rank, as the library reads it."""
    if counts is None:
        return None
    numbers = integers(counts, what)
    if len(numbers) != size:
        raise InvalidArgument(f"tutti: {what} has {len(numbers)} entries; the group has {size} ranks")
    if any(not 0 <= number < 1 << 63 for number in numbers):
        raise InvalidArgument(f"tutti: {what} is {numbers}; no entry may be negative or need more than 63 bits")
    return (c_int64 * size)(*numbers)


class Collectives(Operations):
    """Operations that all ranks of a group call in the same order."""

    def all_reduce(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", **options: Unpack[Options]
    ) -> Any:
        """The reduction of every rank's tensor, on every rank; in place without `output`. Returns the output."""
        a, keep = reading(tensor) if output is not None else writing(tensor, "tensor")
        if output is None:
            return self._run("all_reduce", tensor, (a, a, reduce_op(op)), options, keep)
        b, kept = writing(output)
        return self._run("all_reduce", output, (a, b, reduce_op(op)), options, (keep, kept))

    all_reduce_async = started(all_reduce)
    all_reduce_init = initialised(all_reduce)

    def reduce(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", root: int = 0, **options: Unpack[Options]
    ) -> Any:
        """all_reduce with the result on `root` only, there in place without `output`. Returns it, None elsewhere."""
        root = int32(root, "root")
        here = root == self._rank
        a, keep = writing(tensor, "tensor") if here and output is None else reading(tensor)
        b, kept = (None, None) if not here else (a, None) if output is None else writing(output)
        made = (tensor if output is None else output) if here else None
        return self._run("reduce", made, (a, b, reduce_op(op), root), options, (keep, kept))

    reduce_async = started(reduce)
    reduce_init = initialised(reduce)

    def broadcast(self, tensor: Any, root: int = 0, **options: Unpack[Options]) -> Any:
        """Copies the root's tensor into the tensors of all ranks. Returns the tensor."""
        root = int32(root, "root")
        a, keep = reading(tensor) if root == self._rank else writing(tensor, "tensor")
        return self._run("broadcast", tensor, (a, root), options, keep)

    broadcast_async = started(broadcast)
    broadcast_init = initialised(broadcast)

    def _reshaping(self, shape: Any, tensor: Any, output: Any, dim: int) -> Any:
        """The arguments of a collective along `dim`, with a new output of the shape that `shape` computes if there is none."""
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        if output is None:
            output = self._new(shape, tensor, a, dim)
        b, kept = writing(output)
        return a, b, dim, output, (keep, kept)

    def all_gather(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Any:
        """The tensors of all ranks, concatenated in rank order along `dim`."""
        a, b, dim, output, keep = self._reshaping(lib.tutti_all_gather_shape, tensor, output, dim)
        return self._run("all_gather", output, (a, b, dim), options, keep)

    all_gather_async = started(all_gather)
    all_gather_init = initialised(all_gather)

    def gather(self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]) -> Any:
        """all_gather with the result on `root` only. Returns None elsewhere."""
        dim, root = int32(dim, "dim"), int32(root, "root")
        a, keep = reading(tensor)
        if root != self._rank:
            return self._run("gather", None, (a, None, dim, root), options, keep)
        if output is None:
            output = self._new(lib.tutti_all_gather_shape, tensor, a, dim)
        b, kept = writing(output)
        return self._run("gather", output, (a, b, dim, root), options, (keep, kept))

    gather_async = started(gather)
    gather_init = initialised(gather)

    def scatter(self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]) -> Any:
        """Cuts the root's tensor along `dim`; rank r gets part r. Other ranks pass None, and an output."""
        dim, root = int32(dim, "dim"), int32(root, "root")
        a, keep = None, None
        if root == self._rank:
            a, keep = reading(tensor)
            if output is None:
                output = self._new(lib.tutti_reduce_scatter_shape, tensor, a, dim)
        elif output is None:
            raise InvalidArgument(f"tutti: rank {self._rank} needs an output for scatter: only the root has the shape")
        b, kept = writing(output)
        return self._run("scatter", output, (a, b, dim, root), options, (keep, kept))

    scatter_async = started(scatter)
    scatter_init = initialised(scatter)

    def reduce_scatter(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", dim: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Reduces the tensors; rank r gets part r of the equal parts along `dim`."""
        a, b, dim, output, keep = self._reshaping(lib.tutti_reduce_scatter_shape, tensor, output, dim)
        return self._run("reduce_scatter", output, (a, b, reduce_op(op), dim), options, keep)

    reduce_scatter_async = started(reduce_scatter)
    reduce_scatter_init = initialised(reduce_scatter)

    def all_to_all(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Any:
        """Part r of the tensor along `dim` goes to rank r, which stores the part of rank s as part s."""
        a, b, dim, output, keep = self._reshaping(lib.tutti_all_to_all_shape, tensor, output, dim)
        return self._run("all_to_all", output, (a, b, dim), options, keep)

    all_to_all_async = started(all_to_all)
    all_to_all_init = initialised(all_to_all)

    def barrier(self, **options: Unpack[Options]) -> None:
        """Returns when every rank has called it."""
        return self._run("barrier", None, (), options, None)

    barrier_async = started(barrier)
    barrier_init = initialised(barrier)

    def persistent(self, operations: Sequence[PersistentOp], **options: Unpack[Options]) -> Persistent[list[Any]]:
        """Checks a list of collectives, and returns a Persistent that runs all of them by one call."""
        described = []
        if not isinstance(operations, Iterable):
            raise wrong_type("operations", operations, "a sequence of PersistentOp")
        for index, operation in enumerate(operations):
            if not isinstance(operation, PersistentOp):
                raise wrong_type(f"operations[{index}]", operation, "a PersistentOp")
            one, own = self._describe(getattr(type(self), operation.name), operation.arguments, operation.keywords)
            if own:
                raise InvalidArgument(f"tutti: operations[{index}]: {', '.join(own)} is an option of the whole list")
            described.append(one)
        return Persistent(self, described, [one.output for one in described], options)

    def all_gather_v(
        self,
        tensor: Any,
        counts: Sequence[int],
        output: Any = None,
        dim: int = 0,
        displacements: Optional[Sequence[int]] = None,
        **options: Unpack[Options],
    ) -> Any:
        """all_gather with counts[r] rows of rank r, which go to row displacements[r], or follow one another."""
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        c, d = _counts(counts, self._size, "counts"), _counts(displacements, self._size, "displacements")
        if output is None:
            if d is not None:
                raise InvalidArgument("tutti: with displacements all_gather_v needs an output")
            output = self._new(lib.tutti_all_gather_v_shape, tensor, a, dim, c)
        b, kept = writing(output)
        return self._run("all_gather_v", output, (a, b, dim, c, d), options, (keep, kept))

    all_gather_v_async = started(all_gather_v)

    def reduce_scatter_v(
        self,
        tensor: Any,
        counts: Sequence[int],
        output: Any = None,
        op: Union[str, int] = "sum",
        dim: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """reduce_scatter with counts[r] rows for rank r."""
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        c = _counts(counts, self._size, "counts")
        if output is None:
            output = self._new(lib.tutti_reduce_scatter_v_shape, tensor, a, dim, c)
        b, kept = writing(output)
        return self._run("reduce_scatter_v", output, (a, b, reduce_op(op), dim, c), options, (keep, kept))

    reduce_scatter_v_async = started(reduce_scatter_v)

    def all_to_all_v(
        self,
        tensor: Any,
        send_counts: Sequence[int],
        recv_counts: Sequence[int],
        output: Any = None,
        dim: int = 0,
        send_displacements: Optional[Sequence[int]] = None,
        recv_displacements: Optional[Sequence[int]] = None,
        **options: Unpack[Options],
    ) -> Any:
        """all_to_all with send_counts[r] rows for rank r and recv_counts[s] rows from rank s."""
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        n = self._size
        send, recv = _counts(send_counts, n, "send_counts"), _counts(recv_counts, n, "recv_counts")
        send_at = _counts(send_displacements, n, "send_displacements")
        recv_at = _counts(recv_displacements, n, "recv_displacements")
        if output is None:
            if recv_at is not None:
                raise InvalidArgument("tutti: with recv_displacements all_to_all_v needs an output")
            output = self._new(lib.tutti_all_to_all_v_shape, tensor, a, dim, recv)
        b, kept = writing(output)
        return self._run("all_to_all_v", output, (a, b, dim, send, send_at, recv, recv_at), options, (keep, kept))

    all_to_all_v_async = started(all_to_all_v)
