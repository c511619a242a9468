# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication between the processes of a job: all_reduce, broadcast, send, recv and the others.

    import numpy, tutti
    with tutti.init() as world:
        print(world.all_reduce(numpy.ones(4)))

Start one process for each CPU: `tutti run -- python program.py`. docs/python.md is the introduction.
"""

from . import _errors
from ._errors import *  # noqa: F403
from ._events import Event, Events
from ._group import CAPABILITIES, Group, Record
from ._heap import Registration
from ._install import include, library, program
from ._library import Setting, backends, finalize, init, join, load_backend, reduce_op_valid, run_threads, settings
from ._library import status_text, version, version_info
from ._messages import ANY, ANY_SOURCE, ANY_TAG, Batch, Message
from ._native import lib
from ._operation import REDUCE_OPS, reduce_op
from ._overlap import Bucketer
from ._persistent import Persistent, PersistentOp
from ._tensor import DTYPES, Tensor
from ._work import CancelToken, Queue, Task, Work

__version__ = version()

# fmt: off
__all__ = [
    "ANY", "ANY_SOURCE", "ANY_TAG", "Batch", "Bucketer", "CAPABILITIES", "CancelToken", "DTYPES", "Event", "Events",
    "Group", "Message", "Persistent", "PersistentOp", "Queue", "REDUCE_OPS", "Record", "Registration", "Setting", "Task",
    "Tensor", "Work", "backends", "finalize", "include", "init", "join", "lib", "library", "load_backend", "program", "reduce_op",
    "reduce_op_valid", "run_threads", "settings", "status_text", "version", "version_info",
]
# fmt: on
__all__ += _errors.__all__
