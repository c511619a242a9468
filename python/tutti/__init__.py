# SPDX-License-Identifier: BSD-3-Clause
"""Collective communication between the processes of a job: all_reduce, broadcast, send, recv and the others.

    import numpy, tutti
    with tutti.init() as world:
        print(world.all_reduce(numpy.ones(4)))

Start one process for each CPU: `tutti run -- python program.py`. docs/python.md is the introduction.
"""

from ._errors import *  # noqa: F401,F403
from ._errors import Error
from ._events import Event, Events
from ._group import ANY, ANY_SOURCE, ANY_TAG, CAPABILITIES, REDUCE_OPS, Batch, Group, Message, Record
from ._heap import Registration
from ._install import include, library, program
from ._library import Setting, backends, finalize, init, join, load_backend, reduce_op_valid, run_threads, settings
from ._library import status_text, version, version_info
from ._native import lib
from ._overlap import Bucketer
from ._tensor import DTYPES, Tensor
from ._work import CancelToken, Queue, Task, Work

__version__ = version()
