# SPDX-License-Identifier: BSD-3-Clause
"""What frameworks call besides plain collectives: futures, objects, coalescing, messages, modes, wrappers."""

import contextlib
import copy
import os
import re
import tempfile
import unittest
from datetime import timedelta
from unittest import mock

import ranks
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.fsdp import fully_shard


def futures():
    rank, size = dist.get_rank(), dist.get_world_size()
    t = torch.full((5,), float(rank))
    work = dist.all_reduce(t, async_op=True)
    future = work.get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)

    # A then-callback may wait for another operation, also by its future, as DDP's PowerSGD hook does.
    def second(f):
        more = f.value()[0].clone()
        return dist.all_reduce(more, async_op=True).get_future().wait()[0]

    nested = future.then(second)
    total = size * (size - 1) / 2
    assert doubled.wait()[0] == 2 * total, doubled.value()
    assert nested.wait()[0] == total * size
    assert work.wait() and work.is_completed() and work.is_success()
    late = work.get_future()  # of a work that has ended
    assert late.done() and late.value()[0][0] == total


def pending_future():
    """Waits for a future that rank 0 asks for before the operation can end."""
    tensor, go = torch.ones(4), torch.ones(1)
    if dist.get_rank() == 0:
        future = dist.all_reduce(tensor, async_op=True).get_future()
        dist.send(go, 1)
        future.wait()
    else:
        if dist.get_rank() == 1:
            dist.recv(go, 0)
        dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all()


def child_of_fork(place, rank, size):
    dist.init_process_group("tutti", store=dist.FileStore(place, size), rank=rank, world_size=size)
    pending_future()
    dist.destroy_process_group()


