# SPDX-License-Identifier: BSD-3-Clause
"""Tensor-parallel decoding: a model of Llama's shape with random weights, its layers split over the ranks.

Attention and MLP are column-parallel, then row-parallel (Shoeybi et al. 2019): two all_reduces a layer and token, on the
critical path. That is where the latency of a small all_reduce counts.

    torchrun --nproc-per-node 2 decode.py --shape gpt2
    tutti run -n 2 -- python3 decode.py --backend gloo
"""
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import join, parser, say
from llama import SHAPES, Llama

# As transformers writes it in base_model_tp_plan.
PLAN = {
    "layers.*.self_attn.q_proj": "colwise", "layers.*.self_attn.k_proj": "colwise",
    "layers.*.self_attn.v_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise",
    "layers.*.mlp.gate_proj": "colwise", "layers.*.mlp.up_proj": "colwise", "layers.*.mlp.down_proj": "rowwise",
}


class RowParallel(torch.nn.Module):
    """A row-parallel layer of a rank: its product is a part of the sum over all ranks."""

    def __init__(self, weight, group):
        super().__init__()
        self.weight, self.group = torch.nn.Parameter(weight, requires_grad=False), group

    def forward(self, x):
        out = torch.nn.functional.linear(x, self.weight)
        dist.all_reduce(out, group=self.group)
        return out


def split_by_hand(model, group=None):
    """Replaces each layer of PLAN by this rank's part of it: what inference engines do. The group is the world without."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    for name, module in list(model.named_modules()):
        kind = PLAN.get(".".join("*" if part.isdigit() else part for part in name.split(".")))
        if kind == "colwise":
            module.weight = torch.nn.Parameter(module.weight.chunk(size, dim=0)[rank].clone(), requires_grad=False)
        elif kind == "rowwise":
            parent = model.get_submodule(name.rpartition(".")[0])
            part = module.weight.detach().chunk(size, dim=1)[rank].clone()
            setattr(parent, name.rpartition(".")[2], RowParallel(part, group))


def split_by_dtensor(model, size):
    """The same by torch's DTensor."""
    styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    parallelize_module(model, init_device_mesh("cpu", (size,)), {name: styles[kind]() for name, kind in PLAN.items()})


def decode(model, prompt, tokens):
    """Continues the prompt with the most probable token, `tokens` times. Returns them, and the seconds a token took."""
    chosen = []
    logits, caches = model(prompt, decoding=True)
    begin = time.monotonic()
    for _ in range(tokens):
        token = logits[:, -1].argmax(dim=-1, keepdim=True)
        chosen.append(token.item())
        logits, caches = model(token, caches, decoding=True)
    return chosen, (time.monotonic() - begin) / tokens


def main():
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--shape", choices=SHAPES, default="gpt2")
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--dtensor", action="store_true", help="split by torch's parallelize_module")
    options.add_argument("--check", action="store_true", help="compare with the same model on one rank")
    options = options.parse_args()
    _, size = join(options)
    shape = SHAPES[options.shape]
    if shape.kv_heads % size:
        say(f"{options.shape} has {shape.kv_heads} heads of keys, which {size} ranks cannot divide")
        return 2

    torch.manual_seed(1)  # the same weights on every rank
    whole = Llama(shape).requires_grad_(False).eval()
    model = Llama(shape).requires_grad_(False).eval()
    model.load_state_dict(whole.state_dict())
    if options.dtensor:
        split_by_dtensor(model, size)
    else:
        split_by_hand(model)
    prompt = torch.randint(shape.vocabulary, (1, 16))
    # DTensor makes tensors of its own kind, which inference_mode does not allow.
    with torch.no_grad() if options.dtensor else torch.inference_mode():
        decode(model, prompt, 4)
        text, seconds = decode(model, prompt, options.tokens)
        say(f"{options.backend}, {size} ranks, {options.shape}: {1 / seconds:.1f} tokens/s, {seconds * 1e3:.2f} ms a token")
        if options.check:
            # Another order of sums gives other last bits. Logits are of the order of 1.
            error = (model(prompt)[0] - whole(prompt)[0]).abs().max().item()
            say(f"largest difference of a logit from one rank's: {error:.1e}")
            if not error < 1e-3:
                return 1
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
