# SPDX-License-Identifier: BSD-3-Clause
"""Every collective, dtype, reduce op and layout: tutti and gloo get the same inputs.

If gloo succeeds, tutti has to give the same values. If gloo refuses, tutti may succeed or refuse. Gloo ignores strides
in some calls and gives wrong values, so it always gets compact tensors.
"""

import os
import unittest

import ranks
import torch
import torch.distributed as dist

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]
OPS = {name: getattr(dist.ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")}
LAYOUTS = ["plain", "transposed", "gaps", "unaligned"]
SHAPES = [(7,), (4, 6), (0,), (3, 0), ()]


def make(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed * 1000 + dist.get_rank())
    return torch.randint(0, 4, shape, generator=generator).to(torch.float32).to(dtype)


def as_layout(tensor, layout):
    """The same values with other strides, or at an odd address."""
    if layout == "transposed" and tensor.dim() == 2:
        return tensor.t().contiguous().t()
    if layout == "gaps" and tensor.dim() > 0:
        wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
        wide[..., 0] = tensor
        return wide[..., 0]
    if layout == "unaligned" and tensor.numel() > 0:
        bytes_ = bytearray(tensor.nbytes + 1)
        return torch.frombuffer(bytes_, dtype=tensor.dtype, offset=1).view(tensor.shape).copy_(tensor)
    return tensor.clone()


def comparable(value):
    """Tensors as comparable values: bits of narrow floats as numbers."""
    if isinstance(value, (list, tuple)):
        return [comparable(v) for v in value]
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def same(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.is_complex:
            return torch.allclose(a.to(torch.complex128), b.to(torch.complex128), rtol=1e-5, equal_nan=True)
        if a.dtype.is_floating_point:
            return torch.allclose(a.to(torch.float64), b.to(torch.float64), rtol=2e-2, equal_nan=True)
        return torch.equal(a, b)
    return a == b


def attempt(call, group):
    try:
        return "ok", comparable(call(group))
    except Exception as error:  # of any kind: the kinds differ
        return "error", f"{type(error).__name__}: {str(error).splitlines()[0]}"


class Comparison:
    def __init__(self):
        self.groups = {name: dist.new_group(backend=name) for name in ("tutti", "gloo")}
        self.faults = []
        self.compact = False

    def check(self, what, call):
        if os.environ.get("TRACE"):
            print(dist.get_rank(), what, flush=True)
        self.compact = False
        ours = attempt(call, self.groups["tutti"])
        self.compact = True
        gloo = attempt(call, self.groups["gloo"])
        if gloo[0] == "ok" and (ours[0] != "ok" or not same(ours[1], gloo[1])):
            self.faults.append(f"{what}: tutti {ours}, gloo {gloo}")

    def layout(self, tensor, layout):
        return tensor if self.compact else as_layout(tensor, layout)


def all_cases(compare, dtypes, shapes, layouts):
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in dtypes:
        for shape in shapes:
            for layout in layouts:
                # fmt: off
                def new(seed, count=None):
                    if count is not None:
                        return [compare.layout(make(shape, dtype, seed + i), layout) for i in range(count)]
                    return compare.layout(make(shape, dtype, seed), layout)

                where = f"{dtype} {shape} {layout}"

                def broadcast(group):
                    t = new(1)
                    dist.broadcast(t, size - 1, group=group)
                    return t

                def all_gather(group):
                    out = new(1, size)
                    dist.all_gather(out, new(9), group=group)
                    return out

                def all_gather_chunks(group):
                    out = torch.zeros((size, *shape), dtype=dtype)
                    dist.all_gather(list(out.unbind(0)), new(9), group=group)
                    return out

                def all_gather_tensor(group):
                    out = torch.zeros((size, *shape), dtype=dtype)
                    dist.all_gather_into_tensor(out, new(9), group=group)
                    return out

                def gather(group):
                    out = new(1, size) if rank == 1 else None
                    dist.gather(new(9), out, dst=1, group=group)
                    return out

                def scatter(group):
                    out = new(1)
                    dist.scatter(out, new(9, size) if rank == 1 else None, src=1, group=group)
                    return out

                def all_to_all(group):
                    out = new(1, size)
                    dist.all_to_all(out, new(9, size), group=group)
                    return out

                def sendrecv(group):
                    t, out = new(1), new(2)
                    works = [dist.isend(t, (rank + 1) % size, group=group),
                             dist.irecv(out, (rank - 1) % size, group=group)]
                    for work in works:
                        work.wait()
                    return out

                for call in (broadcast, all_gather, all_gather_chunks, all_gather_tensor, gather, scatter,
                             all_to_all, sendrecv):
                    compare.check(f"{call.__name__} {where}", call)
                # fmt: on


def reductions(compare, dtypes, ops, shapes, layouts):
    size = dist.get_world_size()
    for dtype in dtypes:
        for op in ops:
            for shape in shapes:
                for layout in layouts:
                    where = f"{dtype} {op} {shape} {layout}"

                    def new(seed):
                        return compare.layout(make(shape, dtype, seed), layout)

                    def all_reduce(group):
                        t = new(1)
                        dist.all_reduce(t, op=OPS[op], group=group)
                        return t

                    def all_reduce_async(group):
                        t = new(2)
                        work = dist.all_reduce(t, op=OPS[op], group=group, async_op=True)
                        work.wait()
                        return [t, work.result()]

                    def reduce(group):
                        t = new(3)
                        dist.reduce(t, dst=1, op=OPS[op], group=group)
                        return t if dist.get_rank() == 1 else None

                    def reduce_scatter(group):
                        out = new(4)
                        dist.reduce_scatter(out, [new(5 + i) for i in range(size)], op=OPS[op], group=group)
                        return out

                    def reduce_scatter_tensor(group):
                        out = new(4)
                        whole = make((size * (shape or (1,))[0], *shape[1:]), dtype, 6)
                        dist.reduce_scatter_tensor(out, whole, op=OPS[op], group=group)
                        return out

                    for call in (all_reduce, all_reduce_async, reduce, reduce_scatter, reduce_scatter_tensor):
                        if shape or call is not reduce_scatter_tensor:  # gloo ends the process
                            compare.check(f"{call.__name__} {where}", call)


def copies():
    compare = Comparison()
    all_cases(compare, DTYPES, [(4, 6)], ["plain"])
    all_cases(compare, [torch.float32, torch.complex64], SHAPES, LAYOUTS)
    return compare.faults


def sums():
    compare = Comparison()
    reductions(compare, DTYPES, OPS, [(4, 6)], ["plain"])
    reductions(compare, [torch.float32], ["SUM"], SHAPES, LAYOUTS)
    return compare.faults


class AgainstGloo(unittest.TestCase):
    def compare(self, function):
        for size in (2, 4):
            with self.subTest(ranks=size):
                faults = [f for of_rank in ranks.run(size, function) for f in of_rank]
                self.assertFalse(faults, "\n".join(faults[:20]))

    def test_copies(self):
        self.compare(copies)

    def test_reductions(self):
        self.compare(sums)


if __name__ == "__main__":
    unittest.main()