def futures_after_fork(folder):
    """The threads that complete futures are not in the child, which forms a job with the other ranks' children."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pending_future()
    dist.destroy_process_group()
    child = mp.get_context("fork").Process(target=child_of_fork, args=(f"{folder}/store", rank, size))
    child.start()
    child.join(300)
    child.kill()  # if it hangs
    child.join()
    assert child.exitcode == 0, child.exitcode


def wait_in_child(work):
    try:
        work.wait()
    except RuntimeError as error:
        os._exit("before fork()" not in str(error))
    os._exit(2)


def works_of_the_parent():
    """A Work that a child of fork inherits does not end there: waiting for it is an error, not a wait for ever."""
    peer = 1 - dist.get_rank()
    work = dist.irecv(torch.zeros(3), peer)
    child = mp.get_context("fork").Process(target=wait_in_child, args=(work,))
    child.start()
    child.join(60)
    child.kill()  # if it hangs
    child.join()
    assert child.exitcode == 0, child.exitcode
    dist.send(torch.ones(3), peer)
    work.wait()


def futures_under_load():
    """Futures are asked for before, at and after the end; many operations are pending."""
    tensors = [torch.ones(4) for _ in range(3000)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    done = [work.get_future().then(lambda f: f.value()[0][0].item()) for work in works]
    assert all(f.wait() == dist.get_world_size() for f in done)
    for i in range(3000):
        work = dist.all_reduce(tensors[0].fill_(1), async_op=True)
        if i % 3:
            work.get_future().wait()
        work.wait()


def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    out = [None] * size
    dist.all_gather_object(out, {"rank": rank, "text": "x" * rank})
    assert [o["rank"] for o in out] == list(range(size))
    box = ["from 1" if rank == 1 else None]
    dist.broadcast_object_list(box, src=1)
    assert box == ["from 1"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object((rank,), gathered, dst=0)
    assert rank or gathered == [(r,) for r in range(size)]
    mine = [None]
    dist.scatter_object_list(mine, list(range(size)) if rank == 0 else None, src=0)
    assert mine == [rank]


def coalesced():
    rank, size = dist.get_rank(), dist.get_world_size()
    for asynchronous in (False, True):
        tensors = [torch.full((i + 1,), float(rank)) for i in range(5)]
        with _coalescing_manager(async_ops=asynchronous) as manager:
            for t in tensors:
                dist.all_reduce(t)
        manager.wait()
        assert all((t == size * (size - 1) / 2).all() for t in tensors)
        # A tensor that is twice in the list, and one that overlaps it, are reduced from their first values.
        t = torch.arange(6.0) + rank
        expected = [x * size + size * (size - 1) / 2 for x in range(6)]
        work = dist.all_reduce_coalesced([t, t[2:4], t], async_op=asynchronous)
        if asynchronous:
            work.wait()
        assert t.tolist() == expected, t
        inputs = [torch.full((2,), float(rank + i)) for i in range(3)]
        outputs = [torch.zeros(2 * size) for _ in range(3)]
        with _coalescing_manager(async_ops=asynchronous) as manager:
            for out, t in zip(outputs, inputs, strict=True):
                dist.all_gather_into_tensor(out, t)
        manager.wait()
        for i, out in enumerate(outputs):
            assert out.tolist() == [float(r + i) for r in range(size) for _ in range(2)]
        parts = [torch.zeros(2) for _ in range(3)]
        with _coalescing_manager(async_ops=asynchronous) as manager:
            for part, out in zip(parts, outputs, strict=True):
                dist.reduce_scatter_tensor(part, out)
        manager.wait()
        for i, part in enumerate(parts):
            assert part.tolist() == [float((rank + i) * size)] * 2
    lists = [[torch.zeros(3), torch.zeros(1)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((3,), float(rank)), torch.full((1,), rank + 0.5)])
    assert all(row[0][0] == r and row[1][0] == r + 0.5 for r, row in enumerate(lists))
    tensors = [torch.ones(1)] * (2 + (rank == 1))
    try:
        dist.all_gather_coalesced([[torch.zeros(1) for _ in tensors] for _ in range(size)], tensors)
    except dist.DistBackendError as error:
        assert "MISMATCH" in str(error), error
    else:
        raise AssertionError("lists of different lengths were accepted")
    dist.barrier()


def uneven():
    rank, size = dist.get_rank(), dist.get_world_size()
    to = [(rank + r) % 3 for r in range(size)]  # rows from this rank to r, and the same number back
    source = torch.cat([torch.full((n, 2), float(rank * 10 + r)) for r, n in enumerate(to)])
    target = torch.zeros(sum(to), 2)
    dist.all_to_all_single(target, source, to, to)
    expected = torch.cat([torch.full((n, 2), float(r * 10 + rank)) for r, n in enumerate(to)])
    assert torch.equal(target, expected), (target, expected)
    outputs = [torch.zeros(n) for n in to]
    dist.all_to_all(outputs, [torch.full((n,), float(rank)) for n in to], async_op=True).wait()
    assert all((o == r).all() for r, o in enumerate(outputs))
    whole = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(whole, torch.full((rank + 1,), float(rank)))
    assert all((o == r).all() for r, o in enumerate(whole))
    part = torch.zeros(rank + 1)
    dist.reduce_scatter(part, [torch.ones(r + 1) for r in range(size)])
    assert (part == size).all()
    both = torch.arange(float(size))  # input and output overlap
    dist.all_to_all_single(both, both)
    assert (both == rank).all()
    splits = [1] * size if rank == 0 else None
    dist.all_to_all_single(both, torch.arange(float(size)) + 10 * rank, splits, splits)
    assert both.tolist() == [10 * r + rank for r in range(size)]
    if rank == 0:  # refused before the other ranks are needed, though the sum of the lengths is right
        unequal = [torch.zeros(1 + (r == 0) - (r == 1)) for r in range(size)]
        for function in (dist.gather, dist.scatter):
            try:
                function(torch.zeros(1), unequal)
            except ValueError as error:
                assert "tensor 0 of the list has 2 elements, not 1" in str(error), error
            else:
                raise AssertionError(f"{function.__name__} accepted tensors of different lengths")
    dist.barrier()


def premultiplied():
    size = dist.get_world_size()
    for factor in (0.5, torch.tensor(0.5), 0.0):
        for asynchronous in (False, True):
            t = torch.ones(3)
            work = dist.all_reduce(t, op=dist._make_nccl_premul_sum(factor), async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert (t == size * factor).all()


def rounding_bound(values, wire):
    """By how much the wire may change each element of a sum of `values`, one tensor a rank: tutti/collectives.h."""
    magnitudes = sum(value.abs() for value in values)
    if wire == "bf16":
        return (2**-7 + len(values) * 2**-23) * magnitudes
    largest = sum(value.abs().max() for value in values)  # at least that of each block
    return (2**-3 + 2**-8 + len(values) * 2**-22) * magnitudes + 2**-16 * largest


def wires():
    import tutti.torch

    rank, size = dist.get_rank(), dist.get_world_size()
    # fp8 has 3 bits behind the leading one, bf16 has 7: what is left of a value shows which one it was sent as.
    for wire, bits, left in (("full", 8, 8), ("bf16", 8, None), ("bf16", 5, 5), ("fp8", 5, None)):
        for asynchronous in (False, True):
            for shape in ((64, 3), (0,), (100000,)):
                t = torch.full(shape, 1 + 2.0**-bits)
                work = tutti.torch.all_reduce(t, async_op=asynchronous, wire=wire)
                if asynchronous:
                    work.wait()
                assert (t == size * (1 + (2.0**-left if left else 0))).all(), (wire, bits, t)
    values = [torch.randn(5000, 2, generator=torch.Generator().manual_seed(r)) for r in range(size)]
    for wire in ("bf16", "fp8"):
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size)):
            wide = torch.stack([values[rank], torch.zeros(5000, 2)], dim=-1)
            tutti.torch.all_reduce(wide[..., 0], op=op, wire=wire)  # memory with gaps
            assert (wide[..., 1] == 0).all()
            result = wide[..., 0].contiguous()
            error = (result * divisor - sum(value.double() for value in values)).abs()
            assert (error <= rounding_bound(values, wire)).all(), (wire, op, error.max())
            everywhere = [torch.empty_like(result) for _ in range(size)]
            dist.all_gather(everywhere, result)
            assert all(torch.equal(other, result) for other in everywhere)
    refused = [
        (ValueError, "wire is 'f9'", {"wire": "f9"}),
        (ValueError, "is gloo, not tutti", {"wire": "bf16", "group": dist.new_group(backend="gloo")}),
        (NotImplementedError, "UNSUPPORTED", {"wire": "bf16", "op": dist.ReduceOp.MAX}),
        (dist.DistBackendError, "MISMATCH.*wire", {"wire": "bf16" if rank else "fp8"}),
    ]
    for kind, words, options in refused:
        try:
            tutti.torch.all_reduce(torch.ones(4), **options)
        except kind as error:
            assert re.search(words, str(error)), error
        else:
            raise AssertionError(f"{options} were accepted")
    alone = dist.new_group([0])  # on the other ranks a call does nothing
    t = torch.full((2,), 1 + 2.0**-8)
    tutti.torch.all_reduce(t, group=alone, wire="bf16")
    t = torch.full((2,), float(rank), dtype=torch.float64)
    tutti.torch.all_reduce(t)  # the group is intact
    assert (t == size * (size - 1) / 2).all()


def wire_hooks():
    """Gradients of DDP with each hook, beside the mean of what each rank computes alone."""
    import tutti.torch

    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2)).to(dtype)
        samples = torch.randn(size, 8, 20, dtype=dtype)
        alone = []
        for of_rank in samples:
            model.zero_grad()
            model(of_rank).square().mean().backward()
            alone.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        for wire in ("bf16", "fp8"):
            group = dist.new_group() if wire == "fp8" else None
            wrapped = torch.nn.parallel.DistributedDataParallel(
                copy.deepcopy(model), process_group=group, bucket_cap_mb=0.01
            )
            wrapped.register_comm_hook(group, getattr(tutti.torch, f"{wire}_wire_hook"))
            for _ in range(2):  # DDP makes new buckets after the first step
                wrapped.zero_grad()
                wrapped(samples[rank]).square().mean().backward()
            mean = torch.cat([p.grad.flatten() for p in wrapped.parameters()])
            error = (mean * size - sum(value.double() for value in alone)).abs()
            if dtype == torch.float32:
                assert (error <= rounding_bound(alone, wire)).all(), (wire, error.max())
                assert error.max() > 2**-12 * mean.abs().max() * size, "nothing was rounded"
            else:
                assert error.max() < 1e-12, "float64 was rounded"
            everywhere = [torch.empty_like(mean) for _ in range(size)]
            dist.all_gather(everywhere, mean)
            assert all(torch.equal(other, mean) for other in everywhere)


def messages():
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            t = torch.zeros(2)
            source = dist.recv(t)
            assert t[0] == source
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    dist.barrier()  # the next messages are not for any source
    t = torch.zeros(3, dtype=torch.int64)
    peer = rank ^ 1
    operations = [dist.P2POp(dist.isend, torch.full((3,), rank), peer), dist.P2POp(dist.irecv, t, peer)]
    works = dist.batch_isend_irecv(operations)
    assert len(works) == 2
    for work in works:
        work.wait()
    assert (t == peer).all()
    wide = torch.zeros(4, 2)  # a receive into memory with gaps, and tags in the other order
    if rank < 2:
        works = [dist.isend(torch.full((4,), float(tag)), peer, tag=tag) for tag in (7, 8)]
        for tag in (8, 7):
            dist.recv(wide[:, 0], peer, tag=tag)
            assert (wide[:, 0] == tag).all() and (wide[:, 1] == 0).all()
        for work in works:
            work.wait()
        work = dist.isend(torch.full((2,), 5.0), peer)  # shorter than the tensor of the receive
        dist.recv(wide[:, 1], peer)
        assert wide[:, 1].tolist() == [5, 5, 0, 0]
        work.wait()


def modes():
    size = dist.get_world_size()
    with torch.inference_mode():
        for asynchronous in (False, True):
            out = [torch.zeros(4, 2)[:, 0] for _ in range(size)]
            work = dist.all_gather(out, torch.ones(4), async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert all(o.sum() == 4 for o in out)
    parameter = torch.nn.Parameter(torch.ones(3, 2))
    dist.all_reduce(parameter.t().detach())
    with torch.no_grad():
        dist.broadcast(parameter, 0)
    assert parameter.is_leaf and parameter.requires_grad


def bits():
    """Views with the negative bit: the memory has the values with the other sign. torch passes resolved inputs."""
    size = dist.get_world_size()
    imaginary = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    out = [torch._neg_view(torch.zeros(2)) for _ in range(size)]
    assert imaginary.is_neg() and out[0].is_neg()
    dist.all_gather(out, imaginary)
    assert all(o.tolist() == [-2, -4] for o in out)


def sparse():
    rank, size = dist.get_rank(), dist.get_world_size()
    t = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(t)
    assert t.to_dense().tolist() == [1.0] * size + [2.0 * size]
    unaligned = torch.frombuffer(bytearray(5), dtype=torch.float32, offset=1).fill_(1)
    t = torch.sparse_coo_tensor([[0]], unaligned, (2,))
    dist.all_reduce(t)
    assert t.to_dense().tolist() == [size, 0]
    shapes = {"shape": (3 + (rank == 1), 2), "dimensions": (3,) * (1 + (rank == 1)), "sparse dimensions": (3, 2)}
    for what, shape in shapes.items():
        other = torch.ones(shape).to_sparse(1 + (what == "sparse dimensions" and rank == 1))
        try:
            dist.all_reduce(other)
        except dist.DistBackendError as error:
            assert "MISMATCH" in str(error) and "rank 1" in str(error), error
        else:
            raise AssertionError(f"different {what} were accepted")


def profiled():
    t = torch.ones(4)
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(t)
        dist.all_reduce(t, async_op=True).wait()
        dist.barrier()
    names = [event.name for event in profile.function_events]
    assert names.count("tutti:all_reduce") == 2 and names.count("tutti:barrier") == 1, names


def store():
    """Everything but the group's world is in the store that torch hands over; more groups, meshes and splits."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(size), backend="cpu:tutti")
    dist.barrier(group=group)
    mesh = dist.device_mesh.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("a", "b"))
    for name in ("a", "b"):
        t = torch.ones(1)
        dist.all_reduce(t, group=mesh.get_group(name))
        assert t[0] == mesh.get_group(name).size()
    half = [r for r in range(size) if r % 2 == rank % 2]
    backend = group._get_backend(torch.device("cpu"))
    assert backend.supports_splitting
    part = group.split_group(half, timeout=timedelta(seconds=120), group_name=f"half-{rank % 2}")
    t = torch.ones(1)
    part.allreduce([t]).wait()
    assert t[0] == len(half)
    local = dist.new_group([rank], use_local_synchronization=True)
    dist.all_reduce(t, group=local)


