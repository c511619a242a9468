# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training on Fashion-MNIST with DistributedDataParallel.

    torchrun --nproc-per-node 2 ddp.py
    tutti run -n 2 -- python3 ddp.py --backend gloo
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from common import IMAGES, Progress, fashion_mnist, join, parser, say


def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def accuracy(model, images, labels, rank, size):
    """Each rank classifies its share of the images; the counts are summed."""
    counts = torch.zeros(2, dtype=torch.int64)
    with torch.inference_mode():
        right = model(images[rank::size]).argmax(dim=1) == labels[rank::size]
        counts[0], counts[1] = right.sum(), right.numel()
        dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()


def replicas_are_equal(model):
    """True if all ranks have the same bits in their parameters."""
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    equal = torch.tensor(torch.equal(mine, first), dtype=torch.int32)
    dist.all_reduce(equal, op=dist.ReduceOp.MIN)
    return bool(equal)


def main():
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--batch", type=int, default=256, help="images a step, of all ranks together")
    options.add_argument("--data", default=IMAGES, metavar="DIR", help="folder of the data set")
    options = options.parse_args()
    rank, size = join(options)

    images, labels = fashion_mnist("train", options.data)
    torch.manual_seed(1)  # the same first parameters and the same order of images on every rank
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = len(images) // options.batch
    progress = Progress(options.epochs * steps, "images")
    for epoch in range(options.epochs):
        order = torch.randperm(len(images))
        for step in range(steps):
            batch = order[step * options.batch:(step + 1) * options.batch][rank::size]
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # the gradients are averaged over the ranks meanwhile
            optimizer.step()
            progress.step(options.batch, f"epoch {epoch + 1}, loss {loss.item():.3f}")

    say(f"{options.backend}, {size} ranks: {progress.rate():,.0f} images/s")
    equal = replicas_are_equal(model)
    reached = accuracy(model, *fashion_mnist("t10k", options.data), rank, size)
    say(f"test accuracy {reached:.4f}, replicas {'are equal' if equal else 'DIFFER'}")
    dist.destroy_process_group()
    return 0 if equal and (options.epochs < 3 or reached >= 0.8) else 1


if __name__ == "__main__":
    raise SystemExit(main())
