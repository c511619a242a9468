# SPDX-License-Identifier: BSD-3-Clause
"""Training with FSDP2: each rank keeps a part of every parameter, and gathers a layer while it computes with it.

A small model of Llama's shape learns the bytes of the Python sources beside this file.

    torchrun --nproc-per-node 2 fsdp2.py
    tutti run -n 2 -- python3 fsdp2.py --backend gloo
"""
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from common import Progress, join, parser, say
from llama import SHAPES, Llama

LENGTH = 64  # tokens of a sample


class Loss(torch.nn.Module):
    """The mean loss of predicting each next token."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, samples):
        logits, _ = self.model(samples[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())


def main():
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--batch", type=int, default=8, help="samples a step, of all ranks together")
    options.add_argument("--shape", choices=SHAPES, default="tiny")
    options = options.parse_args()
    rank, size = join(options)

    torch.manual_seed(1)  # the same first parameters, and the same samples, on every rank
    model = Loss(Llama(SHAPES[options.shape]))
    mesh = init_device_mesh("cpu", (size,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    first = last = 0.0
    progress = Progress(options.steps, "tokens")
    for step in range(options.steps):
        starts = torch.randint(len(text) - LENGTH - 1, (options.batch,))[rank::size]
        samples = torch.stack([text[start:start + LENGTH + 1] for start in starts])
        loss = model(samples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        last = mean.item() / size
        first = first or last
        progress.step(options.batch * LENGTH, f"loss {last:.3f}")

    say(f"{options.backend}, {size} ranks: {progress.rate():,.0f} tokens/s")
    say(f"loss {first:.3f} in the first step, {last:.3f} in the last one")
    dist.destroy_process_group()
    return 0 if options.steps < 60 or last < 0.8 * first else 1


if __name__ == "__main__":
    raise SystemExit(main())
