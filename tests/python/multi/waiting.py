# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for other ranks: works, asyncio, Ctrl-C, deadlines, ranks that leave, recovery, new ranks."""

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import tutti
from tutti import _interrupt, _work

try:
    import numpy as np
except ImportError:
    sys.exit(77)  # Debian: python3-numpy

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background has it ignored
LIMIT = 300.0  # seconds; passes only if something is broken
WORLD = tutti.init(timeout=LIMIT, lanes=2) if "TUTTI_TEST_TOKEN" not in os.environ else None
N, ME = (WORLD.size, WORLD.rank) if WORLD else (1, 0)
RIGHT, LEFT = (ME + 1) % N, (ME - 1) % N


def copy(timeout=LIMIT):
    """A group of all ranks for a test that breaks it."""
    return WORLD.create(range(N), timeout=timeout)


PACKAGE = str(Path(tutti.__file__).parent)
# Functions of the package that call what waits for other ranks.
WAITING = {"_run", "_enter", "wait", "sliced", "_wait_in_slices"}


SENDERS = []  # threads of interrupt()


def interrupt(to_other_thread=False):
    """Sends SIGINT to this process as soon as the main thread waits in a call of the package.

    The kernel may choose any thread for it, and mostly takes the main thread. `to_other_thread` names another one.

    A thread looks for the call while it holds the interpreter. Without forced switches the main thread gives that up in
    functions of C only. So it is inside the one that the innermost function of the package has called. The thread of the
    interrupt before must have ended: it could still force a switch.
    """
    while SENDERS:
        SENDERS.pop().join()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)

    def waits():
        frame = sys._current_frames()[threading.main_thread().ident]
        while frame and not frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return frame and frame.f_code.co_name in WAITING

    def send():
        while not waits():
            time.sleep(0.001)
        sys.setswitchinterval(interval)
        if to_other_thread:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    SENDERS.append(threading.Thread(target=send, daemon=True))
    SENDERS[-1].start()


def destroy_bucketer(group):
    with tutti.Bucketer(group, [np.zeros(1)]) as bucketer:
        bucketer.ready(0)


def drop_bucketer(group):
    bucketer = tutti.Bucketer(group, [np.zeros(1)])
    bucketer.ready(0)
    del bucketer
    group.destroy()


def drop_work(group):
    group.all_reduce_async(np.zeros(1))
    group.destroy()


