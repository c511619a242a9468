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

from . import _extension

__all__ = ["describe", "empty", "monitored_barrier", "register", "reserve"]


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


def monitored_barrier(
    group: Optional[distributed.ProcessGroup] = None,
    timeout: Union[timedelta, float, None] = None,
    wait_all_ranks: bool = False,
) -> None:
    """torch.distributed.monitored_barrier, which torch offers for gloo only. timeout: a timedelta, or seconds."""
    if distributed.distributed_c10d._rank_not_in_group(group):
        return
    process_group: Any = _process_group(group)  # torch's declarations lack the function
    if timeout is None:  # the group's
        process_group.monitored_barrier(wait_all_ranks=wait_all_ranks)
        return
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    process_group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
