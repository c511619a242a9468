# SPDX-License-Identifier: BSD-3-Clause
"""What needs no second process: arrays in and out, bad input, errors, works, ranks that are threads."""

import array
import asyncio
import gc
import pickle
import signal
import socket
import sys
import threading
import time
import unittest
import weakref
from types import SimpleNamespace
from unittest import mock

import tutti
from tutti import _group, _heap, _interrupt, _work

try:
    import numpy as np
except ImportError:
    sys.exit(77)  # Debian: python3-numpy


def new(**config):
    return tutti.init(world_size=1, **config)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.group = new()
        self.addCleanup(lambda: self.group.__exit__(None))

    def refuses(self, words, *arguments, **options):
        with self.assertRaisesRegex(tutti.InvalidArgument, words):
            self.group.all_reduce(*arguments, **options)

    def test_numpy(self):
        source = np.arange(6.0).reshape(2, 3)
        for view in (source, source[:, ::2], source[::-1], source.T, np.broadcast_to(np.float64(3), (4,))):
            result = self.group.all_reduce(view, np.zeros(view.shape))
            np.testing.assert_array_equal(result, view)
        target = np.zeros((4, 6))
        self.group.all_reduce(source, target[1:3, ::-2])
        np.testing.assert_array_equal(target[1:3, ::-2], source)
        self.assertEqual(target.sum(), source.sum())
        for shape in ((), (0,), (3, 0, 2), (1,) * 16):
            self.group.all_reduce(np.zeros(shape))

    def test_buffers(self):
        for made in (bytearray(b"1234"), array.array("d", [1, 2]), memoryview(bytearray(8))[::2]):
            self.assertIs(self.group.all_reduce(made), made)
        self.group.all_reduce(b"abc", into := bytearray(3))
        self.assertEqual(into, b"abc")
        grid = memoryview(bytearray(range(6))).cast("B", (2, 3))
        self.assertEqual(self.group.all_gather(np.asarray(grid)).shape, (2, 3))

    def test_tensor(self):
        bits = np.array([0x3F80, 0x4000], np.uint16)  # 1.0 and 2.0 in bf16
        tensor = tutti.Tensor(bits, dtype="bf16")
        self.assertEqual((tensor.dtype, tensor.shape, tensor.nbytes, tensor.is_compact), ("bf16", (2,), 4, True))
        self.group.all_reduce(tensor, op="product")
        np.testing.assert_array_equal(bits, [0x3F80, 0x4000])
        fresh = self.group.all_gather(tutti.Tensor(np.arange(3, dtype="i4")))
        np.testing.assert_array_equal(np.from_dlpack(fresh), [0, 1, 2])
        self.assertEqual(tensor.memory().tolist(), [0x3F80, 0x4000])
        self.assertEqual(tutti.Tensor(np.ones((2, 2))).memory().tolist(), [[1, 1], [1, 1]])
        self.assertTrue(tutti.Tensor(b"abc").memory().readonly)
        back = np.from_dlpack(tutti.Tensor(np.arange(4)))
        gc.collect()
        np.testing.assert_array_equal(back, [0, 1, 2, 3])

    def test_bad_arrays(self):
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        self.refuses("read-only", frozen)
        self.refuses("read-only", b"abc")
        self.refuses("read-only", np.zeros(3), frozen)
        self.group.all_reduce(frozen, np.ones(3))
        self.refuses("is no array", [1.0, 2.0])
        self.refuses("is no array", None)
        self.refuses("is no array", 3)
        values, image = np.ones(2, "u1"), {"version": 3, "shape": (2,), "typestr": "|u1", "data": bytes(2)}
        self.refuses("is no array", SimpleNamespace(__array_interface__=image))  # as an image of PIL
        self.refuses("is no array", SimpleNamespace(__array_interface__=image, dtype=values.dtype))
        image["data"] = (values.ctypes.data, False)  # an interface without strides is compact
        self.group.all_reduce(SimpleNamespace(__array_interface__=image, dtype=values.dtype))
        self.refuses("byte order|element type", np.zeros(2, ">f8"))
        self.refuses("element type|dtype", np.zeros(2, complex))
        self.refuses("element type", np.array([object()]))
        self.refuses("element type|dtype", np.array(["text"]))
        self.refuses("element type|format", np.zeros(2, "M8[s]"))
        self.refuses("element type|format", np.zeros(2, "f4,i4"))
        self.refuses("multiples|element type", np.zeros(4, "u1,f8")["f1"])
        self.refuses("count|shape", np.zeros(2), np.zeros(3))
        self.refuses("dtype", np.zeros(2), np.zeros(2, "f4"))
        self.refuses("overlap", source := np.zeros(8), source[::-1])
        self.refuses("itself|overlap", np.zeros(1), np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,)))

    def test_negative_bit(self):
        """A view of torch whose memory has the values with the other sign, as of z.conj().imag."""

        class View:
            def __init__(self, array, negative):
                self.array, self.is_neg, self.__dlpack_device__ = array, lambda: negative, array.__dlpack_device__

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

        self.assertEqual(self.group.all_reduce(View(np.ones(2), False), np.zeros(2)).tolist(), [1, 1])
        self.refuses("tensor: .*resolve_neg", View(np.ones(2), True), np.zeros(2))
        self.refuses("output: .*resolve_neg", np.ones(2), View(np.ones(2), True))

    def test_bad_arguments(self):
        self.refuses("no reduction", np.zeros(2), op="median")
        self.refuses("op is 99", np.zeros(2), op=99)
        self.refuses("lane", np.zeros(2), lane=7)
        self.refuses("lane", np.zeros(2), lane=-1)
        self.refuses("timeout", np.zeros(2), timeout=0)
        self.refuses("timeout", np.zeros(2), timeout=float("nan"))
        self.refuses("tag", np.zeros(2), tag=1 << 32)
        for root in (1 << 32, -(1 << 40)):
            with self.assertRaisesRegex(tutti.InvalidArgument, "root is .* out of range"):
                self.group.broadcast(np.zeros(2), root=root)
        with self.assertRaisesRegex(tutti.InvalidArgument, "63 bits"):
            self.group.all_gather_v(np.zeros(1), counts=[1 << 64])
        with self.assertRaises(TypeError):
            self.group.send(np.zeros(1), "peer")
        self.group.broadcast(np.zeros(2), root=np.int64(0), timeout=1e300)
        for wrong in ({"tag": "x"}, {"nonsense": 1}, {"scale": "2"}):
            with self.assertRaises(TypeError):
                self.group.all_reduce(np.zeros(2), **wrong)
        with self.assertRaisesRegex(tutti.InvalidArgument, "root|rank"):
            self.group.broadcast(np.zeros(2), root=5)
        with self.assertRaisesRegex(tutti.InvalidArgument, "dim"):
            self.group.all_gather(np.zeros(2), dim=2)
        with self.assertRaisesRegex(tutti.InvalidArgument, "counts has 2 entries"):
            self.group.all_gather_v(np.zeros(2), counts=[1, 1])
        with self.assertRaises(tutti.InvalidArgument):
            tutti.Tensor(np.zeros(2, "f4"), dtype="f64")
        with self.assertRaises(tutti.InvalidArgument):
            self.group.empty((2, -1))
        with self.assertRaises(tutti.InvalidArgument):
            self.group.empty((1 << 40, 1 << 40))
        with self.assertRaises(TypeError):
            tutti.init(store=4711)

    def test_wrong_types(self):
        """The exception names the argument, what it was, and what it must be."""
        x, g = np.zeros(2), self.group
        for words, call in (
            (r"timeout is '5' \(str\); it must be a number of seconds", lambda: g.barrier(timeout="5")),
            (r"timeout is \[5\] \(list\)", lambda: g.barrier_async().wait([5])),
            (r"root is 1.5 \(float\); it must be an integer", lambda: g.broadcast(x, root=1.5)),
            (r"send_tag is 'a' \(str\)", lambda: g.sendrecv(x, 0, x, send_tag="a")),
            (r"op is 3.5 \(float\); it must be one of sum, ", lambda: g.all_reduce(x, op=3.5)),
            (r"op is \[\] \(list\)", lambda: g.all_reduce(x, op=[])),
            (r"scale is '2' \(str\); it must be a number", lambda: g.all_reduce(x, scale="2")),
            (r"stream is 'a' \(str\)", lambda: g.all_reduce(x, stream="a")),
            (r"token is 3 \(int\); it must be a CancelToken", lambda: g.all_reduce(x, token=3)),
            (r"token is 3 \(int\); it must be a CancelToken", lambda: g.barrier_async().wait(token=3)),
            (r"parent is 3 \(int\)", lambda: tutti.CancelToken(parent=3)),
            (r"on_end is 3 \(int\); it must be a function", lambda: g.all_reduce(x, on_end=3)),
            (r"counts is 3 \(int\); it must be a sequence of integers", lambda: g.all_gather_v(x, counts=3)),
            (r"counts\[0\] is 1.5 \(float\)", lambda: g.all_gather_v(x, counts=[1.5])),
            (r"shape is 1.5 \(float\)", lambda: g.empty(1.5)),
            (r"ranks is 3 \(int\)", lambda: g.create(3)),
            (r"flags is 1.5 \(float\)", lambda: g.agree(1.5)),
            (r"token is 3 \(int\); it must be a string", lambda: g.grow(3, 1)),
            (r"token is 3 \(int\); it must be a string", lambda: tutti.join(3)),
            (r"index is 'a' \(str\)", lambda: g.recorded("a")),
            (r"settings is \['a'\] \(list\); it must be a dict", lambda: tutti.init(settings=["a"])),
            (r"native_communicator is 'a' \(str\)", lambda: tutti.init(native_communicator="a")),
            (r"operations is 3 \(int\)", lambda: g.persistent(3)),
            (r"operations\[0\] is 3 \(int\); it must be a PersistentOp", lambda: g.persistent([3])),
        ):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                call()
        for words, call in (
            (r"tensor: 3 \(builtins.int\) is no array", lambda: g.all_reduce(3)),
            (r"tensor: no element type for object", lambda: g.all_gather(np.array([None]))),
            (r"output: 3 \(builtins.int\) is no array", lambda: g.all_reduce(x, 3)),
            (r"recv: the output is read-only \(bytes\)", lambda: g.sendrecv(x, 0, b"r")),
            (r"gradients\[1\]: 3 \(builtins.int\) is no array", lambda: tutti.Bucketer(g, [x, 3])),
            (r"wire is \[\]; it is one of full, ", lambda: g.all_reduce(x, wire=[])),
            (r"op is 'plus', which is no reduction", lambda: g.all_reduce(x, op="plus")),
        ):
            with self.subTest(words), self.assertRaisesRegex(tutti.InvalidArgument, words):
                call()

    def test_errors(self):
        with self.assertRaises(tutti.InvalidArgument) as caught:
            self.group.all_reduce(np.zeros(2), op=99)
        error = caught.exception
        facts = (error.status, error.code, error.rank, error.operation, error.scope, error.deadline)
        self.assertEqual(facts, ("INVALID_ARGUMENT", 1, 0, "all_reduce", "call", error.deadline))
        self.assertIsInstance(error, ValueError)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), str(copy), vars(copy)), (type(error), str(error), vars(error)))
        for name, base in {"Timeout": TimeoutError, "PeerDead": ConnectionError, "NoMemory": MemoryError}.items():
            self.assertTrue(issubclass(getattr(tutti, name), base))
        with self.assertRaisesRegex(tutti.NotFound, "nonsense"):
            new(backend="nonsense")
        self.group.destroy()
        with self.assertRaises(tutti.Error):
            self.group.barrier()
        with self.assertRaises(tutti.Error):
            self.group.destroy()
        self.assertEqual((self.group.rank, self.group.size, self.group.backend), (-1, -1, None))

    def test_heap(self):
        first, second = self.group.empty((3, 4), "float32"), self.group.empty(0)
        self.assertEqual((first.shape, first.dtype, second.shape), ((3, 4), np.float32, (0,)))
        half = first[1:]
        first[:] = 7
        with self.assertRaises(tutti.Busy):
            tutti.finalize()
        self.group.destroy()
        del first
        gc.collect()
        self.assertEqual(half.sum(), 56)  # the memory lives as long as an array over it
        self.assertIsInstance(new().empty(2, "bf16"), tutti.Tensor)

    def test_heap_by_backend(self):
        """A group on another backend than its parent has its own heap, and does not keep the parent's."""
        parent = new(backend="shm")
        child = parent.create([0], backend="local")
        self.assertEqual((parent.backend, child.backend), ("shm", "local"))
        first, second = parent.empty(1 << 24, "f32"), child.empty(1 << 24, "f32")
        first[:], second[:] = 1, 2
        parent.destroy()
        self.assertEqual((first.min(), second.max()), (1, 2))
        child.destroy()
        self.assertEqual((first.max(), second.min()), (1, 2))

    def test_register(self):
        values = np.ones(1 << 16)
        with self.group.register(values) as registration:
            self.group.all_reduce(values)
            self.assertEqual(values.sum(), values.size)
        with self.assertRaises(tutti.BadState):
            registration.unregister()
        with self.assertRaisesRegex(tutti.InvalidArgument, "compact"):
            self.group.register(values[::2])

    def test_null(self):
        group = tutti.init(rank=3, world_size=8, backend="null", store="memory:null")
        group.reduce(np.zeros(5, "i2"), op="max", root=3)
        self.assertEqual(group.recorded(0), tutti.Record("reduce", "i16", "max", 3, 0, 5))
        with self.assertRaises(tutti.NotFound):
            group.recorded(1)
        group.destroy()


