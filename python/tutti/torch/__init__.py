# SPDX-License-Identifier: BSD-3-Clause
"""The backend "tutti" of torch.distributed. docs/pytorch.md describes it.

    import torch.distributed as dist
    dist.init_process_group("tutti")
"""

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
