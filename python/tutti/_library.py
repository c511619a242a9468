# SPDX-License-Identifier: BSD-3-Clause
"""What needs no group: joining a job, ranks that are threads, backends, settings, the version."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar, Union

from . import _heap, _persistent, _work
from ._call import encoded, int32
from ._errors import Busy, Error, checked, fail
from ._group import Group, open_group
from ._native import RANK_FUNCTION, BackendStruct, ErrorStruct, KeyStruct, lib
from ._operation import reduce_op
from ._tensor import dtype_number

T = TypeVar("T")


def init(
    *,
    rank: Optional[int] = None,
    world_size: Optional[int] = None,
    backend: Optional[str] = None,
    timeout: Optional[float] = None,
    lanes: Optional[int] = None,
    device: Optional[str] = None,
    device_index: Optional[int] = None,
    store: Any = None,
    native_communicator: Optional[int] = None,
    settings: Optional[Dict[str, Any]] = None,
) -> Group:
    """Joins the job and returns the group of all its ranks. Collective.

    Without arguments rank, size and rendezvous come from the environment (tutti run, torchrun, mpirun, srun); without
    those the world has one rank. timeout: default deadline of every call, in seconds; math.inf = none. store: a URL
    (unix:NAME, tcp://HOST:PORT, file:PATH, memory:NAME), or an object with set(key, value) and get(key, timeout).
    settings: names and values as in `tutti info --config`. See tutti_init in tutti/group.h.
    """
    config = {
        "rank": rank,
        "world_size": world_size,
        "backend": backend,
        "timeout": timeout,
        "lanes": lanes,
        "device": device,
        "device_index": device_index,
        "store": store,
        "native_communicator": native_communicator,
        "settings": settings,
    }
    return open_group(lib.tutti_init, config)


def join(
    token: str,
    *,
    timeout: Optional[float] = None,
    device: Optional[str] = None,
    device_index: Optional[int] = None,
    settings: Optional[Dict[str, Any]] = None,
) -> Group:
    """Joins a group that grows, as one of its new ranks."""
    config = {"timeout": timeout, "device": device, "device_index": device_index, "settings": settings}
    secret = encoded(token, "token")
    return open_group(lambda *arguments: int(lib.tutti_group_join(secret, *arguments)), config)


def finalize() -> None:
    """Ends this process's use of Tutti: destroys all groups. Busy while operations are pending that have a Work, or
    heap arrays live. Waits for operations whose Work or Persistent was dropped."""
    if _heap.blocks_alive:
        raise Busy(f"tutti: {_heap.blocks_alive} arrays of Group.empty are alive; delete them before")
    for module in (_work, _persistent):
        module.end_dropped(None, lambda wait: _work.sliced(wait, None))
    checked(lib.tutti_finalize)


def run_threads(ranks: int, function: Callable[[Group], T]) -> List[T]:
    """Runs function(group) on `ranks` new threads that form one group; returns the results in rank order."""
    results: Dict[int, T] = {}
    problems: Dict[int, BaseException] = {}

    def rank(handle: int, _user: object) -> int:
        me = int(lib.tutti_group_rank(handle))
        group = Group(handle, _heap.Family(ends_with_thread=True))
        try:
            results[me] = function(group)
        except BaseException as problem:
            problems[me] = problem
            return int(getattr(problem, "code", 0)) or 20
        finally:
            for ending in (group, group._family.holder):
                if ending:
                    with suppress(Error):  # operations that are pending keep it
                        ending.destroy()
        return 0

    count = int32(ranks, "ranks")
    details, callback = ErrorStruct(), RANK_FUNCTION(rank)
    statuses: List[int] = []

    def run() -> None:
        statuses.append(lib.tutti_run_threads(count, callback, None, ctypes.addressof(details)))

    caller = threading.Thread(target=run, name="tutti-threads", daemon=True)
    caller.start()
    caller.join()
    if problems:
        raise problems[min(problems)]
    if statuses[0]:
        fail(statuses[0], details)
    return [results[me] for me in range(count)]


def backends() -> Dict[str, Optional[str]]:
    """Each backend, highest priority first: None if it can be used here, else the reason why not."""
    found: Dict[str, Optional[str]] = {}
    index, why = 0, ctypes.create_string_buffer(512)
    while True:
        backend = lib.tutti_backend_at(index)
        if not backend:
            return found
        name = BackendStruct.from_address(backend).name.decode()
        usable = lib.tutti_backend_available(lib.tutti_backend_find(name.encode()), why, len(why))
        found[name] = None if usable else why.value.decode()
        index += 1


def load_backend(path: str) -> None:
    """Opens a plug-in file and registers its backend."""
    checked(lib.tutti_backend_load, str(path).encode())


class Setting(NamedTuple):
    """A row of the table of settings."""

    key: str
    environment: str
    default: str
    choices: str
    help: str
    minimum: int
    maximum: int


def settings() -> List[Setting]:
    """All settings, for `settings=` of init, and their environment variables."""
    rows: List[Setting] = []
    info = KeyStruct(size=ctypes.sizeof(KeyStruct))
    while lib.tutti_config_key(len(rows), ctypes.addressof(info)) == 0:
        texts = (info.key, info.environment, info.default_value, info.choices, info.help)
        key, environment, default, choices, help_ = ((text or b"").decode() for text in texts)
        rows.append(Setting(key, environment, default, choices, help_, info.minimum, info.maximum))
    return rows


def reduce_op_valid(op: Union[str, int], dtype: Any) -> bool:
    """Whether a reduction is defined on an element type."""
    return bool(lib.tutti_reduce_op_valid(reduce_op(op), dtype_number(dtype)))


def status_text(code: int) -> str:
    """The sentence for a status."""
    return str(lib.tutti_status_string(code).decode())


def version() -> str:
    """The version of the loaded library."""
    return str(lib.tutti_version_string().decode())


def version_info() -> Tuple[int, int, int]:
    """The same as three numbers."""
    number = int(lib.tutti_version())
    return number // 10000, number // 100 % 100, number % 100