class Works(unittest.TestCase):
    def setUp(self):
        self.group = new(lanes=2)
        self.addCleanup(lambda: self.group.destroy())

    def test_work(self):
        values = np.arange(3.0)
        work = self.group.all_reduce_async(values, lane=1)
        self.assertIs(work.wait(), values)
        self.assertIs(work.wait(5), values)
        self.assertTrue(work.test())
        self.assertIs(work.result(), values)
        self.assertIsNone(work.error())
        self.assertFalse(work.cancelled())

    def test_dropped(self):
        for _ in range(100):
            self.group.all_reduce_async(np.arange(1000.0))
        self.group.barrier_async().wait()
        gc.collect()
        self.group.barrier_async().wait()
        self.assertLess(len(tutti._work._running), 5)

    def test_finalize_dropped(self):
        """It waits for operations whose Work was dropped."""
        late, ended, finalized = threading.Event(), threading.Event(), threading.Event()
        ranks = {"world_size": 2, "backend": "local", "store": "memory:dropped"}
        sliced = _work.sliced

        def other():
            group = tutti.init(rank=1, **ranks)
            late.wait()
            group.all_reduce(np.ones(1))
            ended.set()
            finalized.wait()

        def begin(*arguments):
            late.set()
            ended.wait()
            return sliced(*arguments)

        thread = threading.Thread(target=other)
        thread.start()
        group = tutti.init(rank=0, **ranks)
        values = np.ones(1)
        group.all_reduce_async(values)
        try:
            with mock.patch.object(_work, "sliced", begin):
                tutti.finalize()
        finally:
            late.set()
            finalized.set()
            thread.join()
        self.assertEqual(values[0], 2)
        self.group = new()

    def test_callback(self):
        seen = []
        work = self.group.all_reduce_async(
            np.zeros(2), on_end=lambda error: seen.append((error, threading.get_ident()))
        )
        work.wait()
        self.assertEqual([error for error, _ in seen], [None])

        def blocking(_error):
            try:
                self.group.barrier()
            except tutti.WouldDeadlock as problem:
                seen.append(problem)

        self.group.barrier(on_end=blocking)
        self.assertIsInstance(seen[-1], tutti.WouldDeadlock)

    def test_task(self):
        task = self.group.task()
        with self.assertRaises(TimeoutError):
            task.wait(0.01)
        with self.assertRaises(tutti.BadState):
            task.result()
        threading.Timer(0.05, task.complete).start()
        self.assertIsNone(task.wait(10))
        failing = self.group.task()
        failing.complete("CANCELLED", "no more")
        with self.assertRaisesRegex(tutti.Cancelled, "no more"):
            failing.wait()

    def test_token(self):
        token = tutti.CancelToken()
        child = tutti.CancelToken(parent=token)
        task = self.group.task(token=child)
        threading.Timer(0.05, token.cancel).start()
        with self.assertRaises(tutti.Cancelled) as caught:
            task.wait(10, token=child)
        self.assertEqual(caught.exception.scope, "call")
        self.assertTrue(child.fired() and task.cancelled())
        task.complete("CANCELLED")
        with self.assertRaises(tutti.Cancelled):
            self.group.barrier_async(token=token)
        self.assertTrue(tutti.CancelToken(timeout=0).fired())

    def test_persistent(self):
        x, ends = np.ones(2), []
        operation = self.group.all_reduce_init(x, on_end=ends.append)
        with self.assertRaisesRegex(tutti.BadState, "never started"):
            operation.wait()
        for _ in range(3):
            self.assertIs(operation.run(), x)
            operation.start()
            self.assertIs(operation.wait(), x)
        self.assertEqual(ends, [None] * 6)
        self.assertIs(operation.wait(0), x)
        with self.assertRaises(tutti.TooLate):
            operation.cancel()
        operation.release()
        with self.assertRaises(tutti.InvalidArgument):
            operation.run()
        both = [tutti.PersistentOp("all_gather", x), tutti.PersistentOp("barrier")]
        with self.group.persistent(both, timeout=5) as operation:
            gathered, none = operation.run()
            np.testing.assert_array_equal(gathered, x)
            self.assertIsNone(none)

    def test_persistent_bad_input(self):
        x, constant = np.ones(2), np.ones(2)
        constant.flags.writeable = False
        for kind, words, call in (
            (tutti.InvalidArgument, "'send' has no persistent form", lambda: tutti.PersistentOp("send", x)),
            (tutti.InvalidArgument, "count is 0", lambda: self.group.persistent([])),
            (tutti.InvalidArgument, "the output is read-only", lambda: self.group.all_reduce_init(constant)),
            (tutti.InvalidArgument, "call.lane", lambda: self.group.barrier_init(lane=99)),
            (tutti.InvalidArgument, "root", lambda: self.group.broadcast_init(x, root=7)),
            (tutti.Unsupported, "wire", lambda: self.group.broadcast_init(x, wire="bf16")),
            (tutti.Unsupported, "f64", lambda: self.group.all_reduce_init(x, wire="bf16")),
            (tutti.InvalidArgument, r"operations\[1\]: reduce: root", lambda: self.group.persistent(
                [tutti.PersistentOp("barrier"), tutti.PersistentOp("reduce", x, root=7)])),
            (tutti.InvalidArgument, r"operations\[0\]: lane is an option of the whole list",
             lambda: self.group.persistent([tutti.PersistentOp("barrier", lane=0)])),
            (TypeError, "unknown option", lambda: self.group.barrier_init(size=1)),
        ):  # fmt: skip
            with self.assertRaisesRegex(kind, words):
                call()
        np.testing.assert_array_equal(x, constant)
        group = new()
        operation = group.all_reduce_init(x)
        operation.run()
        group.destroy()
        for call in (group.destroy, group.barrier, lambda: group.all_reduce(x), lambda: group.split(0), group.abort,
                     lambda: group.empty(3)):  # fmt: skip
            with self.assertRaisesRegex(tutti.BadState, "the group has been destroyed"):
                call()
        with self.assertRaisesRegex(tutti.BadState, "the group has been destroyed"):
            operation.run()
        with self.assertRaisesRegex(tutti.BadState, "the group has been destroyed"):
            operation.start()
        operation.release()

    def test_queue(self):
        with tutti.Queue() as queue:
            tasks = [self.group.task(output=np.zeros(1)) for _ in range(3)]
            for task in tasks:
                queue.add(task)
            self.assertEqual((len(queue), queue.pending(), queue.wait_any(0)), (3, 3, None))
            with self.assertRaises(TimeoutError):
                queue.wait_all(0.01)
            tasks[1].complete()
            self.assertEqual((queue.wait_any(5), queue.pending()), (1, 2))
            self.assertIsNone(queue.error(1))
            self.assertEqual(queue.result(1), np.zeros(1))
            self.assertEqual((queue.clear_completed(), len(queue)), (1, 2))
            tasks[0].complete()
            tasks[2].complete("BACKEND", "broken")
            with self.assertRaisesRegex(tutti.Backend, "broken"):
                queue.wait_all()
            queue.clear_completed()

    def test_events(self):
        seen = []
        with tutti.Events(self.group) as events:
            events.on_complete(lambda event: seen.append(("end", event.operation)))
            listener = events.on_error(lambda event: seen.append(("failed", event.error.status)))
            events.on_operation(7, lambda event: seen.append(("seven", event.operation_id)))
            self.group.all_reduce_async(np.zeros(1), operation_id=7).wait()
            self.group.task().complete("CANCELLED")
            events.remove(listener)
            self.group.task().complete("CANCELLED")
            with self.assertRaises(tutti.NotFound):
                events.remove(listener)
        self.assertEqual(seen, [("end", "all_reduce"), ("seven", 7), ("failed", "CANCELLED")])

    def test_called_handlers_are_freed(self):
        class Captured:
            pass

        with tutti.Events(self.group) as events:
            captured = Captured()
            alive = weakref.ref(captured)
            events.on_operation(9, lambda event, captured=captured: None)
            del captured
            self.assertIsNotNone(alive())
            self.group.barrier_async(operation_id=9).wait()
            gc.collect()
            self.assertIsNone(alive())

    def test_dropped_events(self):
        """Its handlers stay, and it does not keep the group busy."""
        seen = []
        group = self.group.create([0])
        tutti.Events(group).on_complete(lambda event: seen.append(event.operation))
        gc.collect()
        group.barrier_async().wait()
        self.assertEqual(seen, ["barrier"])
        group.destroy()

    def test_dropped_bucketer(self):
        """The library may still write to its gradients."""
        gradient = np.ones(1000)
        alive = weakref.ref(gradient)
        group = self.group.create([0])
        bucketer = tutti.Bucketer(group, [gradient])
        bucketer.ready(0)
        del bucketer, gradient
        gc.collect()
        self.assertIsNotNone(alive())
        group.destroy()
        self.assertIsNone(alive())

    def test_recv_alloc_in_batch(self):
        with self.assertRaises(tutti.BadState), self.group.batch():
            self.group.recv_alloc(0)

    def test_end_of_a_message_in_a_batch(self):
        with self.assertRaisesRegex(tutti.InvalidArgument, "give on_end to the batch"), self.group.batch():
            self.group.send(np.zeros(1), 0, on_end=print)
        ends = []
        with self.group.batch(on_end=ends.append):
            self.group.send(np.ones(1), 0, timeout=5)
            self.group.recv(came := np.zeros(1), 0)
        self.assertEqual((ends, came[0]), ([None], 1))

    def test_device(self):
        """Without an index each rank takes its own device, by the library's default."""
        struct, _ = _group.config_struct({"device": "cuda"})
        self.assertIsNone(struct.device)
        self.assertEqual(struct.settings[0], b"device=cuda")
        struct, _ = _group.config_struct({"device": "cuda", "device_index": 1, "settings": {"lanes": 2}})
        self.assertEqual((struct.device, struct.device_index, struct.settings[0]), (b"cuda", 1, b"lanes=2"))

    def test_bucketer(self):
        gradients = [np.full(1000, float(index)) for index in range(4)]
        with tutti.Bucketer(self.group, gradients, bucket_bytes=16000) as bucketer:
            self.assertEqual(bucketer.describe(), (2, 16000))
            with self.assertRaises(tutti.InvalidArgument):
                bucketer.ready(4)
            for step in range(2):
                for index in reversed(range(4)):
                    bucketer.ready(index)
                bucketer.wait()
        self.assertEqual([gradient.mean() for gradient in gradients], [0, 1, 2, 3])

    def test_asyncio(self):
        async def main():
            task = self.group.task(output=np.ones(1))
            asyncio.get_running_loop().call_later(0.05, task.complete)
            first, second = await asyncio.gather(self._await(task), self._await(task))
            self.assertIs(first, second)
            self.assertIsNone(await self.group.barrier_async())
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self._await(late := self.group.task()), 0.05)
            late.complete()

        asyncio.run(main())

    @staticmethod
    async def _await(work):
        return await work


