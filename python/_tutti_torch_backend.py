# SPDX-License-Identifier: BSD-3-Clause
"""The entry point `torch.backends`: `import torch` calls register(), and then init_process_group("tutti") works.

It only stores a name and a function in torch's table. It builds and loads nothing, and it never raises: an error here
would break `import torch` for every program of the machine.
"""

from typing import Any


def _create(options: Any, backend_options: Any) -> Any:
    """Makes the backend of one process group. Called by torch, at the first use of the name."""
    from tutti.torch import _create_backend

    return _create_backend(options, backend_options)


def register() -> None:
    try:
        from torch import distributed

        if distributed.is_available() and not hasattr(distributed.Backend, "TUTTI"):
            distributed.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])
    except Exception as error:  # whatever is wrong here, torch itself has to work
        import warnings

        warnings.warn(f"tutti: the backend of torch.distributed is not registered: {error!r}", stacklevel=1)