def memory():
    import tutti.torch

    rank, size = dist.get_rank(), dist.get_world_size()
    assert "shm" in tutti.torch.describe()
    t = tutti.torch.empty(300000)
    t.fill_(rank)
    dist.all_reduce(t)
    assert (t == size * (size - 1) / 2).all()
    part = tutti.torch.empty(1000, 300, dtype=torch.int32)
    part.fill_(rank)
    out = torch.empty(1000 * size, 300, dtype=torch.int32)
    dist.all_gather_into_tensor(out, part)
    assert out.view(size, -1).float().mean(1).tolist() == [float(r) for r in range(size)]
    del part
    for shape in ((2**62,), (2**62 - 1,), (2**33, 2**33), (-1,), (2, -(2**62))):
        for make in (torch.empty, tutti.torch.empty):
            with contextlib.suppress(RuntimeError):
                raise AssertionError(make(*shape).shape)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.BatchNorm1d(300))
    before = [p.detach().clone() for p in model.parameters()]
    tutti.torch.register(model)
    for old, parameter in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, parameter) and parameter.is_leaf and parameter.grad is not None
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    wrapped(torch.full((8, 300), float(rank))).sum().backward()
    weight = model[0].weight
    dist.destroy_process_group()
    assert (t == size * (size - 1) / 2).all()  # the memory outlives the group
    assert torch.isfinite(weight).all()