class Waiting(unittest.TestCase):
    def test_work(self):
        if ME == 0:
            work = WORLD.all_reduce_async(np.ones(1), lane=1)
            with self.assertRaises(tutti.WaitLimit) as caught:
                work.wait(0.05)
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertFalse(work.test())
            WORLD.barrier()
            self.assertEqual(work.wait(), N)
        else:
            WORLD.barrier()
            self.assertEqual(WORLD.all_reduce(np.ones(1), lane=1), N)

    def test_cancel(self):
        with copy() as group:
            if ME == 0:
                blocked = group.all_reduce_async(np.ones(1))
                work = group.all_reduce_async(np.ones(1))
                work.cancel()
                self.assertTrue(work.cancelled())
                WORLD.barrier()
            else:
                WORLD.barrier()
                blocked = group.all_reduce_async(np.ones(1))
                work = group.all_reduce_async(np.ones(1))
            self.assertEqual(blocked.wait(), N)
            with self.assertRaises(tutti.Cancelled):
                work.wait()
            group.barrier()
            WORLD.barrier()

    def test_persistent(self):
        x, y = np.ones(1), np.ones(1)
        first, second = WORLD.all_reduce_init(x, lane=1), WORLD.all_reduce_init(y, lane=1)
        for _ in range(3):
            x[0] = y[0] = 1
            if ME == 0:
                first.start()
                with self.assertRaises(tutti.WaitLimit) as caught:
                    first.wait(0.05)
                self.assertIsInstance(caught.exception, TimeoutError)
                with self.assertRaises(tutti.BadState):
                    first.start()
                second.start()
                second.cancel()
                WORLD.barrier()
            else:
                WORLD.barrier()
                first.start()
                second.start()
            self.assertEqual(first.wait(), N)
            with self.assertRaises(tutti.Cancelled):
                second.wait()
            self.assertEqual(y[0], 1)
            with self.assertRaises(tutti.TooLate):
                second.cancel()
            self.assertEqual(second.run(), N)
        first.release()
        second.release()

    def test_persistent_dropped(self):
        """It goes on to its end, with its array, if it is released or dropped while it runs."""
        for how in ("release", "drop"):
            x = np.ones(1)
            seen = x[:]  # the same memory
            operation = WORLD.all_reduce_init(x, lane=1)
            if ME == 0:
                operation.start()
                if how == "release":
                    operation.release()
                del operation, x
                WORLD.barrier()
                WORLD.barrier(lane=1)  # behind it in its lane
            else:
                WORLD.barrier()
                operation.run()
                WORLD.barrier(lane=1)
            self.assertEqual(seen[0], N)

    def test_dropped(self):
        """A group ends with operations whose objects were dropped. Rank 0 waits before the other ranks have begun."""
        sliced = _work.sliced

        def begin(*arguments):
            if waits.acquire(blocking=False):
                WORLD.barrier()
            return sliced(*arguments)

        for count, start in (
            (1, lambda group, x: group.all_reduce_async(x)),
            (1 << 18, lambda group, x: group.all_reduce_async(x)),
            (1, lambda group, x: group.sendrecv_async(x * N, RIGHT, x, LEFT)),
            (1, lambda group, x: group.all_reduce_init(x).start()),
        ):
            x = np.ones(count)
            group = copy()
            waits = threading.Semaphore(1 if ME == 0 else 0)
            if ME > 0:
                WORLD.barrier()
            start(group, x)
            with mock.patch.object(_work, "sliced", begin):
                group.destroy()
            self.assertEqual(x[-1], N)

    def test_asyncio(self):
        async def turns():
            """Rank 0 starts its operations after this: when the loops of the others have turned with theirs under way."""
            for _ in range(3):
                await asyncio.sleep(0)
            await WORLD.barrier_async(lane=1)

        async def main():
            turning = asyncio.ensure_future(turns())
            if ME == 0:
                await turning
            results = await asyncio.gather(
                *[self._await(WORLD.all_reduce_async(np.full(3, float(i)))) for i in range(5)]
            )
            self.assertEqual([result[0] for result in results], [N * i for i in range(5)])
            with self.assertRaises(tutti.Mismatch):
                await WORLD.all_reduce_async(np.zeros(1 + ME))
            await turning

        asyncio.run(main())
        WORLD.barrier()

    @staticmethod
    async def _await(work):
        return await work

    def interrupted(self, call):
        for to_other_thread in (False, True):
            group = copy(math.inf)  # without a deadline only the interrupt ends the call
            group.barrier()  # the first call of the main thread starts the watch of signals
            if ME == 0:
                interrupt(to_other_thread)
                with self.assertRaises(KeyboardInterrupt):
                    call(group)
            else:
                with self.assertRaises(tutti.Revoked):
                    group.recv(np.zeros(1), 0)
            WORLD.barrier()
            group.destroy()

    def test_interrupt_blocking(self):
        self.interrupted(lambda group: group.all_reduce(np.zeros(1)))

    def test_interrupt_persistent(self):
        self.interrupted(lambda group: group.all_reduce_init(np.zeros(1)).run())

    def test_interrupt_recv(self):
        self.interrupted(lambda group: group.recv(np.zeros(1), 1))

    def test_interrupt_split(self):
        self.interrupted(lambda group: group.split(0))

    def test_interrupt_agree(self):
        self.interrupted(lambda group: group.agree())

    def test_interrupt_dropped(self):
        self.interrupted(drop_work)

    def test_interrupt_bucketer(self):
        self.interrupted(destroy_bucketer)
        self.interrupted(drop_bucketer)

    def test_interrupt_without_watch(self):
        """Calls that cannot be started end, too, if the program has its own wakeup descriptor."""
        receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            with mock.patch.multiple(_interrupt, armed=False, _refused=True):
                self.interrupted(lambda group: group.agree())
                self.interrupted(lambda group: group.shrink())
                self.interrupted(lambda group: group.empty(1 << 20))
                self.interrupted(lambda group: group.register(np.zeros(1 << 20)))
                self.interrupted(destroy_bucketer)
                self.interrupted(drop_bucketer)
        finally:
            signal.set_wakeup_fd(previous)
            receiver.close()
            sender.close()

    def test_interrupt_first_call(self):
        """The first call of the main thread starts the watch, also if it is one that cannot be started."""
        previous = signal.set_wakeup_fd(-1)
        try:
            with mock.patch.multiple(_interrupt, armed=False, _refused=False, _write=-1):
                group = copy(math.inf)
                group.agree()
                self.assertTrue(_interrupt.armed)
                group.destroy()
        finally:
            signal.set_wakeup_fd(previous)

    def test_interrupt_work(self):
        """An operation that is waited for in slices goes on after Ctrl-C."""
        if ME == 0:
            work = WORLD.barrier_async(lane=1)
            interrupt()
            with self.assertRaises(KeyboardInterrupt):
                work.wait()
            WORLD.barrier()
            work.wait()
        else:
            WORLD.barrier()
            WORLD.barrier(lane=1)

    def test_own_handler(self):
        """A handler that raises nothing does not end the call."""
        ran = threading.Event()
        previous = signal.signal(signal.SIGINT, lambda *_: ran.set())

        def release():
            ran.wait()
            WORLD.barrier(lane=1)

        try:
            if ME == 0:
                releasing = threading.Thread(target=release, daemon=True)
                releasing.start()
                interrupt()
            else:
                WORLD.barrier(lane=1)  # rank 0 comes here when its handler has run, while its main thread waits below
            WORLD.barrier()
            self.assertEqual(ran.is_set(), ME == 0)
            if ME == 0:
                releasing.join()
        finally:
            signal.signal(signal.SIGINT, previous)
        self.assertIsNone(WORLD.error())

    def test_own_exception(self):
        """An exception of a handler ends the call."""

        def handler(*_):
            raise ZeroDivisionError

        previous = signal.signal(signal.SIGINT, handler) if ME == 0 else None
        group = copy(math.inf)
        if ME == 0:
            interrupt()
            with self.assertRaises(ZeroDivisionError):
                group.barrier()
            signal.signal(signal.SIGINT, previous)
        else:
            with self.assertRaises(tutti.Revoked):
                group.recv(np.zeros(1), 0)
        WORLD.barrier()
        group.destroy()

    def test_interrupt_init(self):
        if ME == 0:
            interrupt(to_other_thread=True)
            with self.assertRaises(KeyboardInterrupt):
                tutti.init(rank=0, world_size=2, store=f"unix:tutti-python-{os.getpid()}", timeout=LIMIT)
        WORLD.barrier()

    def test_timeout(self):
        group = copy()
        if ME == 0:
            with self.assertRaises(tutti.Timeout) as caught:
                group.barrier(timeout=0.2)
            error = caught.exception
            self.assertIsInstance(error, TimeoutError)
            self.assertEqual((error.deadline, error.scope, error.operation), (0.2, "group", "barrier"))
            self.assertNotEqual(error.suspect, 0)
            self.assertIsInstance(group.error(), tutti.Timeout)
            with self.assertRaises(tutti.Revoked):
                group.barrier()
        WORLD.barrier()
        group.destroy()

    def test_left(self):
        group = copy()
        if ME == N - 1:
            group.destroy()
        else:
            with self.assertRaises(tutti.PeerLeft) as caught:
                group.barrier()
            self.assertIsInstance(caught.exception, ConnectionError)
            self.assertIn(N - 1, group.failed())
            group.destroy()
        WORLD.barrier()

    def test_context(self):
        """An exception in a `with` block frees the other ranks."""
        try:
            with copy() as group:
                if ME == 0:
                    raise ZeroDivisionError
                group.barrier()
        except (ZeroDivisionError, tutti.Revoked) as problem:
            self.assertEqual(isinstance(problem, ZeroDivisionError), ME == 0)
        WORLD.barrier()

    def test_recovery(self):
        group = copy()
        self.assertEqual(group.agree(0b110 if ME else 0b011), (0b010, []))
        if ME == 0:
            group.revoke()
        with self.assertRaises(tutti.Revoked):
            while True:
                group.barrier()
        self.assertEqual(group.failed(), [])
        rest = group.shrink()
        group.destroy()
        self.assertEqual(rest.all_reduce(np.ones(1)), N)
        WORLD.barrier()
        rest.destroy()

    def test_grow(self):
        token = np.zeros(64, "u1")
        if ME == 0:
            text = WORLD.token()
            token[: len(text)] = list(text.encode())
        text = bytes(WORLD.broadcast(token)).rstrip(b"\0").decode()
        child = None
        if ME == 0:
            clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_") or name in KEPT}
            child = subprocess.Popen([sys.executable, __file__], env={**clean, "TUTTI_TEST_TOKEN": text})
        grown = WORLD.grow(text, 1, timeout=LIMIT)
        self.assertEqual((grown.size, grown.rank), (N + 1, ME))
        self.assertEqual(grown.all_reduce(np.ones(1)), N + 1)
        grown.barrier()
        grown.destroy()
        if child:
            self.assertEqual(child.wait(), 0)


KEPT = ("TUTTI_LIBRARY", "TUTTI_ENGINE_CALIBRATE")


def newcomer():
    with tutti.join(os.environ["TUTTI_TEST_TOKEN"], timeout=LIMIT) as grown:
        assert grown.rank == grown.size - 1
        assert grown.all_reduce(np.ones(1)) == grown.size
        grown.barrier()


if __name__ == "__main__":
    if WORLD is None:
        newcomer()
    else:
        print("waiting on backend", WORLD.backend, flush=True)
        unittest.main(failfast=True)
