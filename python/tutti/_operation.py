# SPDX-License-Identifier: BSD-3-Clause
"""How an operation is called: the blocking and the asynchronous form of a function of the library.

A method NAME is written once, and `started` makes NAME_async of it. A blocking call costs one call of ctypes. Where
nothing else would end a wait of the main thread on Ctrl-C, the operation is started and awaited in slices.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import threading
from ctypes import addressof, c_int32, c_int64, c_void_p
from time import time_ns
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple, TypeVar, Union, cast

from . import _interrupt
from ._call import call_struct, int32, local
from ._errors import Error, InvalidArgument, checked, fail, wrong_type
from ._native import ErrorStruct, lib
from ._persistent import Described, Persistent
from ._tensor import CPU, FORMATS, Managed, Tensor, dtype_number
from ._work import Work

T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
S = TypeVar("S", bound="Operations")

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
    found = _ops.get(name) if isinstance(name, str) else None
    if found is None:
        if not isinstance(name, str):
            try:
                return int32(name, "op")  # the library checks it
            except TypeError:
                raise wrong_type("op", name, f"one of {', '.join(REDUCE_OPS)}") from None
        number = c_int32()
        if lib.tutti_reduce_op_parse(name.encode(), addressof(number)):
            raise InvalidArgument(f"tutti: op is {name!r}, which is no reduction; they are {', '.join(REDUCE_OPS)}")
        found = _ops[name] = number.value
    return found


_functions = {name[len("tutti_") :]: getattr(lib, name) for name in dir(lib) if name.startswith("tutti_")}
_starting: dict[int, Any] = {}


_HOW = "async"  # an option that no caller can write as a keyword: what a method does instead of running
_START, _DESCRIBE = 1, 2
_MESSAGES = ("send", "recv", "sendrecv")


def _like(method: Callable[..., Any], form: Callable[..., Any], suffix: str, result: str, doc: str) -> None:
    """Gives a form of a method its name with a suffix, its parameters, and another result."""
    form.__name__, form.__qualname__ = method.__name__ + suffix, method.__qualname__ + suffix
    form.__doc__ = doc
    result = f"{result}[{method.__annotations__['return']}]"
    signature = inspect.signature(method).replace(return_annotation=result)
    form.__signature__ = signature  # type: ignore[attr-defined]
    form.__annotations__ = {**method.__annotations__, "return": result}


def started(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Work[T]]:
    """NAME_async, made of the method NAME: the same parameters, but it starts the operation and returns a Work."""

    def asynchronous(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Work[T]:
        kwargs[_HOW] = _START
        return cast("Work[T]", method(self, *args, **kwargs))

    doc = f"Starts {method.__name__} and returns a Work at once. The arrays are borrowed until its end."
    _like(method, asynchronous, "_async", "Work", doc)
    return asynchronous


def initialised(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Persistent[T]]:
    """NAME_init, made of the method NAME: the same parameters, but it returns a Persistent, which runs it."""

    def init(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Persistent[T]:
        described, options = self._describe(method, args, kwargs)
        return Persistent(self, [described], described.output, options)

    doc = f"Checks {method.__name__}, and returns a Persistent that runs it again and again."
    _like(method, init, "_init", "Persistent", doc)
    return init


class Operations:
    """What the methods of Group that run an operation need of it."""

    def __init__(self, handle: int, aborts: bool, one_process: bool):
        self.handle = handle
        self._aborts = aborts  # whether tutti_group_abort ends what waits
        self._one_process = one_process  # whether ranks are threads: such a rank belongs to the thread that makes its group
        self._size = int(lib.tutti_group_size(handle))
        self._rank = int(lib.tutti_group_rank(handle))
        self._batches: dict[int, list[Any]] = {}

    def _run(
        self, name: str, output: T, before: Tuple[Any, ...], options: Any, keep: Any, after: Tuple[Any, ...] = ()
    ) -> T:
        """Runs function(group, *before, call, *after); returns `output`. `keep` owns what the operation borrows."""
        how = options.pop(_HOW, 0) if options else 0
        if how == _DESCRIBE:
            return cast(T, (Described(name, before, output, keep), options))
        if how == _START:
            return cast(T, self._start(name + "_async", before, after, options, keep, output))
        if options and self._batches:
            self._check_member(name, options)
        state = local.state
        if state.is_main and self._in_slices(state):
            work: Work[T] = self._start(name + "_async", before, after, options, keep, output)
            return self._wait(work)
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
        if self._batches:
            self._borrow(keep)
        return output

    def _describe(self, method: Any, args: Tuple[Any, ...], kwargs: Any) -> Tuple[Described, Any]:
        """A call of the method as data, and the options of the call."""
        return cast(Tuple[Described, Any], method(self, *args, **{**kwargs, _HOW: _DESCRIBE}))

    def _enter(self, function: Any, *arguments: Any) -> int:
        """Calls a function that waits for other ranks; returns its status."""
        state = local.state
        state.group = self.handle
        state.calls += 1
        state.began = time_ns()
        try:
            return int(function(*arguments))
        finally:
            state.group = None

    def _enter_unstarted(self, function: Any, *arguments: Any) -> int:
        """The same for a function that has no asynchronous form: where nothing else would end it, a thread calls it."""
        state = local.state
        if state.is_main and self._aborts and not self._one_process and self._in_slices(state):
            abort = lambda: lib.tutti_group_abort(self.handle, None)  # noqa: E731
            return _interrupt.in_thread_until_abort(lambda: int(function(*arguments)), abort)
        return self._enter(function, *arguments)

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
        """Starts function(group, *before, call, *after, work). `finish`, if it is there, makes the Work's output."""
        state = local.state
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        work = c_void_p()
        borrowed = (keep, kept, after, output, self, work)
        _starting[id(work)] = borrowed  # KeyboardInterrupt may come between the start and the Work
        status = _functions[name](self.handle, *before, call, *after, addressof(work))
        if status:
            del _starting[id(work)]
            fail(status, state.error)
        made: Work[Any] = Work(self.handle, work.value or 0, borrowed, finish or (lambda: output))
        del _starting[id(work)]
        return made

    def _borrow(self, keep: Any) -> None:
        """Keeps arrays of a message alive until the end of this thread's batch, if there is one."""
        batch = self._batches.get(threading.get_ident())
        if batch is not None:
            batch.append(keep)

    def _check_member(self, name: str, options: Any) -> None:
        """Refuses a promise that nobody would keep: the library ignores the options of a message in a batch."""
        if options.get("on_end") and name in _MESSAGES and threading.get_ident() in self._batches:
            raise InvalidArgument(f"tutti: {name} in a batch has no end of its own: give on_end to the batch")

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
        made = Managed()
        number = dtype_number(tensor.dtype)
        checked(lib.tutti_tensor_empty, self.handle, number, len(shape), addressof(dims), made.address)
        return made.tensor()

    def _blocking(self, function: Any, *arguments: Any) -> None:
        """A call without options that waits for other ranks. Its last argument is a tutti_error."""
        details = ErrorStruct()
        status = self._enter_unstarted(function, self.handle, *arguments, addressof(details))
        if status:
            fail(status, details)


def to_numpy(tensor: Tensor) -> Any:
    """A NumPy array over a compact Tensor; the Tensor itself if there is none, as for bf16 and on a device.

    It is writable, as that of numpy.from_dlpack is since NumPy 2.1 only.
    """
    numpy, kind = sys.modules.get("numpy"), FORMATS.get(tensor.dtype)
    if numpy is None or kind is None or tensor._struct.device.device_type != CPU:
        return tensor
    return numpy.asarray(tensor.memory()).view(kind).reshape(tensor.shape)
