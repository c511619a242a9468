# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for tests: processes with an initialised torch.distributed.

They are forked from a server without threads that has imported torch. A fork of the test itself, which has threads, can
inherit a lock that one of them holds, and importing torch in each rank takes seconds.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import _tutti_torch_backend
from tutti import _install

_tutti_torch_backend.register()  # what the entry point of the installed package does


_processes = mp.get_context("forkserver")
_processes.set_forkserver_preload([__name__, "torch.distributed.fsdp"])


def _rank(function, rank, size, place, backend, timeout, environment, pipe, args):
    torch.set_num_threads(1)
    try:
        os.environ.update(environment or {})
        dist.set_debug_level_from_env()
        store = dist.FileStore(place, size) if isinstance(place, str) else dist.TCPStore("127.0.0.1", place)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        value = function(*args)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send(("ok", value))
    except BaseException:
        pipe.send(("error", traceback.format_exc()))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)


def wait_until_inside(operation, process):
    """Returns when `process` is inside an operation of this name: it has begun and not ended in the flight record."""
    command = [_install.program(), "trace", "dump", "--format", "json", "--pid", str(process)]
    inside = False
    while not inside:
        record = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        inside = any(
            entry["operation"] == operation and entry["state"] == "started"
            for rank in record["ranks"]
            for entry in rank["operations"]
        )


def run(size, function, *args, backend="tutti", timeout=300, limit=400, killed=(), tcp=False, environment=None):
    """Runs function(*args) on `size` ranks, and returns their values. Raises AssertionError with the errors.

    A rank in `killed` may die. The ranks get `limit` seconds and the variables in `environment`. Their rendezvous is a FileStore,
    or with `tcp` in a TCPStore.
    """
    deadline = timedelta(seconds=timeout)
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if tcp else None
        place = server.port if server else f"{folder}/store"
        for rank in range(size):
            reader, writer = _processes.Pipe(duplex=False)
            process = _processes.Process(
                target=_rank, args=(function, rank, size, place, backend, deadline, environment, writer, args)
            )
            process.start()
            writer.close()
            processes.append((process, reader))
        values = []
        errors = []
        end = time.monotonic() + limit
        for rank, (process, reader) in enumerate(processes):
            kind, value = "error", "no result"
            with contextlib.suppress(EOFError):
                if reader.poll(max(0, end - time.monotonic())):
                    kind, value = reader.recv()
            if kind == "error" and rank not in killed:
                errors.append(f"rank {rank}: {value}")
            values.append(value if kind == "ok" else None)
            process.join(max(0, min(5, end - time.monotonic())))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join()
    if errors:
        raise AssertionError("\n".join(errors))
    return values
