# SPDX-License-Identifier: BSD-3-Clause
"""The backend "tutti" of torch.distributed. docs/pytorch.md describes it.

    import torch.distributed as dist
    dist.init_process_group("tutti")
"""

from datetime import timedelta

import torch
from torch import distributed

from . import _extension


def _create_backend(options, backend_options):
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


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False) -> None:
    """torch.distributed.monitored_barrier, which torch offers for gloo only. timeout: a timedelta, or seconds."""
    if distributed.distributed_c10d._rank_not_in_group(group):
        return
    group = group or distributed.group.WORLD
    if timeout is None:
        timeout = group._get_backend(torch.device("cpu")).options._timeout
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
