# SPDX-License-Identifier: BSD-3-Clause
"""Errors: wrong arguments, deadlines, dead ranks, aborts, groups that end early. And groups leave nothing behind."""

import contextlib
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from datetime import timedelta
from pathlib import Path

import ranks
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import fully_shard


def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert re.search(words, str(error)), f"{words!r} is not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__} with {words!r}")


def backend(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


def arguments():
    rank, size = dist.get_rank(), dist.get_world_size()
    raises(TypeError, "band is not defined on Float", lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND))
    raises(
        TypeError,
        "sum is not defined on Float8_e5m2fnuz",
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e5m2fnuz)),
    )
    world = dist.group.WORLD
    raises(ValueError, "invalid root rank: 9", lambda: world.broadcast(torch.ones(2), 9))
    raises(ValueError, "Incorrect output list size 1", lambda: world.allgather([[torch.ones(2)]], [torch.ones(2)]))
    raises(ValueError, "world size", lambda: dist.all_gather_into_tensor(torch.ones(3 * size), torch.ones(2)))
    raises(
        ValueError,
        "invalid tensor type",
        lambda: world._allgather_base(torch.ones(2 * size), torch.ones(2, dtype=torch.int32)),
    )
    raises(ValueError, "lies on meta", lambda: backend().allreduce([torch.ones(2, device="meta")]))
    t = torch.ones(1)
    dist.all_reduce(t)  # none of these has harmed the group
    assert t[0] == size
    # Ranks that call different things get an error instead of a wrong result, and the group stays usable.
    for asynchronous in (False, True):

        def call():
            work = dist.all_reduce(torch.ones(2 + rank), async_op=asynchronous)
            if asynchronous:
                work.wait()

        raises(dist.DistBackendError, "MISMATCH.*(elements|count|length|shape)", call)
    dist.all_reduce(t)
    assert t[0] == size * size


def deadlines():
    import tutti.torch

    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=777))
    assert "deadline 777000 ms" in tutti.torch.describe(group), tutti.torch.describe(group)
    if rank == 0:
        # Not before: torch gives the forming of the group the same deadline, within which all ranks have to come.
        group.set_timeout(timedelta(milliseconds=300))
        begin = time.monotonic()
        error = raises(dist.DistBackendError, "TIMEOUT.*rank 1", lambda: dist.barrier(group=group))
        assert time.monotonic() - begin > 0.25, error
    dist.barrier()
    group = dist.new_group()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        raises(dist.DistBackendError, "timed out", lambda: work.wait(timedelta(milliseconds=100)))
        assert not work.is_completed()
        dist.barrier()
        work.wait()  # the limit ended only the wait
    else:
        dist.barrier()
        dist.all_reduce(torch.ones(1), group=group)
    group = dist.new_group()
    if rank == 0:  # the deadline of a call
        options = dist.AllreduceOptions()
        options.timeout = timedelta(milliseconds=200)
        future = group.allreduce([torch.ones(1)], options).get_future()
        raises(RuntimeError, "TIMEOUT.*all_reduce", future.wait)
    dist.barrier()


def alone():
    """The other rank of a new group never comes."""
    from tutti.torch import _extension

    error = raises(
        dist.DistBackendError,
        "^tutti TIMEOUT: init of 2 ranks waited .* ms; missing: rank 1",
        lambda: _extension.load().create(dist.HashStore(), 0, 2, timedelta(milliseconds=300), "alone", [0, 1]),
    )
    assert int(re.search(r"waited (\d+) ms", str(error))[1]) >= 300, error


class Death:
    """The death of rank 1, with its time in a file of `folder` that all ranks read."""

    def __init__(self, folder):
        self.file = Path(folder) / "death"

    def __call__(self, *_of_a_hook):
        """Ends the process of rank 1; does nothing on other ranks."""
        if dist.get_rank() == 1:
            self.file.write_text(str(time.monotonic()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    def met_by(self, call, kind=dist.DistBackendError):
        """Expects an error of `call` that names rank 1. Returns how many seconds after the death it came."""
        error = raises(kind, "PEER_DEAD|REVOKED", call)
        end = time.monotonic()
        assert "rank 1" in str(error), error
        return end - float(self.file.read_text(encoding="utf-8"))


def death(folder):
    """Rank 1 dies while the others wait for it."""
    die = Death(folder)
    processes = [None] * dist.get_world_size()
    dist.all_gather_object(processes, os.getpid())
    if dist.get_rank() == 1:
        for process in set(processes) - {os.getpid()}:
            ranks.wait_until_inside("all_reduce", process)
    die()
    return die.met_by(lambda: dist.all_reduce(torch.ones(4)))


def death_async():
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    future = work.get_future()
    raises(dist.DistBackendError, "rank 1", work.wait)
    raises(RuntimeError, "rank 1", future.wait)
    assert work.is_completed() and not work.is_success()
    raises(dist.DistBackendError, "rank 1", lambda: dist.send(torch.ones(1), 1))


def layers():
    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))