class Process(unittest.TestCase):
    def test_threads(self):
        def rank(group):
            value = np.array([group.rank + 1])
            return int(group.all_reduce(value)[0]), group.split(group.rank % 2).size

        self.assertEqual(tutti.run_threads(4, rank), [(10, 2)] * 4)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            tutti.run_threads(2, lambda group: group.rank // 0)

    def test_threads_of_a_bad_number(self):
        for ranks, problem in ((0, tutti.InvalidArgument), (1 << 31, tutti.InvalidArgument), ("two", TypeError)):
            with self.assertRaises(problem):
                tutti.run_threads(ranks, lambda group: None)
        self.assertEqual(tutti.run_threads(np.int64(2), lambda group: group.rank), [0, 1])

    def test_heap_of_threads(self):
        """Arrays outlive the threads that have made them, and their groups."""

        def rank(group):
            values = group.empty(1 << 24, "f32")
            values[:] = group.rank
            group.all_reduce(values)
            with group.split(0) as child:
                return values, child.empty(1 << 24, "u8")

        for values, rest in tutti.run_threads(3, rank):
            rest[:] = 1
            self.assertEqual((values.min(), values.max(), rest.min()), (3, 3, 1))
        del values, rest
        gc.collect()
        self.assertEqual(_heap.blocks_alive, 0)

    def test_gil(self):
        """Other threads run Python while one waits inside the library."""

        def rank(group):
            if group.rank == 0:
                group.barrier()
                return 0
            until, turns = time.monotonic() + 0.2, 0
            while time.monotonic() < until or turns <= 100:
                turns += 1
            group.barrier()
            return turns

        self.assertGreater(tutti.run_threads(2, rank)[1], 100)

    def test_late_entry(self):
        """Ctrl-C aborts a group again if its first abort came before the main thread had entered the library."""
        main = SimpleNamespace(group=1, calls=1, began=0)
        aborts = []
        returned = threading.Event()

        def abort(group, _error):
            aborts.append(group)
            if len(aborts) == 2:
                main.group = None
                returned.set()

        receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        with mock.patch.object(_interrupt, "lib", SimpleNamespace(tutti_group_abort=abort)):
            sender.send(bytes([signal.SIGINT]))
            threading.Thread(target=_interrupt._watch, args=(receiver, main), daemon=True).start()
            returned.wait()
        signal.signal(signal.SIGINT, previous)
        self.assertEqual(aborts, [1, 1])

    def test_other_wakeup_descriptor(self):
        """The watch gives way to a wakeup descriptor of the program, as asyncio's add_signal_handler sets it."""
        with mock.patch.multiple(_interrupt, armed=False, _refused=False, _CHECK_NS=-1):
            previous = signal.signal(signal.SIGINT, signal.default_int_handler)
            self.assertTrue(_interrupt.watches(SimpleNamespace(group=None, calls=0, began=0)))
            receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender.setblocking(False)
            signal.set_wakeup_fd(sender.fileno())
            for _ in range(2):
                self.assertFalse(_interrupt.watches(None))
            self.assertEqual(signal.set_wakeup_fd(-1), sender.fileno())
            signal.signal(signal.SIGINT, previous)
            receiver.close()
            sender.close()

    def test_exception_in_other_thread(self):
        """The main thread lets another thread wait, and gets its exception."""

        def fails():
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            _interrupt.in_other_thread(fails, lambda: False)
        with self.assertRaises(ZeroDivisionError):
            _interrupt.in_thread_until_abort(fails, lambda: None)
        for token in (None, b"token", 7):
            with self.assertRaisesRegex(TypeError, "token is .* a string"):
                tutti.join(token)

    def test_store(self):
        values, condition = {}, threading.Condition()

        class Store:
            def set(self, key, value):
                with condition:
                    values[key] = value
                    condition.notify_all()

            def get(self, key, timeout):
                with condition:
                    if not condition.wait_for(lambda: key in values, timeout):
                        raise TimeoutError
                    return values[key]

        store, sizes = Store(), []

        def rank(number):
            with tutti.init(rank=number, world_size=2, store=store, backend="local") as group:
                sizes.append(group.size)
                group.barrier()

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sizes, [2, 2])

    def test_tables(self):
        self.assertIn("shm", tutti.backends())
        self.assertIn("TUTTI_BACKEND", [row.environment for row in tutti.settings()])
        self.assertTrue(tutti.reduce_op_valid("band", "i32"))
        self.assertFalse(tutti.reduce_op_valid("band", "f32"))
        self.assertEqual(tutti.__version__, ".".join(map(str, tutti.version_info())))
        self.assertIn("deadline", tutti.status_text(22))
        with self.assertRaises(tutti.Error):
            tutti.load_backend("/nowhere.so")


if __name__ == "__main__":
    unittest.main()
