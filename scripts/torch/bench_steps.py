# SPDX-License-Identifier: BSD-3-Clause
"""Compares tutti with gloo in whole steps of the programs in examples/torch; one rank of the job that scripts/bench_torch starts.

    bench_steps.py CSV [--seconds S]

A training step of DDP and of FSDP2, and one token of tensor-parallel decoding, each with the same model over each contender,
in turn. "tutti/heap" is tutti with memory from which torch takes the buffers of DDP and FSDP2 (tutti.torch.reserve). The time
of a step is that of the slowest rank.
"""
import argparse
import os
import statistics
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import _tutti_torch_backend
import tutti.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "torch"))
from ddp import network  # noqa: E402
from decode import split_by_hand  # noqa: E402
from fsdp2 import Loss  # noqa: E402
from llama import SHAPES, Llama  # noqa: E402

HEAP = "tutti/heap"
RESERVED = 64 << 20  # bytes


def large():
    """16 MiB of gradients for few operations."""
    return nn.Sequential(nn.Linear(784, 1024), *(nn.Linear(1024, 1024) for _ in range(3)), nn.Linear(1024, 10))


def ddp(network, batch):
    """`batch` images a step, of all ranks together."""
    def make(group):
        torch.manual_seed(1)
        model = DistributedDataParallel(network(), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        mine = batch // dist.get_world_size()
        images, labels = torch.rand(mine, 784), torch.randint(10, (mine,))

        def step():
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()
        return step
    return make


def fsdp2(group):
    torch.manual_seed(1)
    model = Loss(Llama(SHAPES["tiny"]))
    mesh = DeviceMesh.from_group(group, "cpu")
    for module in [*model.model.layers, model]:
        fully_shard(module, mesh=mesh)
        module.set_allocate_memory_from_process_group_for_comm(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.randint(256, (4, 65))

    def step():
        loss = model(samples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def decoder(shape):
    """A token with a cache of 64 positions."""
    def make(group):
        torch.manual_seed(1)
        model = Llama(SHAPES[shape]).requires_grad_(False).eval()
        split_by_hand(model, group)
        with torch.inference_mode():
            _, caches = model(torch.randint(SHAPES[shape].vocabulary, (1, 64)), decoding=True)
        token = torch.zeros(1, 1, dtype=torch.long)

        @torch.inference_mode()
        def step():
            return model(token, caches)[0].sum().item()
        return step
    return make


TRAINING = {"ddp step": ddp(network, 256), "ddp step 16M": ddp(large, 16), "fsdp2 step": fsdp2}


def programs(size):
    """{name: function that makes a step}. Left out: a shape whose heads the ranks cannot divide, and with more than two ranks
    the large shapes, of which each rank builds the whole."""
    fits = {name: shape for name, shape in SHAPES.items()
            if shape.kv_heads % size == 0 and (size <= 2 or shape.hidden < 1000)}
    return {**TRAINING, **{f"decode {name}": decoder(name) for name in fits}}


def measure(steps, seconds):
    """{backend: [seconds of the slowest rank]}."""
    warm = [(step(), time.perf_counter(), step(), time.perf_counter()) for step in steps.values()]
    first = [(value, step_end - begin) for value, begin, _, step_end in warm]
    values = [value for value, _ in first]
    if max(values) - min(values) > 1e-3 * abs(values[0]):
        raise SystemExit(f"rank {dist.get_rank()}: the steps have different results: {values}")
    repetitions = torch.tensor(min(max(int(seconds / sum(took for _, took in first)), 5), 300))
    dist.all_reduce(repetitions, op=dist.ReduceOp.MIN)
    times = torch.empty(len(steps), int(repetitions))
    for i in range(times.shape[1]):
        for k, step in enumerate(steps.values()):
            dist.barrier()
            begin = time.perf_counter()
            step()
            times[k, i] = time.perf_counter() - begin
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return {name: times[k].tolist() for k, name in enumerate(steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each program, of both backends together")
    options = parser.parse_args()
    os.environ["DDP_DISABLE_COMM_MEM"] = "0"  # DDP takes buckets from the process group if it offers memory
    torch.set_num_threads(1)
    _tutti_torch_backend.register()  # as the entry point of the installed package does
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    groups = {name: dist.new_group(backend=name.partition("/")[0], timeout=timedelta(seconds=120))
              for name in ("tutti", HEAP, "gloo")}
    tutti.torch.reserve(RESERVED, groups[HEAP])

    lines = [f"# date = {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC", f"# torch = {torch.__version__}",
             "program,backend,ranks,repetitions,p50_us,low_us,high_us"]
    for program, make in programs(dist.get_world_size()).items():
        times = measure({name: make(group) for name, group in groups.items() if name != HEAP or program in TRAINING},
                        options.seconds)
        for name, values in times.items():
            low, middle, high = (us * 1e6 for us in statistics.quantiles(values, n=4))
            lines.append(f"{program},{name},{dist.get_world_size()},{len(values)},{middle:.1f},{low:.1f},{high:.1f}")
        if dist.get_rank() == 0:
            shown = {name: statistics.median(values) * 1e3 for name, values in times.items()}
            print(f"{program:18} " + "  ".join(f"{name} {ms:8.2f} ms" for name, ms in shown.items()) +
                  f"  gloo / tutti {shown['gloo'] / shown['tutti']:.2f}", flush=True)
    if dist.get_rank() == 0:
        Path(options.csv).write_text("\n".join([*lines, ""]), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
