# SPDX-License-Identifier: BSD-3-Clause
"""Every collective, blocking and asynchronous, with every element type that NumPy has, compared with NumPy."""

import sys
import unittest
from functools import reduce

import tutti

try:
    import numpy as np
except ImportError:
    sys.exit(77)  # Debian: python3-numpy

WORLD = tutti.init()
N, ME = WORLD.size, WORLD.rank
FLOATS, INTEGERS = "efd", "bhiqBHIQ"
SHAPE = (2 * N, 3)
RNG = np.random.default_rng(N)


def inputs(kind, shape=SHAPE):
    """The arrays of all ranks: each rank makes the same ones."""
    if kind == "?":
        return [RNG.integers(0, 2, shape).astype("?") for _ in range(N)]
    if kind in FLOATS:
        return [(RNG.integers(-64, 64, shape) / 8).astype(kind) for _ in range(N)]
    return [RNG.integers(0, 100, shape).astype(kind) for _ in range(N)]


def folded(arrays, op):
    """Left fold in rank order. Narrow floats accumulate in f32 and round once."""
    kind = arrays[0].dtype
    if kind == "?":
        by = {"sum": np.logical_or, "product": np.logical_and, "min": np.logical_and, "max": np.logical_or}
        by.update(band=np.logical_and, bor=np.logical_or, bxor=np.logical_xor, land=np.logical_and, lor=np.logical_or)
        return reduce(by[op], arrays)
    wide = [array.astype("f4") for array in arrays] if kind == "e" else arrays
    by = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum, "band": np.bitwise_and}
    by.update(bor=np.bitwise_or, bxor=np.bitwise_xor, avg=np.add, land=np.logical_and, lor=np.logical_or)
    with np.errstate(over="ignore"):
        result = reduce(by[op], wide)
    if op == "avg":
        result = result / np.asarray(N, wide[0].dtype) if kind.char in FLOATS else result // N
    return result.astype(kind)


def ops(kind):
    return [op for op in tutti.REDUCE_OPS if op != "premul_sum" and tutti.reduce_op_valid(op, np.dtype(kind))]


