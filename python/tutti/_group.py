# SPDX-License-Identifier: BSD-3-Clause
"""Groups of ranks and their operations. Each method is the function of the headers with the same name."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_char_p, c_int32, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple, Union

from . import _events, _interrupt, _overlap, _persistent, _work
from ._call import call_struct, deadline_ms, encoded, int32, integer, integers, local
from ._collectives import Collectives
from ._errors import Error, InvalidArgument, checked, error_of, fail, wrong_type
from ._heap import Family, Registration, empty
from ._messages import Messages
from ._native import ConfigStruct, ErrorStruct, RecordStruct, lib
from ._store import store_struct
from ._tensor import dtype_number, writing
from ._work import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._call import Options

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
    "wire": 17,
}
_DESTROYED = 1  # no handle of the library: it refuses it as that of a group that has been destroyed
_RECOVER, _ONE_PROCESS = 1 << CAPABILITIES["recover"], 1 << CAPABILITIES["one_process"]


@dataclass(frozen=True)
class Record:
    """An operation that a group of the backend "null" was asked to run."""

    operation: str
    dtype: str
    reduce_op: str
    root: int
    tag: int
    count: int


class Group(Collectives, Messages):
    """An ordered set of ranks that run operations together: from `tutti.init`, `split`, `create`, `shrink`, `grow`.

    Arrays are NumPy arrays, Tensors, or any object with `__dlpack__` or a buffer. They may have strides. Nothing is
    copied. A method without `output` puts the result into a new array, or works in place where it says so. NAME_async
    starts the operation NAME and returns a Work at once; its arrays are borrowed until the end.

    Keyword arguments of operations: see Options in tutti/_call.py. `with group:` destroys the group at the end. After
    an exception it aborts the group before, so that other ranks do not wait for this one.
    """

    def __init__(self, handle: int, family: Optional[Family] = None, keep: Any = None):
        capabilities = lib.tutti_group_capabilities(handle)
        super().__init__(handle, bool(capabilities & _RECOVER), bool(capabilities & _ONE_PROCESS))
        self._keep = keep
        self._family = family if family is not None else Family()
        self._family.opened(handle)

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
        return error_of(lib.tutti_group_error, self.handle)

    def recorded(self, index: int) -> Record:
        """Operation `index` that ran on a group of the backend "null"."""
        record = RecordStruct(size=ctypes.sizeof(RecordStruct))
        checked(lib.tutti_null_recorded, self.handle, integer(index, "index"), addressof(record))
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
        numbers = [int32(rank, "a rank") for rank in integers(ranks, "ranks")]
        members = (c_int32 * max(len(numbers), 1))(*numbers)
        made, keep = self._derive(lib.tutti_group_create, members, len(numbers), config=config)
        assert made
        return self._child(made, keep)

    def split(self, color: Optional[int], key: int = 0, **config: Any) -> Optional[Group]:
        """Ranks of equal colour form a group, ordered by key. Colour None: this rank joins none, and gets None."""
        number = -1 if color is None else int32(color, "color")
        if color is not None and number < 0:
            raise InvalidArgument(f"tutti: color is {number}; it is None or at least 0")
        made, keep = self._derive(lib.tutti_group_split, number, int32(key, "key"), config=config)
        return self._child(made, keep) if made else None

    def _child(self, handle: int, keep: Any = None) -> Group:
        """A group of ranks of this one. On the same backend it shares the heap."""
        same = lib.tutti_group_backend(handle) == lib.tutti_group_backend(self.handle)
        return Group(handle, self._family if same else None, (self._keep, keep))

    def _derive(self, function: Any, *arguments: Any, config: dict[str, Any]) -> Tuple[int, Any]:
        struct, keep = config_struct(config) if config else (None, None)
        group = c_void_p()
        self._form(function, *arguments, ctypes.byref(struct) if struct else None, ctypes.byref(group))
        return group.value or 0, keep

    def _form(self, function: Any, *arguments: Any) -> None:
        """A call that makes a group, which an abort does not end. After Ctrl-C it goes on, and keeps its arguments."""
        if self._size == 1 or self._one_process or not local.state.is_main:
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

    def destroy(self) -> None:
        """Ends this rank's use of the group. Busy while operations are pending that have a Work. Waits for those whose
        Work, Persistent or Bucketer was dropped, else for no rank.

        If arrays of `empty` are alive and this is the last group that shares their memory, the group ends when the
        last of them does.
        """
        _work.end_dropped(self.handle, self._wait_sliced)
        _persistent.end_dropped(self.handle, self._wait_sliced)
        _events.registry.end(self.handle, self._enter)
        _overlap.registry.end(self.handle, self._enter_unstarted)
        if self._family.close(self.handle):
            self._keep = None
        self.handle = _DESTROYED

    def _wait_sliced(self, wait: Callable[[int], int]) -> None:
        """An exception of a signal handler ends the wait, and aborts what it waits for."""
        try:
            _work.sliced(wait, None)
        except BaseException:
            lib.tutti_group_abort(self.handle, None)
            raise

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        if self.handle == _DESTROYED:
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

    # ---- works of the caller --------------------------------------------------------------------------------------

    def task(self, output: Any = None, **options: Unpack[Options]) -> Task[Any]:
        """A work that the caller runs and completes: see Task."""
        a, keep = writing(output) if output is not None else (None, None)
        state = local.state
        call, kept = call_struct(state.error_address, options) if options else (state.call_address, None)
        work = c_void_p()
        status = lib.tutti_work_create(self.handle, a, call, addressof(work))
        if status:
            fail(status, state.error)
        return Task(0, work.value or 0, (keep, kept, output), lambda: output)

    # ---- the heap -----------------------------------------------------------------------------------------------

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "f64") -> Any:
        """A new array in memory that the other ranks can reach, so that collectives copy less. Collective; ranks may
        ask for different shapes. A NumPy array if NumPy is installed and has the type, else a Tensor."""
        dims = (shape,) if isinstance(shape, int) else tuple(integers(shape, "shape"))
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
        flags = integer(flags, "flags")
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
        return self._child(group.value or 0)

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
            encoded(token, "token"),
            int32(newcomers, "newcomers"),
            deadline_ms(timeout),
            ctypes.byref(group),
        )
        return Group(group.value or 0, None, self._keep)


# ---- configurations -------------------------------------------------------------------------------------------------


def config_struct(config: dict[str, Any]) -> Tuple[ConfigStruct, Any]:
    """(a tutti_config, what it borrows). The store has to stay until the group's end."""
    struct = ConfigStruct(size=ctypes.sizeof(ConfigStruct))
    keep: Any = None
    pairs: list[bytes] = []
    for name, value in config.items():
        if value is None:
            continue
        if name in ("rank", "world_size", "lanes", "device_index"):
            setattr(struct, name, int32(value, name))
        elif name == "device" and config.get("device_index") is None:
            pairs.append(f"device={value}".encode())  # in the struct it would be device 0 on all ranks
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
            try:
                struct.native_communicator = value
            except TypeError:
                raise wrong_type(name, value, "an address") from None
        elif name == "settings":
            try:
                items = dict(value).items()
            except (TypeError, ValueError):
                raise wrong_type(name, value, "a dict of names and values") from None
            pairs += [f"{key}={_setting(item)}".encode() for key, item in items]
        else:
            raise TypeError(f"unknown configuration {name!r}")
    if pairs:
        struct.settings = (c_char_p * (len(pairs) + 1))(*pairs, None)
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