def is_shared(tensor):
    """Whether the tensor lies in shared memory, by the system's list of this process."""
    address = tensor.data_ptr()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            bounds, flags = line.split()[:2]
            first, end = (int(bound, 16) for bound in bounds.split("-"))
            if first <= address < end:
                return flags.endswith("s")
    raise AssertionError("an address that is not mapped")


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))


def ddp_buffers(group):
    """Whether each bucket of a step is shared memory."""
    places = []

    def hook(state, bucket):
        places.append(is_shared(bucket.buffer()))
        return allreduce_hook(state, bucket)

    model = torch.nn.parallel.DistributedDataParallel(layers(), process_group=group, bucket_cap_mb=1)
    model.register_comm_hook(group, hook)
    model(torch.ones(4, 256)).sum().backward()
    return places, model.module


def fsdp2_buffers(group):
    """Whether each tensor that a step gives to a collective is shared memory."""
    places = []

    def watched(function):
        def call(output, input, **options):  # torch's names
            places.extend([is_shared(output), is_shared(input)])
            return function(output, input, **options)

        return call

    model = layers()
    mesh = DeviceMesh.from_group(group, "cpu")
    for module in [*model, model]:
        fully_shard(module, mesh=mesh)
        module.set_allocate_memory_from_process_group_for_comm(True)
    names = ("all_gather_single", "reduce_scatter_single")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(dist, name, watched(getattr(dist, name))))
        model(torch.ones(4, 256)).sum().backward()
    return places, model


