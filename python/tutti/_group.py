# SPDX-License-Identifier: BSD-3-Clause
"""Groups of ranks and their operations. Each method is the function of the headers with the same name."""

from __future__ import annotations

import ctypes
import operator
import sys
import threading
from ctypes import addressof, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple, TypeVar, Union

from . import _interrupt
from ._call import call_struct, deadline_ms, int32, local
from ._errors import Error, InvalidArgument, checked, error_from, fail
from ._heap import Family, Registration, empty
from ._native import ConfigStruct, ErrorStruct, MessageStruct, RecordStruct, lib
from ._store import store_struct
from ._tensor import NAMES, Tensor, adopt, dtype_number, reading, writing
from ._work import Task, Work

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._call import MessageOptions, Options

T = TypeVar("T")
ANY = -1
"""Any source, or any tag, of a receive."""
ANY_SOURCE = ANY_TAG = ANY

CAPABILITIES = {
    "rank_order": 0,
    "round_once": 1,
    "same_bits": 2,
    "checks_calls": 3,
    "cancel": 4,
    "heap": 5,
    "recover": 6,
    "grow": 7,
    "one_process": 8,
    "one_host": 9,
    "cuda": 10,
    "rocm": 11,
    "no_host": 12,
    "composed": 13,
    "ask_late": 14,
    "cancel_flagged": 15,
    "drops_nan": 16,
}
_RECOVER, _ONE_PROCESS = 1 << CAPABILITIES["recover"], 1 << CAPABILITIES["one_process"]

REDUCE_OPS = {
    "sum": 1,
    "product": 2,
    "min": 3,
    "max": 4,
    "avg": 5,
    "premul_sum": 6,
    "band": 7,
    "bor": 8,
    "bxor": 9,
    "land": 10,
    "lor": 11,
}
_ops: dict[Union[str, int], int] = {name: number for name, number in REDUCE_OPS.items()}


def reduce_op(name: Union[str, int]) -> int:
    """The number of a reduction operator."""
    found = _ops.get(name)
    if found is None:
        if isinstance(name, int):
            return int32(name, "op")  # the library checks it
        number = c_int32()
        if not isinstance(name, str) or lib.tutti_reduce_op_parse(name.encode(), addressof(number)):
            raise InvalidArgument(f"tutti: no reduction {name!r}; they are {', '.join(REDUCE_OPS)}")
        found = _ops[name] = number.value
    return found


class Message:
    """What a receive got, or a probe found. In a batch and for a Work it is valid from their end on."""

    __slots__ = ("_struct",)

    def __init__(self) -> None:
        self._struct = MessageStruct(size=ctypes.sizeof(MessageStruct))

    source = property(lambda self: self._struct.source, doc="the sender's rank")
    tag = property(lambda self: self._struct.tag)
    count = property(lambda self: self._struct.count, doc="elements")
    nbytes = property(lambda self: self._struct.bytes)
    dtype = property(lambda self: NAMES.get(self._struct.dtype, "unknown"), doc='the element type, such as "f32"')

    def __repr__(self) -> str:
        return f"tutti.Message(source={self.source}, tag={self.tag}, count={self.count}, dtype={self.dtype!r})"


@dataclass(frozen=True)
class Record:
    """An operation that a group of the backend "null" was asked to run."""

    operation: str
    dtype: str
    reduce_op: str
    root: int
    tag: int
    count: int


def _counts(counts: Optional[Sequence[int]], size: int, what: str) -> Any:
    """A list with one number for each rank, as the library reads it."""
    if counts is None:
        return None
    numbers = [operator.index(number) for number in counts]
    if len(numbers) != size:
        raise InvalidArgument(f"tutti: {what} has {len(numbers)} entries; the group has {size} ranks")
    if any(not 0 <= number < 1 << 63 for number in numbers):
        raise InvalidArgument(f"tutti: {what} is {numbers}; no entry may be negative or need more than 63 bits")
    return (c_int64 * size)(*numbers)


def _address(peer: int, tag: int) -> Tuple[int, int]:
    return int32(peer, "peer"), int32(tag, "tag")


