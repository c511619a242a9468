# SPDX-License-Identifier: BSD-3-Clause
"""Messages: send, recv, probes, batches, and their asynchronous forms."""

import ctypes
import select
import sys
import threading
import unittest
from unittest import mock

import tutti
from tutti import _messages, _operation

try:
    import numpy as np
except ImportError:
    sys.exit(77)  # Debian: python3-numpy

WORLD = tutti.init()
N, ME = WORLD.size, WORLD.rank
RIGHT, LEFT = (ME + 1) % N, (ME - 1) % N


def private_bytes():
    """The private memory of this process, without what it has freed."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) * 1024


class Messages(unittest.TestCase):
    def test_ring(self):
        got = np.zeros(4)
        message = WORLD.sendrecv(np.full(4, float(ME)), RIGHT, got, LEFT, send_tag=3)
        self.assertEqual((message.source, message.tag, message.count, message.dtype), (LEFT, 3, 4, "f64"))
        self.assertEqual((got[0], message.nbytes), (LEFT, 32))
        work = WORLD.sendrecv_async(np.full(4, ME + 0.5), RIGHT, got, LEFT)
        self.assertEqual(work.wait().source, LEFT)
        self.assertEqual(got[3], LEFT + 0.5)

    def test_pairs(self):
        if ME == 0:
            for peer in range(1, N):
                WORLD.send(np.arange(peer + 1), peer, tag=peer)
                WORLD.send_async(np.float32([7, 8]), peer, tag=50).wait()
                WORLD.send(b"text", peer, tag=60)
        else:
            self.assertEqual(WORLD.probe_wait(0, ME).count, ME + 1)
            self.assertEqual(WORLD.probe(0, ME).count, ME + 1)
            values, message = WORLD.recv_alloc(0, ME)
            np.testing.assert_array_equal(values, np.arange(ME + 1))
            self.assertEqual(message.source, 0)
            self.assertEqual(WORLD.probe_async(0, 50).wait().dtype, "f32")
            values, message = WORLD.recv_alloc_async(0, 50).wait()
            self.assertEqual((list(values), message.tag), ([7, 8], 50))
            into = bytearray(8)
            self.assertEqual(WORLD.recv_async(into, tag=60).wait().count, 4)
            self.assertEqual(into, b"text\0\0\0\0")
        self.assertIsNone(WORLD.probe())
        WORLD.barrier()

    def test_new_arrays(self):
        """The arrays of recv_alloc are writable, whatever they hold."""
        sent = [np.full((2, 3), 1, kind) for kind in "dfebhiqBHIQ?"] + [np.array(7.0), np.zeros((3, 0), "f")]
        for value in sent:
            WORLD.send_async(value, RIGHT)
            came, message = WORLD.recv_alloc(LEFT)
            self.assertEqual((came.shape, came.dtype, message.count), (value.shape, value.dtype, value.size))
            np.testing.assert_array_equal(came, value)
            came[...] = 0
        WORLD.barrier()

    def test_new_array_in_threads(self):
        """Threads that wait for one receive get the same array, which is freed once."""
        inside = threading.Barrier(2)
        arrays = []

        def to_numpy(tensor):
            inside.wait()
            return _operation.to_numpy(tensor)

        WORLD.send_async(np.full(1 << 20, float(ME)), RIGHT)
        work = WORLD.recv_alloc_async(LEFT)
        threads = [threading.Thread(target=lambda: arrays.append(work.wait()[0])) for _ in range(2)]
        with mock.patch.object(_messages, "to_numpy", to_numpy):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertIs(arrays[0], arrays[1])
        self.assertTrue((arrays[0] == LEFT).all())
        WORLD.barrier()

    def test_new_array_that_is_not_fetched(self):
        """It is freed with its Work."""
        count, sent = 20, np.ones(1 << 20)
        before = private_bytes()
        for _ in range(count):
            sending = WORLD.send_async(sent, RIGHT)
            work = WORLD.recv_alloc_async(LEFT)
            select.select([work], [], [])
            sending.wait()
        del work
        self.assertLess(private_bytes() - before, count * sent.nbytes / 2)
        WORLD.barrier()

    def test_wrong_type(self):
        if ME == 0:
            WORLD.send_async(np.zeros(2, "i4"), 1)
        elif ME == 1:
            with self.assertRaises(tutti.Mismatch):
                WORLD.recv(np.zeros(2, "f4"), 0)
            self.assertEqual(WORLD.recv(np.zeros(2, "i4"), 0).count, 2)  # the message stayed
        WORLD.barrier()

    def test_batch(self):
        got = [np.zeros(2, "i8") for _ in range(N)]
        messages = []
        with WORLD.batch():
            for peer in range(N):
                WORLD.send(np.array([ME, peer]), peer, tag=1)  # the batch keeps this array
                messages.append(WORLD.recv(got[peer], peer, 1))
        self.assertEqual([list(pair) for pair in got], [[peer, ME] for peer in range(N)])
        self.assertEqual([message.source for message in messages], list(range(N)))
        with WORLD.batch() as batch:
            WORLD.send(np.array([ME, 5]), RIGHT)
            WORLD.recv(got[0], LEFT)
            work = batch.end_async()
        work.wait()
        self.assertEqual(list(got[0]), [LEFT, 5])
        with self.assertRaises(ZeroDivisionError):
            with WORLD.batch():
                WORLD.send(np.zeros(1), RIGHT)
                raise ZeroDivisionError
        with WORLD.batch():
            pass
        WORLD.barrier()

    def test_bad(self):
        with self.assertRaises(tutti.InvalidArgument):
            WORLD.send(np.zeros(1), ME)
        with self.assertRaises(tutti.InvalidArgument):
            WORLD.send(np.zeros(1), N)
        with self.assertRaises(tutti.InvalidArgument):
            WORLD.send(np.zeros(1), RIGHT, tag=-5)
        with self.assertRaisesRegex(tutti.InvalidArgument, "read-only"):
            WORLD.recv(b"x")
        with self.assertRaises(tutti.Timeout) as caught:
            WORLD.probe_wait(RIGHT, 99, timeout=0.05)
        self.assertEqual(caught.exception.scope, "call")
        WORLD.barrier()


if __name__ == "__main__":
    print("messages on backend", WORLD.backend, flush=True)
    unittest.main(failfast=True)