def reserved():
    """Torch takes the buffers of DDP and FSDP2 from reserved memory; without it, and without room, from the system."""
    import tutti.torch

    rank, size = dist.get_rank(), dist.get_world_size()
    os.environ["DDP_DISABLE_COMM_MEM"] = "0"
    gradients = []
    for nbytes, expected in ((0, {False}), (64 << 20, {True}), (400000, {False, True})):  # room for some
        for program in (ddp_buffers, fsdp2_buffers):
            group = dist.new_group()
            if nbytes:
                tutti.torch.reserve(nbytes, group)
            places, model = program(group)
            assert set(places) <= expected, (program.__name__, nbytes, places)
            gradient = model[0].weight.grad
            gradients.append(gradient.full_tensor() if program is fsdp2_buffers else gradient)
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0])
    # Blocks return, in any order, and merge.
    group = dist.new_group()
    tutti.torch.reserve(1 << 20, group)
    backend = group._get_backend(torch.device("cpu"))
    for order in (range(4), (3, 1, 2, 0), (0, 2, 1, 3)):
        taken = [backend.allocate_tensor(1 << 16, dtype=torch.float32, device=torch.device("cpu")) for _ in range(5)]
        assert [is_shared(t) for t in taken] == [True] * 4 + [False]
        for i in order:
            taken[i] = None
    with contextlib.suppress(RuntimeError):
        raise AssertionError(backend.allocate_tensor(1 << 62, dtype=torch.float32, device=torch.device("cpu")).shape)
    if rank == 0:  # local: the other ranks do not allocate
        mine = backend.allocate_tensor(1 << 18, dtype=torch.float32, device=torch.device("cpu"))
    else:
        mine = torch.empty(1 << 18)
    mine.fill_(rank)
    dist.all_reduce(mine, group=group)
    dist.destroy_process_group()
    assert (mine == size * (size - 1) / 2).all()  # the memory outlives the group


