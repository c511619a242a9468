# SPDX-License-Identifier: BSD-3-Clause
"""Training that goes on when a rank is killed: the others make a new process group and divide the samples again.

The sum of the gradients runs over all samples, however many ranks there are, so the model comes out the same.

    tutti run -n 3 --keep-going -- python3 survive.py --kill 1
    torchrun --nproc-per-node 3 survive.py --kill 1
"""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from common import parser

FEATURES, SAMPLES, RATE = 16, 2048, 0.1
SETTLE = 1.0  # seconds in which the survivors report


class Job:
    """The ranks that are left. The store outlives the process groups; each group has a prefix of its own in it."""

    def __init__(self, options):
        self.options, self.generation = options, 0
        self.store, self.me, size = next(dist.rendezvous("env://"))
        self.members = list(range(size))
        self.join()

    def join(self):
        dist.init_process_group(self.options.backend, store=dist.PrefixStore(f"group{self.generation}", self.store),
                                rank=self.members.index(self.me), world_size=len(self.members),
                                timeout=timedelta(seconds=self.options.timeout))

    def shrink(self):
        """Makes a group of the ranks that report within SETTLE. Rank 0 of the launcher serves the store, and decides."""
        dist.destroy_process_group()
        self.generation += 1
        prefix = f"survivors{self.generation}"
        self.store.set(f"{prefix}/{self.me}", "")
        if self.me == 0:
            time.sleep(SETTLE)  # no event to wait for: the key of a dead rank never comes
            alive = [rank for rank in self.members if self.store.check([f"{prefix}/{rank}"])]
            self.store.set(prefix, ",".join(map(str, alive)))
        self.members = [int(rank) for rank in self.store.get(prefix).decode().split(",")]
        self.join()


def die(rank):
    """Ends this process without a word. torchrun ends all ranks when one fails, so there it exits with 0."""
    print(f"rank {rank} ends", flush=True)
    if "TUTTI_RANK" in os.environ:
        os.kill(os.getpid(), 9)
    os._exit(0)


def main():
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--kill", type=int, default=-1, metavar="RANK", help="this rank ends; not 0, which serves the store")
    options.add_argument("--at", type=int, default=50, metavar="STEP", help="in this step")
    options.add_argument("--steps", type=int, default=200)
    options = options.parse_args()
    torch.set_num_threads(1)
    job = Job(options)

    torch.manual_seed(1)  # the same samples on every rank
    inputs = torch.randn(SAMPLES, FEATURES)
    truth = torch.arange(FEATURES).remainder(5) - 2.0
    targets = inputs @ truth
    now = before = torch.zeros(FEATURES)
    step = 0
    while step < options.steps:
        if job.me == options.kill and step == options.at:
            die(job.me)
        mine = slice(dist.get_rank(), None, dist.get_world_size())
        gradient = inputs[mine].T @ (inputs[mine] @ now - targets[mine])
        begin = time.monotonic()
        try:
            dist.all_reduce(gradient)
        except RuntimeError as error:
            print(f"rank {job.me}, step {step}, after {(time.monotonic() - begin) * 1e3:.0f} ms: {error}", flush=True)
            job.shrink()
            # Some ranks may have finished this step before the failure: all go on from the last step that all have.
            last = torch.tensor(step)
            dist.all_reduce(last, op=dist.ReduceOp.MIN)
            if last < step:
                step, now = int(last), before
            if dist.get_rank() == 0:
                print(f"{dist.get_world_size()} ranks go on from step {step}", flush=True)
            continue
        before, now = now, now - RATE / SAMPLES * gradient
        step += 1

    error = (now - truth).abs().max().item()
    if dist.get_rank() == 0:
        print(f"{options.backend}, {dist.get_world_size()} ranks left: largest error of a parameter {error:.1e}")
    dist.destroy_process_group()
    return 0 if error < 1e-3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