class Group:
    """An ordered set of ranks that run operations together: from `tutti.init`, `split`, `create`, `shrink`, `grow`.

    Arrays are NumPy arrays, Tensors, or any object with `__dlpack__` or a buffer. They may have strides. Nothing is
    copied. A method without `output` puts the result into a new array, or works in place where it says so. NAME_async
    starts the operation NAME and returns a Work at once; its arrays are borrowed until the end.

    Keyword arguments of operations: see Options in tutti/_call.py. `with group:` destroys the group at the end. After
    an exception it aborts the group before, so that other ranks do not wait for this one.
    """

    def __init__(self, handle: int, family: Optional[Family] = None, keep: Any = None):
        self.handle = handle
        self._keep = keep
        self._size = int(lib.tutti_group_size(handle))
        self._rank = int(lib.tutti_group_rank(handle))
        self._family = family if family is not None else Family()
        self._family.opened(handle)
        self._batches: dict[int, list[Any]] = {}
        self._aborts = bool(lib.tutti_group_capabilities(handle) & _RECOVER)

    # ---- what the group is --------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Own rank, 0 to size-1; -1 after destroy."""
        return int(lib.tutti_group_rank(self.handle))

    @property
    def size(self) -> int:
        """Number of ranks; -1 after destroy."""
        return int(lib.tutti_group_size(self.handle))

    @property
    def lanes(self) -> int:
        """Number of lanes; -1 after destroy."""
        return int(lib.tutti_group_lanes(self.handle))

    @property
    def backend(self) -> Optional[str]:
        """The backend of the group's CPU operations, such as "shm"; None after destroy."""
        name = lib.tutti_group_backend(self.handle)
        return name.decode() if name else None

    @property
    def device(self) -> Tuple[int, int]:
        """The device the group works on, as DLPack's type and number: (1, 0) is the CPU."""
        device = lib.tutti_group_device(self.handle)
        return device.device_type, device.device_id

    @property
    def capabilities(self) -> frozenset[str]:
        """What the backend can do: names of TUTTI_CAP_*, in lower case."""
        bits = lib.tutti_group_capabilities(self.handle)
        return frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)

    @property
    def native_communicator(self) -> Optional[int]:
        """The address of the MPI_Comm of the backend "mpi"; None for others."""
        address: Optional[int] = lib.tutti_group_native_communicator(self.handle)
        return address

    def algorithm(self, lane: int = 0) -> Optional[str]:
        """The algorithm of this rank's last collective, such as "one_shot"; None if there was none."""
        name = lib.tutti_group_algorithm(self.handle, int32(lane, "lane"))
        return name.decode() if name else None

    def global_rank(self, rank: int) -> int:
        """Rank in the world of rank `rank` of this group; -1 if there is none."""
        return int(lib.tutti_group_global_rank(self.handle, int32(rank, "rank")))

    def local_rank(self, global_rank: int) -> int:
        """Rank in this group of a rank of the world; -1 if it is no member."""
        return int(lib.tutti_group_local_rank(self.handle, int32(global_rank, "global_rank")))

    def describe(self) -> str:
        """A description for people: backend, ranks, lanes, deadline, algorithms."""
        needed = c_size_t()
        checked(lib.tutti_group_describe, self.handle, None, 0, addressof(needed))
        text = ctypes.create_string_buffer(needed.value + 1)
        checked(lib.tutti_group_describe, self.handle, text, len(text), None)
        return text.value.decode()

    def error(self) -> Optional[Error]:
        """The reason why the group has failed; None if it has not."""
        details = ErrorStruct()
        status = lib.tutti_group_error(self.handle, addressof(details))
        if status:
            fail(status, details)
        return error_from(details) if details.status else None

    def recorded(self, index: int) -> Record:
        """Operation `index` that ran on a group of the backend "null"."""
        record = RecordStruct(size=ctypes.sizeof(RecordStruct))
        checked(lib.tutti_null_recorded, self.handle, index, addressof(record))
        return Record(
            lib.tutti_operation_name(record.operation).decode(),
            lib.tutti_dtype_name(record.dtype).decode(),
            lib.tutti_reduce_op_name(record.reduce_op).decode(),
            record.root,
            record.tag,
            record.count,
        )

    def __repr__(self) -> str:
        return f"<tutti.Group rank {self.rank} of {self.size}, {self.backend}>"

    # ---- life ---------------------------------------------------------------------------------------------------

    def create(self, ranks: Sequence[int], **config: Any) -> Group:
        """A group of some ranks of this one: ranks[i] becomes rank i. Only the members call, with the same list."""
        members = (c_int32 * max(len(ranks), 1))(*(int32(rank, "a rank") for rank in ranks))
        made, keep = self._derive(lib.tutti_group_create, members, len(ranks), config=config)
        assert made
        return Group(made, self._family, (self._keep, keep))

    def split(self, color: Optional[int], key: int = 0, **config: Any) -> Optional[Group]:
        """Ranks of equal colour form a group, ordered by key. Colour None: this rank joins none, and gets None."""
        number = -1 if color is None else int32(color, "color")
        if color is not None and number < 0:
            raise InvalidArgument(f"tutti: color is {number}; it is None or at least 0")
        made, keep = self._derive(lib.tutti_group_split, number, int32(key, "key"), config=config)
        return Group(made, self._family, (self._keep, keep)) if made else None

    def _derive(self, function: Any, *arguments: Any, config: dict[str, Any]) -> Tuple[int, Any]:
        struct, keep = config_struct(config) if config else (None, None)
        group = c_void_p()
        self._form(function, *arguments, ctypes.byref(struct) if struct else None, ctypes.byref(group))
        return group.value or 0, keep

    def _form(self, function: Any, *arguments: Any) -> None:
        """A call that makes a group, which an abort does not end. After Ctrl-C it goes on, and keeps its arguments."""
        one_process = lib.tutti_group_capabilities(self.handle) & _ONE_PROCESS
        if self._size == 1 or one_process or not local.state.is_main:
            self._blocking(function, *arguments)
            return
        details = ErrorStruct()
        call = lambda: int(function(self.handle, *arguments, addressof(details)))  # noqa: E731
        try:
            status = _interrupt.in_other_thread(call, lambda: False)
        except BaseException:
            lib.tutti_group_abort(self.handle, None)
            raise
        if status:
            fail(status, details)

    def _blocking(self, function: Any, *arguments: Any) -> None:
        """A call without options that waits for other ranks. Its last argument is a tutti_error."""
        details = ErrorStruct()
        status = self._enter(function, self.handle, *arguments, addressof(details))
        if status:
            fail(status, details)

    def destroy(self) -> None:
        """Ends this rank's use of the group. Waits for no rank. Busy while operations are pending.

        If arrays of `empty` are alive and this is the last group that shares their memory, the group ends when the
        last of them does.
        """
        if self._family.close(self.handle):
            self._keep = None
        self.handle = 0

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        if not self.handle:
            return
        if kind is not None:
            try:
                self.abort()
            except Error:
                pass
            try:
                self.destroy()
            except Error:
                pass  # the exception on its way says more
        else:
            self.destroy()

    # ---- calling ------------------------------------------------------------------------------------------------

    def _run(self, name: str, before: Tuple[Any, ...], after: Tuple[Any, ...], options: Any, keep: Any) -> None:
        """The blocking form: function(group, *before, call, *after). `keep` owns what the operation borrows."""
        state = local.state
        if state.is_main and self._in_slices(state):
            work = self._start(name + "_async", before, after, options, keep, None)
            self._wait(work)
            return
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        state.group = self.handle
        state.calls += 1
        state.began = time_ns()
        try:
            status = _functions[name](self.handle, *before, call, *after)
        finally:  # KeyboardInterrupt comes right after the call
            state.group = None
        if status:
            fail(status, state.error)
        del kept

    def _enter(self, function: Any, *arguments: Any) -> int:
        """Calls a function that waits for other ranks and takes no options; returns its status."""
        state = local.state
        state.group = self.handle
        state.calls += 1
        state.began = time_ns()
        try:
            return int(function(*arguments))
        finally:
            state.group = None

    def _in_slices(self, state: Any) -> bool:
        """Whether a call of the main thread is started and awaited in slices, because nothing else would end it."""
        return self._size > 1 and not self._batches and not (self._aborts and _interrupt.watches(state))

    def _wait(self, work: Work[T]) -> T:
        """Waits for a call in slices. An exception of a signal handler ends it as the watch does."""
        try:
            return work.wait()
        except Error:
            raise
        except BaseException:
            lib.tutti_group_abort(self.handle, None)
            raise

    def _start(
        self,
        name: str,
        before: Tuple[Any, ...],
        after: Tuple[Any, ...],
        options: Any,
        keep: Any,
        output: Any,
        finish: Optional[Callable[[], Any]] = None,
    ) -> Work[Any]:
        """The asynchronous form: function(group, *before, call, *after, work). `finish` makes the Work's output."""
        state = local.state
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        work = c_void_p()
        borrowed = (keep, kept, after, output, self, work)
        _starting[id(work)] = borrowed  # KeyboardInterrupt may come between the start and the Work
        status = _functions[name](self.handle, *before, call, *after, addressof(work))
        if status:
            del _starting[id(work)]
            fail(status, state.error)
        made: Work[Any] = Work(work.value or 0, borrowed, finish or (lambda: output))
        del _starting[id(work)]
        return made

    def _borrow(self, *keep: Any) -> None:
        """Keeps arrays of a message alive until the end of this thread's batch, if there is one."""
        batch = self._batches.get(threading.get_ident())
        if batch is not None:
            batch.extend(keep)

    def _new(self, function: Any, array: Any, address: int, dim: int, counts: Any = None) -> Any:
        """A new output: the shape from tutti/shape.h, and of NumPy's type if the input is."""
        shape, ndim = (c_int64 * 16)(), c_int32()
        extra = (counts,) if counts is not None else ()
        checked(function, self.handle, address, dim, *extra, addressof(shape), addressof(ndim))
        return self._like(array, shape[: ndim.value])

    def _like(self, array: Any, shape: Sequence[int]) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(array, numpy.ndarray):
            return numpy.empty(tuple(shape), array.dtype)
        tensor = array if isinstance(array, Tensor) else Tensor(array)
        dims = (c_int64 * max(len(shape), 1))(*shape)
        made = c_void_p()
        number = dtype_number(tensor.dtype)
        checked(lib.tutti_tensor_empty, self.handle, number, len(shape), addressof(dims), addressof(made))
        return adopt(made.value or 0)

    # ---- collectives --------------------------------------------------------------------------------------------
    #
    # Each _NAME method gives (output, arguments before the call's options, what the operation borrows); the blocking
    # and the asynchronous form share it.

    def all_reduce(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", **options: Unpack[Options]
    ) -> Any:
        """The reduction of every rank's tensor, on every rank; in place without `output`. Returns the output."""
        a, keep = reading(tensor) if output is not None else writing(tensor)
        if output is None:
            output, b, kept = tensor, a, None
        else:
            b, kept = writing(output)
        self._run("all_reduce", (a, b, _ops.get(op) or reduce_op(op)), (), options, (keep, kept))
        return output

    def all_reduce_async(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", **options: Unpack[Options]
    ) -> Work[Any]:
        a, keep = reading(tensor) if output is not None else writing(tensor)
        b, kept = (a, None) if output is None else writing(output)
        output = tensor if output is None else output
        return self._start("all_reduce_async", (a, b, reduce_op(op)), (), options, (keep, kept), output)

    def _reduce(self, tensor: Any, output: Any, op: Union[str, int], root: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        root = int32(root, "root")
        here = root == self._rank
        a, keep = writing(tensor) if here and output is None else reading(tensor)
        b, kept = (None, None) if not here else (a, None) if output is None else writing(output)
        return (tensor if output is None else output) if here else None, (a, b, reduce_op(op), root), (keep, kept)

    def reduce(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", root: int = 0, **options: Unpack[Options]
    ) -> Any:
        """all_reduce with the result on `root` only, there in place without `output`. Returns it, None elsewhere."""
        made, arguments, keep = self._reduce(tensor, output, op, root)
        self._run("reduce", arguments, (), options, keep)
        return made

    def reduce_async(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", root: int = 0, **options: Unpack[Options]
    ) -> Work[Any]:
        made, arguments, keep = self._reduce(tensor, output, op, root)
        return self._start("reduce_async", arguments, (), options, keep, made)

    def broadcast(self, tensor: Any, root: int = 0, **options: Unpack[Options]) -> Any:
        """Copies the root's tensor into the tensors of all ranks. Returns the tensor."""
        root = int32(root, "root")
        a, keep = reading(tensor) if root == self._rank else writing(tensor)
        self._run("broadcast", (a, root), (), options, keep)
        return tensor

    def broadcast_async(self, tensor: Any, root: int = 0, **options: Unpack[Options]) -> Work[Any]:
        root = int32(root, "root")
        a, keep = reading(tensor) if root == self._rank else writing(tensor)
        return self._start("broadcast_async", (a, root), (), options, keep, tensor)

    def _all_gather(self, tensor: Any, output: Any, dim: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        if output is None:
            output = self._new(lib.tutti_all_gather_shape, tensor, a, dim)
        b, kept = writing(output)
        return output, (a, b, dim), (keep, kept)

    def all_gather(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Any:
        """The tensors of all ranks, concatenated in rank order along `dim`."""
        output, arguments, keep = self._all_gather(tensor, output, dim)
        self._run("all_gather", arguments, (), options, keep)
        return output

    def all_gather_async(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Work[Any]:
        output, arguments, keep = self._all_gather(tensor, output, dim)
        return self._start("all_gather_async", arguments, (), options, keep, output)

    def _gather(self, tensor: Any, output: Any, dim: int, root: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim, root = int32(dim, "dim"), int32(root, "root")
        a, keep = reading(tensor)
        b, kept = None, None
        if root != self._rank:
            output = None
        else:
            if output is None:
                output = self._new(lib.tutti_all_gather_shape, tensor, a, dim)
            b, kept = writing(output)
        return output, (a, b, dim, root), (keep, kept)

    def gather(self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]) -> Any:
        """all_gather with the result on `root` only. Returns None elsewhere."""
        output, arguments, keep = self._gather(tensor, output, dim, root)
        self._run("gather", arguments, (), options, keep)
        return output

    def gather_async(
        self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]
    ) -> Work[Any]:
        output, arguments, keep = self._gather(tensor, output, dim, root)
        return self._start("gather_async", arguments, (), options, keep, output)

    def _scatter(self, tensor: Any, output: Any, dim: int, root: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim, root = int32(dim, "dim"), int32(root, "root")
        a, keep = None, None
        if root == self._rank:
            a, keep = reading(tensor)
            if output is None:
                output = self._new(lib.tutti_reduce_scatter_shape, tensor, a, dim)
        elif output is None:
            raise InvalidArgument(f"tutti: rank {self._rank} needs an output for scatter: only the root has the shape")
        b, kept = writing(output)
        return output, (a, b, dim, root), (keep, kept)

    def scatter(self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]) -> Any:
        """Cuts the root's tensor along `dim`; rank r gets part r. Other ranks pass None, and an output."""
        output, arguments, keep = self._scatter(tensor, output, dim, root)
        self._run("scatter", arguments, (), options, keep)
        return output

    def scatter_async(
        self, tensor: Any, output: Any = None, dim: int = 0, root: int = 0, **options: Unpack[Options]
    ) -> Work[Any]:
        output, arguments, keep = self._scatter(tensor, output, dim, root)
        return self._start("scatter_async", arguments, (), options, keep, output)

    def _reduce_scatter(self, tensor: Any, output: Any, op: Any, dim: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        if output is None:
            output = self._new(lib.tutti_reduce_scatter_shape, tensor, a, dim)
        b, kept = writing(output)
        return output, (a, b, reduce_op(op), dim), (keep, kept)

    def reduce_scatter(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", dim: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Reduces the tensors; rank r gets part r of the equal parts along `dim`."""
        output, arguments, keep = self._reduce_scatter(tensor, output, op, dim)
        self._run("reduce_scatter", arguments, (), options, keep)
        return output

    def reduce_scatter_async(
        self, tensor: Any, output: Any = None, op: Union[str, int] = "sum", dim: int = 0, **options: Unpack[Options]
    ) -> Work[Any]:
        output, arguments, keep = self._reduce_scatter(tensor, output, op, dim)
        return self._start("reduce_scatter_async", arguments, (), options, keep, output)

    def _all_to_all(self, tensor: Any, output: Any, dim: int) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        if output is None:
            output = self._new(lib.tutti_all_to_all_shape, tensor, a, dim)
        b, kept = writing(output)
        return output, (a, b, dim), (keep, kept)

    def all_to_all(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Any:
        """Part r of the tensor along `dim` goes to rank r, which stores the part of rank s as part s."""
        output, arguments, keep = self._all_to_all(tensor, output, dim)
        self._run("all_to_all", arguments, (), options, keep)
        return output

    def all_to_all_async(self, tensor: Any, output: Any = None, dim: int = 0, **options: Unpack[Options]) -> Work[Any]:
        output, arguments, keep = self._all_to_all(tensor, output, dim)
        return self._start("all_to_all_async", arguments, (), options, keep, output)

    def barrier(self, **options: Unpack[Options]) -> None:
        """Returns when every rank has called it."""
        self._run("barrier", (), (), options, None)

    def barrier_async(self, **options: Unpack[Options]) -> Work[None]:
        return self._start("barrier_async", (), (), options, None, None)

    def _all_gather_v(
        self, tensor: Any, counts: Sequence[int], output: Any, dim: int, displacements: Optional[Sequence[int]]
    ) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        c, d = _counts(counts, self._size, "counts"), _counts(displacements, self._size, "displacements")
        if output is None:
            if d is not None:
                raise InvalidArgument("tutti: with displacements all_gather_v needs an output")
            output = self._new(lib.tutti_all_gather_v_shape, tensor, a, dim, c)
        b, kept = writing(output)
        return output, (a, b, dim, c, d), (keep, kept)

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
        output, arguments, keep = self._all_gather_v(tensor, counts, output, dim, displacements)
        self._run("all_gather_v", arguments, (), options, keep)
        return output

    def all_gather_v_async(
        self,
        tensor: Any,
        counts: Sequence[int],
        output: Any = None,
        dim: int = 0,
        displacements: Optional[Sequence[int]] = None,
        **options: Unpack[Options],
    ) -> Work[Any]:
        output, arguments, keep = self._all_gather_v(tensor, counts, output, dim, displacements)
        return self._start("all_gather_v_async", arguments, (), options, keep, output)

    def _reduce_scatter_v(
        self, tensor: Any, counts: Sequence[int], output: Any, op: Any, dim: int
    ) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        c = _counts(counts, self._size, "counts")
        if output is None:
            output = self._new(lib.tutti_reduce_scatter_v_shape, tensor, a, dim, c)
        b, kept = writing(output)
        return output, (a, b, reduce_op(op), dim, c), (keep, kept)

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
        output, arguments, keep = self._reduce_scatter_v(tensor, counts, output, op, dim)
        self._run("reduce_scatter_v", arguments, (), options, keep)
        return output

    def reduce_scatter_v_async(
        self,
        tensor: Any,
        counts: Sequence[int],
        output: Any = None,
        op: Union[str, int] = "sum",
        dim: int = 0,
        **options: Unpack[Options],
    ) -> Work[Any]:
        output, arguments, keep = self._reduce_scatter_v(tensor, counts, output, op, dim)
        return self._start("reduce_scatter_v_async", arguments, (), options, keep, output)

    def _all_to_all_v(
        self, tensor: Any, send: Sequence[int], recv: Sequence[int], output: Any, dim: int, at: Any, to: Any
    ) -> Tuple[Any, Tuple[Any, ...], Any]:
        dim = int32(dim, "dim")
        a, keep = reading(tensor)
        n = self._size
        send_counts, recv_counts = _counts(send, n, "send_counts"), _counts(recv, n, "recv_counts")
        send_at, recv_to = _counts(at, n, "send_displacements"), _counts(to, n, "recv_displacements")
        if output is None:
            if recv_to is not None:
                raise InvalidArgument("tutti: with recv_displacements all_to_all_v needs an output")
            output = self._new(lib.tutti_all_to_all_v_shape, tensor, a, dim, recv_counts)
        b, kept = writing(output)
        return output, (a, b, dim, send_counts, send_at, recv_counts, recv_to), (keep, kept)

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
        output, arguments, keep = self._all_to_all_v(
            tensor, send_counts, recv_counts, output, dim, send_displacements, recv_displacements
        )
        self._run("all_to_all_v", arguments, (), options, keep)
        return output

    def all_to_all_v_async(
        self,
        tensor: Any,
        send_counts: Sequence[int],
        recv_counts: Sequence[int],
        output: Any = None,
        dim: int = 0,
        send_displacements: Optional[Sequence[int]] = None,
        recv_displacements: Optional[Sequence[int]] = None,
        **options: Unpack[Options],
    ) -> Work[Any]:
        output, arguments, keep = self._all_to_all_v(
            tensor, send_counts, recv_counts, output, dim, send_displacements, recv_displacements
        )
        return self._start("all_to_all_v_async", arguments, (), options, keep, output)

    # ---- messages -----------------------------------------------------------------------------------------------

    def send(self, tensor: Any, peer: int, tag: int = 0, **options: Unpack[MessageOptions]) -> None:
        """Sends the tensor to rank `peer`. Returns when it may be changed; that may need the receiver."""
        a, keep = reading(tensor)
        self._run("send", (a, *_address(peer, tag)), (), options, keep)
        self._borrow(keep)

    def send_async(self, tensor: Any, peer: int, tag: int = 0, **options: Unpack[MessageOptions]) -> Work[None]:
        a, keep = reading(tensor)
        return self._start("send_async", (a, *_address(peer, tag)), (), options, (keep, tensor), None)

    def recv(self, tensor: Any, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Message:
        """Receives into the tensor. A message with fewer elements fills the beginning."""
        a, keep = writing(tensor)
        message = Message()
        self._run("recv", (a, *_address(peer, tag)), (addressof(message._struct),), options, (keep, message))
        self._borrow(keep, message)
        return message

    def recv_async(
        self, tensor: Any, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]
    ) -> Work[Message]:
        a, keep = writing(tensor)
        message = Message()
        after = (addressof(message._struct),)
        return self._start("recv_async", (a, *_address(peer, tag)), after, options, keep, message)

    def recv_alloc(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Tuple[Any, Message]:
        """Receives a message of unknown shape into a new array. Without NumPy it is a Tensor."""
        message, made = Message(), c_void_p()
        before = _address(peer, tag)
        state = local.state
        if state.is_main and self._in_slices(state):
            return self._wait(self.recv_alloc_async(peer, tag, **options))
        call, keep = call_struct(state.error_address, options) if options else (state.call_address, None)
        out = (addressof(made), addressof(message._struct))
        status = self._enter(lib.tutti_recv_alloc, self.handle, *before, call, *out)
        if status:
            fail(status, state.error)
        return _to_numpy(adopt(made.value or 0)), message

    def recv_alloc_async(
        self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]
    ) -> Work[Tuple[Any, Message]]:
        message, made = Message(), c_void_p()
        found: list[Any] = []

        def output() -> Tuple[Any, Message]:
            if not found:
                found.append(_to_numpy(adopt(made.value or 0)))
            return found[0], message

        after = (addressof(made), addressof(message._struct))
        return self._start("recv_alloc_async", _address(peer, tag), after, options, made, message, output)

    def sendrecv(
        self,
        send: Any,
        destination: int,
        recv: Any,
        source: int = ANY,
        send_tag: int = 0,
        recv_tag: int = ANY,
        **options: Unpack[MessageOptions],
    ) -> Message:
        """Sends one tensor and receives another at the same time."""
        a, keep = reading(send)
        b, kept = writing(recv)
        message = Message()
        before, after = (a, *_address(destination, send_tag), b, *_address(source, recv_tag)), (
            addressof(message._struct),
        )
        self._run("sendrecv", before, after, options, (keep, kept, message))
        self._borrow(keep, kept, message)
        return message

    def sendrecv_async(
        self,
        send: Any,
        destination: int,
        recv: Any,
        source: int = ANY,
        send_tag: int = 0,
        recv_tag: int = ANY,
        **options: Unpack[MessageOptions],
    ) -> Work[Message]:
        a, keep = reading(send)
        b, kept = writing(recv)
        message = Message()
        before, after = (a, *_address(destination, send_tag), b, *_address(source, recv_tag)), (
            addressof(message._struct),
        )
        return self._start("sendrecv_async", before, after, options, (keep, kept, send), message)

    def probe(self, peer: int = ANY, tag: int = ANY) -> Optional[Message]:
        """The message that can be received now, None if there is none. Never waits."""
        found, message = c_int32(), Message()
        checked(lib.tutti_probe, self.handle, *_address(peer, tag), addressof(found), addressof(message._struct))
        return message if found.value else None

    def probe_wait(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Message:
        """Waits until a message can be received. Its Timeout leaves the group usable."""
        message = Message()
        if local.state.is_main and self._in_slices(local.state):
            return self._wait(self.probe_async(peer, tag, **options))
        self._run("probe_wait", _address(peer, tag), (addressof(message._struct),), options, message)
        return message

    def probe_async(self, peer: int = ANY, tag: int = ANY, **options: Unpack[MessageOptions]) -> Work[Message]:
        message = Message()
        return self._start("probe_async", _address(peer, tag), (addressof(message._struct),), options, None, message)

    def batch(self, **options: Unpack[MessageOptions]) -> Batch:
        """`with group.batch():` starts the sends and receives of the block together, and waits for all of them.

        Messages that receives return are valid after the block. `batch.end_async()`, as the last line of the block,
        gives a Work instead.
        """
        return Batch(self, options)

    def task(self, output: Any = None, **options: Unpack[Options]) -> Task[Any]:
        """A work that the caller runs and completes: see Task."""
        a, keep = writing(output) if output is not None else (None, None)
        state = local.state
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        work = c_void_p()
        status = lib.tutti_work_create(self.handle, a, call, addressof(work))
        if status:
            fail(status, state.error)
        return Task(work.value or 0, (keep, kept, output), lambda: output)

    # ---- the heap -----------------------------------------------------------------------------------------------

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "f64") -> Any:
        """A new array in memory that the other ranks can reach, so that collectives copy less. Collective; ranks may
        ask for different shapes. A NumPy array if NumPy is installed and has the type, else a Tensor."""
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        return empty(self, dims, dtype_number(dtype))

    def register(self, array: Any) -> Registration:
        """Makes the memory of a compact, writable array reachable for the other ranks. Collective.

        Undo it by `unregister` of the result, which is a context manager, too. Rules: tutti/memory.h.
        """
        return Registration(self, array)

    # ---- recovery -----------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Ends with Revoked all that waits in the group on this rank, in any thread. The group fails on all ranks."""
        checked(lib.tutti_group_abort, self.handle)

    def revoke(self) -> None:
        """Fails the group on all ranks."""
        checked(lib.tutti_group_revoke, self.handle)

    def failed(self) -> list[int]:
        """The ranks that have died or left, as this rank knows now."""
        ranks, count = (c_int32 * max(self._size, 1))(), c_int32()
        checked(lib.tutti_group_failed, self.handle, addressof(ranks), self._size, addressof(count))
        return ranks[: min(count.value, self._size)]

    def agree(self, flags: int = (1 << 64) - 1, timeout: Optional[float] = None) -> Tuple[int, list[int]]:
        """The bitwise AND of all living ranks' 64 bits, and the failed ranks: the same on all ranks. Collective."""
        if not 0 <= flags < 1 << 64:
            raise InvalidArgument(f"tutti: flags is {flags}; it has 64 bits")
        bits, ranks, count = c_uint64(flags), (c_int32 * max(self._size, 1))(), c_int32()
        arguments = (addressof(bits), addressof(ranks), self._size, addressof(count), deadline_ms(timeout))
        self._blocking(lib.tutti_group_agree, *arguments)
        return bits.value, ranks[: min(count.value, self._size)]

    def shrink(self, timeout: Optional[float] = None) -> Group:
        """A new group of the living ranks. Collective. Destroy this one afterwards."""
        group = c_void_p()
        self._blocking(lib.tutti_group_shrink, deadline_ms(timeout), addressof(group))
        return Group(group.value or 0, self._family, self._keep)

    def token(self) -> str:
        """A secret by which new ranks find this group: for one `grow` and `tutti.join`."""
        text = ctypes.create_string_buffer(64)
        checked(lib.tutti_group_token, self.handle, text, len(text))
        return text.value.decode()

    def grow(self, token: str, newcomers: int, timeout: Optional[float] = None) -> Group:
        """A larger group: these ranks, then `newcomers` that call `tutti.join`. Collective, with the same token."""
        group = c_void_p()
        self._form(
            lib.tutti_group_grow,
            token.encode(),
            int32(newcomers, "newcomers"),
            deadline_ms(timeout),
            ctypes.byref(group),
        )
        return Group(group.value or 0, self._family, self._keep)


class Batch:
    """See Group.batch."""

    def __init__(self, group: Group, options: Any):
        self._group, self._options = group, options
        self._ended = False

    def __enter__(self) -> Batch:
        checked(lib.tutti_batch_begin, self._group.handle)
        self._group._batches[threading.get_ident()] = []
        return self

    def end_async(self, **options: Unpack[Options]) -> Work[None]:
        """Starts the messages as one Work. Nothing may be added afterwards."""
        keep = self._group._batches.pop(threading.get_ident())
        self._ended = True
        return self._group._start("batch_end_async", (), (), {**self._options, **options}, keep, None)

    def __exit__(self, kind: object, *_rest: object) -> None:
        if self._ended:
            return
        if kind is None:
            keep = self._group._batches.pop(threading.get_ident())
            self._group._run("batch_end", (), (), self._options, keep)
            return
        # There is no way back: a batch that the block left by an exception is started with a token that has fired.
        from ._work import CancelToken

        token = CancelToken()
        token.cancel()
        try:
            self.end_async(token=token)
        except Error:
            pass


_starting: dict[int, Any] = {}
_functions = {name[len("tutti_") :]: getattr(lib, name) for name in dir(lib) if name.startswith("tutti_")}


def _to_numpy(tensor: Tensor) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return tensor
    try:
        return numpy.from_dlpack(tensor)
    except (AttributeError, BufferError, RuntimeError, TypeError):  # bf16, fp8: NumPy has no such type
        return tensor


# ---- configurations -------------------------------------------------------------------------------------------------


def config_struct(config: dict[str, Any]) -> Tuple[ConfigStruct, Any]:
    """(a tutti_config, what it borrows). The store has to stay until the group's end."""
    struct = ConfigStruct(size=ctypes.sizeof(ConfigStruct))
    keep: Any = None
    for name, value in config.items():
        if value is None:
            continue
        if name in ("rank", "world_size", "lanes", "device_index"):
            setattr(struct, name, int32(value, name))
        elif name == "timeout":
            struct.timeout_ms = deadline_ms(value)
        elif name in ("backend", "device"):
            setattr(struct, name, str(value).encode())
        elif name == "store":
            if isinstance(value, str):
                struct.store = value.encode()
            else:
                keep = store_struct(value)
                struct.store_callbacks = ctypes.pointer(keep)
        elif name == "native_communicator":
            struct.native_communicator = value
        elif name == "settings":
            pairs = [f"{key}={_setting(item)}".encode() for key, item in dict(value).items()]
            struct.settings = (c_char_p * (len(pairs) + 1))(*pairs, None)
        else:
            raise TypeError(f"unknown configuration {name!r}")
    return struct, keep


def _setting(value: Any) -> Any:
    return ("on" if value else "off") if isinstance(value, bool) else value


def open_group(function: Callable[[int, int, int], int], config: dict[str, Any]) -> Group:
    """Runs tutti_init or tutti_group_join: function(config, group, error).

    Nothing ends a rendezvous early. So that Ctrl-C works, the main thread lets another thread wait.
    """
    struct, keep = config_struct(config)
    group, details = c_void_p(), ErrorStruct()

    def run() -> int:
        return function(addressof(struct), addressof(group), addressof(details))

    if not local.state.is_main or config.get("world_size") == 1:
        status = run()
    else:
        stays = lambda: bool(group.value and lib.tutti_group_capabilities(group) & _ONE_PROCESS)  # noqa: E731
        status = _interrupt.in_other_thread(run, stays)
    if status:
        fail(status, details)
    return Group(group.value or 0, None, keep)
