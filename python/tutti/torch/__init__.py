# SPDX-License-Identifier: BSD-3-Clause
"""The backend "tutti" of torch.distributed, and what torch.distributed has no function for.

    import torch.distributed as dist
    dist.init_process_group("tutti")

The name needs no import of this module: see _tutti_torch_backend.py. docs/pytorch.md is the introduction.
"""

from collections import defaultdict
from datetime import timedelta
from typing import Any, Dict, List, Optional, Union

import torch
from torch import distributed
from torch._C._distributed_c10d import GradBucket  # torch.distributed exports it, but its declarations do not

from .._call import wire_number
from . import _extension

# fmt: off
__all__ = [
    "all_reduce", "bf16_wire_hook", "describe", "empty", "fp8_wire_hook", "monitored_barrier", "register", "reserve",
]
# fmt: on


def _create_backend(options: Any, backend_options: Any) -> Any:
    """Makes the backend of one process group: see _tutti_torch_backend.py."""
    timeout = options.timeout if backend_options is None else backend_options._timeout
    return _extension.load().create(
        options.store,
        options.group_rank,
        options.group_size,
        timeout,
        options.group_id,
        options.global_ranks_in_group,
    )


def _process_group(group: Optional[distributed.ProcessGroup]) -> distributed.ProcessGroup:
    group = group or distributed.group.WORLD
    if group is None:
        raise ValueError("tutti: there is no process group; call torch.distributed.init_process_group first")
    return group


def _backend(group: Optional[distributed.ProcessGroup]) -> Any:
    """The backend of a process group, without the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    backend = _process_group(group)._get_backend(torch.device("cpu"))
    return getattr(backend, "wrapped_pg", backend)


def describe(group: Optional[distributed.ProcessGroup] = None) -> str:
    """What Tutti knows about the group: engine, ranks, deadline, the algorithm of each operation."""
    return str(_extension.load().describe(_backend(group)))


def empty(
    *shape: int, dtype: Optional[torch.dtype] = None, group: Optional[distributed.ProcessGroup] = None
) -> torch.Tensor:
    """A tensor in memory that the ranks of the group share, so that large collectives save copies (docs/heap.md).

    Collective: all ranks call, in the same order as their other operations; shapes may differ. At most 63 for each
    group. The memory stays as long as the tensor, and at least until the group is destroyed.
    """
    tensor: torch.Tensor = _extension.load().empty(_backend(group), list(shape), dtype or torch.get_default_dtype())
    return tensor


def reserve(nbytes: int, group: Optional[distributed.ProcessGroup] = None) -> None:
    """Shares `nbytes` bytes of each rank, from which torch then takes communication buffers of this group. Collective.

    DistributedDataParallel takes its buckets there if the environment has DDP_DISABLE_COMM_MEM=0, and FSDP2 its buffers
    if set_allocate_memory_from_process_group_for_comm(True) was called on the module. What does not fit is ordinary
    memory: slower, never wrong. Call it before the model is wrapped.
    """
    _extension.load().reserve(_backend(group), nbytes)


def register(module: torch.nn.Module, group: Optional[distributed.ProcessGroup] = None) -> None:
    """Moves the parameters, gradients and buffers of a module on the CPU into memory as that of empty(). Collective.

    Call it before DistributedDataParallel or an optimizer takes the module. Gradients get memory at once, and keep it
    with zero_grad(set_to_none=False).
    """
    by_dtype: Dict[torch.dtype, List[torch.Tensor]] = defaultdict(list)
    for parameter in module.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        by_dtype[parameter.dtype].append(parameter)
        if parameter.grad is not None:
            by_dtype[parameter.grad.dtype].append(parameter.grad)
    for buffer in module.buffers():
        by_dtype[buffer.dtype].append(buffer)
    for dtype, tensors in sorted(by_dtype.items(), key=lambda item: str(item[0])):
        lengths = [tensor.numel() for tensor in tensors]
        shared = empty(sum(lengths), dtype=dtype, group=group)
        for tensor, part in zip(tensors, torch.split(shared, lengths)):
            tensor.data = part.view(tensor.shape).copy_(tensor.data)


def all_reduce(
    tensor: torch.Tensor,
    op: Any = distributed.ReduceOp.SUM,
    group: Optional[distributed.ProcessGroup] = None,
    async_op: bool = False,
    wire: str = "full",
) -> Optional[distributed.Work]:
    """torch.distributed.all_reduce whose values may travel in fewer bytes: wire="bf16" or "fp8" (docs/wire.md).

    These take float32 with SUM, AVG or PREMUL_SUM. The wire is equal on all ranks.
    """
    if distributed.distributed_c10d._rank_not_in_group(group):
        return None
    options = distributed.AllreduceOptions()
    options.reduceOp = op
    options.asyncOp = async_op
    work: Optional[distributed.Work] = _extension.load().all_reduce(_backend(group), tensor, options, wire_number(wire))
    return work


def _average(
    group: Optional[distributed.ProcessGroup], bucket: GradBucket, wire: str
) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket of gradients over the ranks. Only float32 has wires; other gradients travel as they are."""
    gradients = bucket.buffer()
    if gradients.dtype != torch.float32:
        wire = "full"
    work: Any = all_reduce(gradients, distributed.ReduceOp.AVG, group, async_op=True, wire=wire)
    mean: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda future: future.value()[0])
    return mean


def bf16_wire_hook(
    group: Optional[distributed.ProcessGroup], bucket: GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Halves the bytes that DistributedDataParallel sends: model.register_comm_hook(group, bf16_wire_hook).

    Gradients are rounded to bf16, summed in float32, and rounded once more. Torch's bf16_compress_hook needs a GPU.
    """
    return _average(group, bucket, "bf16")


def fp8_wire_hook(
    group: Optional[distributed.ProcessGroup], bucket: GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """As bf16_wire_hook with a quarter of the bytes: e4m3 in blocks of 32 with a common scale."""
    return _average(group, bucket, "fp8")


def monitored_barrier(
    group: Optional[distributed.ProcessGroup] = None,
    timeout: Union[timedelta, float, None] = None,
    wait_all_ranks: bool = False,
) -> None:
    """torch.distributed.monitored_barrier, which torch offers for gloo only.

    timeout: a timedelta, or seconds; None: the group's.
    """
    if distributed.distributed_c10d._rank_not_in_group(group):
        return
    process_group: Any = _process_group(group)  # torch's declarations lack the function
    if timeout is None:  # the group's
        process_group.monitored_barrier(wait_all_ranks=wait_all_ranks)
        return
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    process_group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