def detail():
    size = dist.get_world_size()
    t = torch.ones(3)
    if dist.get_rank() < 2:  # messages are no collectives, whose number torch compares
        dist.send(t, 1) if dist.get_rank() == 0 else dist.recv(t, 0)
    dist.all_reduce(t)
    out = torch.zeros(3 * size)
    dist.all_gather_into_tensor(out, t)
    dist.barrier()
    assert (out == size).all()
    try:
        dist.all_reduce(torch.ones(3 + dist.get_rank()))
    except RuntimeError as error:
        return str(error)
    return "no error"


def data_parallel():
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1))
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for step in range(5):
        torch.manual_seed(step * 10 + rank)
        loss = wrapped(torch.randn(8, 20)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def fully_sharded():
    from torch.distributed.fsdp import fully_shard

    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 4))
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(step * 10 + rank)
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
    return torch.cat([p.full_tensor().detach().flatten() for p in model.parameters()]).tolist()


class Calls(unittest.TestCase):
    def each(self, function, **options):
        for size in (2, 4):
            with self.subTest(ranks=size):
                ranks.run(size, function, **options)

    def test_futures(self):
        self.each(futures)

    def test_futures_under_load(self):
        ranks.run(2, futures_under_load)

    def test_futures_after_fork(self):
        for size in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                ranks.run(size, futures_after_fork, folder)

    def test_works_of_the_parent(self):
        ranks.run(2, works_of_the_parent)

    def test_objects(self):
        self.each(objects)

    def test_coalesced(self):
        self.each(coalesced)

    def test_uneven(self):
        self.each(uneven)

    def test_premultiplied(self):
        self.each(premultiplied)

    def test_wires(self):
        self.each(wires)

    def test_wire_hooks(self):
        self.each(wire_hooks)

    def test_messages(self):
        self.each(messages)

    def test_modes(self):
        self.each(modes)

    def test_bits(self):
        self.each(bits)

    def test_sparse(self):
        self.each(sparse)

    def test_profiled(self):
        self.each(profiled)

    def test_groups(self):
        self.each(store)
        self.each(store, tcp=True)

    def test_memory(self):
        self.each(memory)

    def test_reserved(self):
        for size in (2, 4):
            ranks.run(size, reserved)

    def test_devices_in_the_name(self):
        self.each(futures, backend="cpu:tutti,cuda:gloo")

    def test_debug_level_detail(self):
        for text in ranks.run(3, detail, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}):
            self.assertIn("shape", text)

    def test_models(self):
        for function in (data_parallel, fully_sharded):
            ours = ranks.run(2, function)
            gloo = ranks.run(2, function, backend="gloo")
            self.assertEqual(ours[0], ours[1])
            self.assertTrue(torch.allclose(torch.tensor(ours[0]), torch.tensor(gloo[0]), rtol=1e-4, atol=1e-6))


if __name__ == "__main__":
    unittest.main()