def ddp_hook(die):
    """Rank 1 dies in the backward pass: its first bucket is on the way, its last one is not."""
    model = torch.nn.parallel.DistributedDataParallel(layers(), bucket_cap_mb=0.01)
    return model, lambda: model.module[1].weight.register_hook(die)


def ddp_comm_hook(die):
    """Rank 1 dies in the communication hook of its second bucket."""
    model = torch.nn.parallel.DistributedDataParallel(layers(), bucket_cap_mb=0.01)
    armed = threading.Event()

    def hook(group, bucket):
        if armed.is_set() and bucket.index() == 1:
            die()
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, hook)
    return model, armed.set


def fsdp2_hook(die):
    """Rank 1 dies in the backward pass, between two layers."""
    model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, lambda: model[1].register_full_backward_hook(die)


def death_in_step(program, folder):
    """Training steps, in the third of which rank 1 is killed."""
    die = Death(folder)
    model, arm = program(die)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        loss = model(torch.ones(8, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    step()
    arm()
    # Torch turns the error of a then-callback in Python, as in this hook, into a RuntimeError with the same text.
    return die.met_by(step, RuntimeError if program is ddp_comm_hook else dist.DistBackendError)


def aborted():
    group = dist.new_group()
    if dist.get_rank() == 0:

        def abort():
            ranks.wait_until_inside("barrier", os.getpid())
            backend(group).abort()

        thread = threading.Thread(target=abort)
        thread.start()
        raises(dist.DistBackendError, "abort", lambda: dist.barrier(group=group))
        thread.join()
    dist.barrier()


def monitored():
    import tutti.torch

    rank, size = dist.get_rank(), dist.get_world_size()
    tutti.torch.monitored_barrier()
    for _ in range(3):
        tutti.torch.monitored_barrier(timeout=60)
    if rank == 0:
        missing = "Ranks 1, 2, 3" if size == 4 else "Rank 1"
        raises(
            dist.DistBackendError,
            f"{missing} failed to pass monitoredBarrier",
            lambda: tutti.torch.monitored_barrier(timeout=0.2, wait_all_ranks=True),
        )
    dist.barrier()
    tutti.torch.monitored_barrier(timeout=60)
    if rank:  # too early: rank 0 sees that these ranks have aborted
        raises(
            dist.DistBackendError,
            f"Rank {rank} successfully reached monitoredBarrier",
            lambda: tutti.torch.monitored_barrier(timeout=0.2),
        )
    dist.barrier()
    if rank == 0:
        raises(
            dist.DistBackendError,
            "Rank 1 failed to pass monitoredBarrier",
            lambda: tutti.torch.monitored_barrier(timeout=0.2),
        )
    dist.barrier()
    tutti.torch.monitored_barrier(timeout=60)


def pending():
    """The group ends while an operation of this rank waits for others."""
    group = dist.new_group()
    if dist.get_rank() == 0:
        group.set_timeout(timedelta(seconds=1))  # of which the end waits at most so long
        work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
        dist.destroy_process_group(group)
        raises(dist.DistBackendError, "", work.wait)
    dist.barrier()


def no_deadline():
    """The timeout 0 means none. The barrier then waits, and the end of the group gives pending operations a moment."""
    import tutti.torch

    rank = dist.get_rank()
    ended = torch.zeros(1)
    for _ in range(10):  # on a busy machine the moment may be too short
        group = dist.new_group(timeout=timedelta(0))
        tutti.torch.monitored_barrier(group)
        if rank == 0:
            with contextlib.suppress(RuntimeError):  # that of a call is a limit
                raise AssertionError(tutti.torch.monitored_barrier(group, timeout=0))
            work = dist.all_reduce(torch.ones(1), group=group, async_op=True)
            dist.barrier()
            dist.destroy_process_group(group)
            with contextlib.suppress(dist.DistBackendError):
                ended.fill_(work.wait())
        else:
            dist.barrier()
            time.sleep(0.2)  # rank 0 destroys its group
            with contextlib.suppress(dist.DistBackendError):
                dist.all_reduce(torch.ones(1), group=group)
        dist.broadcast(ended, 0)
        if ended:
            return
    raise AssertionError("the end of the group has ended the operation")


@contextlib.contextmanager
def no_new_threads():
    """There is no memory for the stack of a thread. Waiting threads take the stacks of ended ones, which glibc keeps."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="utf-8") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    end = threading.Event()
    waiting = []
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (4 << 20), before[1]))
    try:
        with contextlib.suppress(RuntimeError):
            while True:
                thread = threading.Thread(target=end.wait)
                thread.start()
                waiting.append(thread)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        end.set()
        for thread in waiting:
            thread.join()


def futures_without_threads():
    """Rank 0 can make no thread: get_future says so. Then it has one thread, which completes all futures."""
    if dist.get_rank() != 0:
        for _ in range(7):
            dist.recv(torch.ones(1), 0)
            dist.all_reduce(torch.ones(1))
        return

    def start():
        return dist.all_reduce(torch.ones(1), async_op=True)

    def end(work):
        dist.send(torch.ones(1), 1)  # which then takes part
        work.wait()

    end(start())  # Tutti has the threads for such operations
    work = start()
    with no_new_threads():
        raises(dist.DistBackendError, "NO_RESOURCE: get_future", work.get_future)
        end(work)
    work = start()
    future = work.get_future()
    end(work)
    future.wait()
    go = threading.Event()
    works = [start() for _ in range(4)]
    with no_new_threads():
        futures = [work.get_future().then(lambda _: go.wait()) for work in works]
        for work in works:
            end(work)
        go.set()
        for future in futures:
            assert future.wait()


def many_groups(count):
    """Descriptors, threads and memory of the process after the first hundred groups, and after all."""

    def state():
        gc.collect()
        with open("/proc/self/status", encoding="utf-8") as file:
            status = dict(line.split(":", 1) for line in file)
        return len(os.listdir("/proc/self/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])

    for i in range(count):
        group = dist.new_group()
        t = torch.ones(2)
        dist.all_reduce(t, group=group, async_op=bool(i % 2))
        dist.barrier(group=group)
        dist.destroy_process_group(group)
        if i == 99:
            first = state()
    return first, state()


def use_after_destroy():
    group = dist.group.WORLD
    dist.destroy_process_group()
    raises(dist.DistBackendError, "BAD_STATE", lambda: group.allreduce([torch.ones(1)]))


PROGRAM = """
import os, sys, ranks, torch, torch.distributed as dist
dist.init_process_group("tutti", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
t = torch.ones(1)
dist.all_reduce(t)
if sys.argv[3] == "pending" and dist.get_rank() == 0:
    work = dist.all_reduce(t, async_op=True)
    future = work.get_future().then(lambda f: print("callback"))
    message = dist.irecv(torch.ones(1), 1)
elif sys.argv[3] == "pending":
    dist.all_reduce(t)  # rank 0 has arrived, and needs not stay
    try:
        dist.recv(t, 0)
    except dist.DistBackendError as error:
        print(error)
print("end")
"""


class Failures(unittest.TestCase):
    def test_arguments(self):
        for size in (2, 4):
            ranks.run(size, arguments)

    def test_deadlines(self):
        ranks.run(2, deadlines)

    def test_alone(self):
        ranks.run(1, alone)

    def deaths(self, name, function, *args):
        for size in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                values = ranks.run(size, function, *args, folder, killed={1})
            # On an idle machine some milliseconds. No test depends on it: a busy one may take longer.
            slowest = max(value for value in values if value is not None)
            print(f"{name}, {size} ranks: the last error {slowest * 1e3:.0f} ms after the death", file=sys.__stdout__)

    def test_death(self):
        self.deaths("all_reduce", death)

    def test_death_in_step(self):
        for program in (ddp_hook, ddp_comm_hook, fsdp2_hook):
            with self.subTest(program.__name__):
                self.deaths(program.__name__, death_in_step, program)

    def test_death_async(self):
        ranks.run(2, death_async, killed={1})

    def test_abort(self):
        ranks.run(2, aborted)

    def test_monitored_barrier(self):
        for size in (2, 4):
            ranks.run(size, monitored)

    def test_pending(self):
        ranks.run(2, pending)

    def test_no_deadline(self):
        ranks.run(2, no_deadline)

    def test_futures_without_threads(self):
        ranks.run(2, futures_without_threads)

    def test_use_after_destroy(self):
        ranks.run(2, use_after_destroy)

    def test_thousand_groups(self):
        count = int(os.environ.get("TUTTI_TEST_GROUPS", "1000"))
        for first, last in ranks.run(2, many_groups, count, limit=600, tcp=True):
            # What leaks, leaks a hundred times. One event descriptor comes and goes with the works under way.
            self.assertLess(last[0] - first[0], 10, "descriptors")
            self.assertLess(last[1] - first[1], 10, "threads")
            self.assertLess(last[2] - first[2], 20000, "KiB of memory")

    def test_exit_without_destroy(self):
        for how in ("idle", "pending"):
            with tempfile.TemporaryDirectory() as folder:
                processes = [
                    subprocess.Popen(
                        [sys.executable, "-c", PROGRAM, f"{folder}/store", str(r), how],
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        cwd=os.path.dirname(os.path.abspath(__file__)),
                    )
                    for r in range(2)
                ]
                for process in processes:
                    self.addCleanup(process.kill)  # if it hangs
                for process in processes:
                    out, err = process.communicate(timeout=300)
                    self.assertEqual((process.returncode, "end" in out), (0, True), err)
                if how == "pending":
                    self.assertRegex(out, "tutti PEER_LEFT: recv from rank 0")


if __name__ == "__main__":
    unittest.main()