def is_shared(array):
    """Whether the array lies in memory of several processes, by the system's list of this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            bounds, flags = line.split()[:2]
            first, end = (int(bound, 16) for bound in bounds.split("-"))
            if first <= array.ctypes.data < end:
                return flags.endswith("s")
    raise AssertionError("an address that is not mapped")


class Collectives(unittest.TestCase):
    def setUp(self):
        self.results = []  # kept, so that a new array never lies where an equal result was

    def same(self, found, expected, what):
        self.results.append(found)
        self.assertEqual(found.dtype, expected.dtype, what)
        np.testing.assert_array_equal(found, expected, str(what))

    def both(self, name, expected, what, *arguments, **options):
        """The blocking and the asynchronous form. `output` has other values before each."""
        for form in (getattr(WORLD, name), lambda *a, **o: getattr(WORLD, name + "_async")(*a, **o).wait()):
            if "output" in options:
                options["output"][:] = expected == 0
            result = form(*arguments, **options)
            if expected is None:
                self.assertIsNone(result, what)
            else:
                self.same(result, expected, (name, what))

    def test_reductions(self):
        for kind in FLOATS + INTEGERS + "?":
            for op in ops(kind):
                arrays = inputs(kind)
                if op == "avg" and kind in INTEGERS:  # the library's rounding is tested by `tutti check`
                    arrays = [array // 100 * N for array in arrays]
                all_, what = folded(arrays, op), (kind, op)
                mine = arrays[ME]
                self.both("all_reduce", all_, what, mine, output=np.empty_like(mine), op=op)
                self.same(WORLD.all_reduce(mine.copy(), op=op), all_, what)
                output = {"output": np.empty_like(mine)} if ME == N - 1 else {}
                self.both("reduce", all_ if output else None, what, mine, op=op, root=N - 1, **output)
                self.both("reduce_scatter", all_[2 * ME : 2 * ME + 2], what, mine, op=op)
                counts = [2 * N - (N - 1)] + [1] * (N - 1)
                at = sum(counts[:ME])
                self.both("reduce_scatter_v", all_[at : at + counts[ME]], what, mine, counts, op=op)

    def test_scale(self):
        arrays = inputs("d")
        expected = reduce(np.add, [array * (rank + 1) for rank, array in enumerate(arrays)])
        output = np.empty(SHAPE)
        self.both("all_reduce", expected, "scale", arrays[ME], output=output, op="premul_sum", scale=ME + 1)
        only_last = arrays[N - 1] * N  # of the others a factor of 0
        self.both("all_reduce", only_last, "scale 0", arrays[ME], output=output, op="premul_sum", scale=N if ME == N - 1 else 0)

    def test_wire(self):
        """Each value rounds: 1 + 2^-8 is halfway between two values of bf16, and the even one is 1; as in fp8."""
        for count in (3, 5000, 600001):
            mine = np.full(count, 1 + 2**-8, np.float32)
            for wire in ("bf16", "fp8"):
                output = np.empty_like(mine)
                self.both("all_reduce", np.full(count, N, np.float32), "wire", mine, output=output, wire=wire)
            self.same(WORLD.all_reduce(mine.copy(), wire="full"), np.full(count, N * (1 + 2**-8), np.float32), "full")
        with tutti.Bucketer(WORLD, [mine], wire="bf16") as bucketer:
            bucketer.wait()
        self.same(mine, np.ones(count, np.float32), "the bucketer's average")
        with self.assertRaises(tutti.InvalidArgument):
            WORLD.all_reduce(mine, wire="f9")
        with self.assertRaises(tutti.Unsupported):
            WORLD.all_reduce(mine, op="max", wire="bf16")
        with self.assertRaises(tutti.Unsupported):
            WORLD.broadcast(mine, wire="bf16")

    def calls(self):
        """(method, arguments, options, how to fill the input with a run's values, the expected output of a run)."""
        x, part = np.empty(SHAPE), SHAPE[0] // N
        value = [np.arange(float(np.prod(SHAPE))).reshape(SHAPE) + 100 * rank for rank in range(N)]

        def sum_(run):
            return reduce(np.add, value) + N * run

        def exchanged(run):
            return np.concatenate([np.split(array, N)[ME] for array in value]) + run

        return x, value[ME], [
            ("all_reduce", (x, np.empty(SHAPE)), {"op": "sum"}, sum_),
            ("all_reduce", (x, np.empty(SHAPE)), {"op": "max"}, lambda run: value[-1] + run),
            ("reduce", (x, np.empty(SHAPE)), {"root": 1}, lambda run: sum_(run) if ME == 1 else None),
            ("all_gather", (x,), {"dim": 1}, lambda run: np.concatenate(value, 1) + run),
            ("gather", (x,), {"root": 1}, lambda run: np.concatenate(value) + run if ME == 1 else None),
            ("scatter", (x, np.empty((part, 3))), {"root": 1}, lambda run: np.split(value[1], N)[ME] + run),
            ("reduce_scatter", (x,), {}, lambda run: np.split(sum_(run), N)[ME]),
            ("all_to_all", (x,), {}, exchanged),
            ("barrier", (), {}, lambda run: None),
            ("broadcast", (x,), {"root": 1}, lambda run: value[1] + run),
        ]  # fmt: skip

    def compare(self, found, expected, what):
        if expected is None:
            self.assertIsNone(found, what)
        else:
            self.same(found, expected, what)

    @staticmethod
    def ran(operation, run):
        """By run, or by start and wait, with and without a limit."""
        if run % 2 == 0:
            return operation.run()
        operation.start()
        return operation.wait(None if run == 1 else 60)

    def test_persistent(self):
        """Each kind alone, and all of them as one list, with other values in each run."""
        x, mine, calls = self.calls()
        for name, arguments, options, expected in calls:
            with getattr(WORLD, name + "_init")(*arguments, **options) as operation:
                for run in range(4):
                    x[:] = mine + run
                    found = self.ran(operation, run)
                    self.compare(found, expected(run), (name, options, run))
                    self.compare(operation.wait(), expected(run), (name, options, "again"))
        listed = [tutti.PersistentOp(name, *arguments, **options) for name, arguments, options, _ in calls]
        with WORLD.persistent(listed, lane=0) as operation:
            for run in range(4):
                x[:] = mine + run
                found = self.ran(operation, run)
                for result, (name, _, options, expected) in zip(found, calls):
                    self.compare(result, expected(run), (name, options, run))

    def test_persistent_wire(self):
        for count in (3, 600001):
            mine = np.empty(count, np.float32)
            for wire in ("bf16", "fp8"):
                with WORLD.all_reduce_init(mine, wire=wire) as operation:
                    for run in range(4):
                        mine[:] = 1 + 2**-8
                        if run % 2 == 0:
                            found = operation.run()
                        else:
                            operation.start()
                            found = operation.wait()
                        self.same(found, np.full(count, N, np.float32), (wire, count, run))
            with self.assertRaises(tutti.Unsupported):
                WORLD.all_reduce_init(mine, op="max", wire="bf16")

    def test_persistent_mismatch(self):
        """A persistent call and an ordinary one are the same to other ranks; calls that differ are Mismatch."""
        x, y = np.zeros(2), np.ones(2)
        with WORLD.persistent([tutti.PersistentOp("all_reduce", x, op="max" if ME == 0 else "min"),
                               tutti.PersistentOp("all_reduce", y)]) as operation:  # fmt: skip
            with self.assertRaises(tutti.Mismatch) as caught:
                operation.run()
            self.assertRegex(str(caught.exception), r"operations\[0\]: all_reduce")
            self.assertEqual(list(y), [N, N])  # the list went on
        with WORLD.all_reduce_init(y) as operation:
            self.assertEqual((operation.run() if ME == 0 else WORLD.all_reduce(y))[0], N * N)

    def test_copies(self):
        for kind in FLOATS + INTEGERS + "?":
            arrays = inputs(kind)
            mine = arrays[ME]
            for dim in (0, 1, -1):
                self.both("all_gather", np.concatenate(arrays, dim), kind, mine, dim=dim)
                self.both("gather", np.concatenate(arrays, dim) if ME == 1 else None, kind, mine, dim=dim, root=1)
            part = np.split(arrays[1], N)[ME]
            self.both("scatter", part, kind, mine if ME == 1 else None, output=np.empty_like(part), root=1)
            for form in (WORLD.broadcast, lambda *a, **o: WORLD.broadcast_async(*a, **o).wait()):
                self.same(form(mine.copy(), root=1), arrays[1], kind)
            exchanged = np.concatenate([np.split(array, N)[ME] for array in arrays])
            self.both("all_to_all", exchanged, kind, mine)
            rows = [array[: rank + 1] for rank, array in enumerate(arrays)]
            counts = [rank + 1 for rank in range(N)]
            self.both("all_gather_v", np.concatenate(rows), kind, rows[ME], counts)
            spread = WORLD.all_gather_v(rows[ME], counts, np.zeros((2 * sum(counts), 3), kind), displacements=
                                        [2 * sum(counts[:rank]) for rank in range(N)])  # fmt: skip
            self.same(spread[: len(rows[0])], rows[0], kind)
            sent = np.concatenate([array[ME : ME + 1] for array in arrays])
            ones = [1] * N
            self.both("all_to_all_v", sent, kind, mine[:N], ones, ones)
            swapped = WORLD.all_to_all_v(mine, ones, ones, np.zeros((N, 3), kind),
                                         send_displacements=range(N), recv_displacements=range(N)[::-1])  # fmt: skip
            self.same(swapped, sent[::-1], kind)

    def test_strides(self):
        arrays = inputs("d")
        for cut in (np.s_[::2], np.s_[:, ::-1], np.s_[1:, 1:]):
            result = np.zeros(SHAPE)
            WORLD.all_reduce(arrays[ME][cut], result[cut])
            expected = np.zeros(SHAPE)
            expected[cut] = folded(arrays, "sum")[cut]
            self.same(result, expected, cut)

    def test_barrier(self):
        self.both("barrier", None, "barrier")
        with self.assertRaises(tutti.Mismatch):  # so a barrier meets the other ranks
            WORLD.barrier() if ME == 0 else WORLD.all_reduce(np.zeros(1))
        WORLD.barrier()

    def test_heap(self):
        first = WORLD.empty((1000, 300), "f32")
        self.assertTrue(is_shared(first))
        first[:] = ME
        self.assertEqual(WORLD.all_reduce(first).sum(), first.size * sum(range(N)))
        private = np.full(1 << 18, float(ME))
        with WORLD.register(private):
            self.assertEqual(WORLD.all_reduce(private, op="max")[-1], N - 1)
        self.assertEqual(private[0], N - 1)

    def test_groups(self):
        half = WORLD.split(ME % 2, key=-ME)
        members = [rank for rank in reversed(range(N)) if rank % 2 == ME % 2]
        self.assertEqual([half.global_rank(rank) for rank in range(half.size)], members)
        self.assertEqual(half.local_rank(ME), half.rank)
        self.assertEqual(half.all_reduce(np.array([ME]))[0], sum(members))
        half.destroy()
        none = WORLD.split(0 if ME == 0 else None)
        self.assertEqual(none is None, ME != 0)
        with WORLD.create(list(range(N))[::-1], lanes=2) as turned:
            self.assertEqual((turned.rank, turned.lanes), (N - 1 - ME, 2))
            turned.barrier(lane=1)
        self.assertIn("shm", WORLD.describe())
        self.assertEqual((WORLD.backend, WORLD.device), ("shm", (1, 0)))
        self.assertIsNotNone(WORLD.algorithm())
        self.assertIsNone(WORLD.native_communicator)

    def test_mismatch(self):
        with self.assertRaises(tutti.Mismatch) as caught:
            WORLD.all_reduce(np.zeros(3 + (ME == 0)))
        error = caught.exception
        self.assertEqual((error.operation, error.rank, error.scope), ("all_reduce", ME, "call"))
        self.assertGreater(error.sequence, 0)
        self.assertNotEqual(error.suspect, ME)
        WORLD.barrier()

    def test_other_frameworks(self):
        """Anything with __dlpack__: here an object that has nothing else."""

        class Foreign:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return 1, 0

        value = np.array([ME + 1.0])
        self.assertIs(type(WORLD.all_reduce(Foreign(value))), Foreign)
        self.assertEqual(value[0], N * (N + 1) / 2)
        self.assertEqual(list(np.from_dlpack(WORLD.all_gather(Foreign(value)))), [value[0]] * N)


if __name__ == "__main__":
    print("collectives on backend", WORLD.backend, flush=True)
    unittest.main(failfast=True)
