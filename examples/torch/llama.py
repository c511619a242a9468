# SPDX-License-Identifier: BSD-3-Clause
"""A decoder of Llama's shape in plain torch: RMS norm, rotary positions, grouped heads, gated MLP, a cache of keys and values.

The names of the layers are those of transformers' LlamaForCausalLM, so that its tensor-parallel plan applies.
"""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu


@dataclass
class Shape:
    layers: int = 4
    hidden: int = 768
    heads: int = 12
    kv_heads: int = 12
    mlp: int = 2048
    vocabulary: int = 8192
    positions: int = 512

    @property
    def head(self):
        return self.hidden // self.heads


SHAPES = {
    "tiny": Shape(layers=2, hidden=64, heads=4, kv_heads=4, mlp=128, vocabulary=256, positions=128),
    "gpt2": Shape(),
    "llama-1b": Shape(layers=2, hidden=2048, heads=32, kv_heads=8, mlp=8192, vocabulary=8192),
    "llama-8b": Shape(layers=1, hidden=4096, heads=32, kv_heads=8, mlp=14336, vocabulary=8192),
}


def rotate(x, position):
    """Rotary position embedding (Su et al. 2021) of x, [batch, heads, tokens, head]."""
    half = x.shape[-1] // 2
    angles = torch.arange(position, position + x.shape[-2]).unsqueeze(1) * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Attention(nn.Module):
    """With tensor parallelism a rank has some of the heads: their number follows from the projections' width."""

    def __init__(self, shape):
        super().__init__()
        self.head = shape.head
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)

    def forward(self, x, cache):
        q, k, v = (p(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        position = cache[0].shape[2] if cache else 0
        q, k = rotate(q, position), rotate(k, position)
        if cache:
            k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
        out = scaled_dot_product_attention(q, k, v, is_causal=position == 0 and x.shape[1] > 1, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2)), (k, v)


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.down_proj = nn.Linear(shape.mlp, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden)
        self.mlp = Mlp(shape)

    def forward(self, x, cache=None, decoding=False):
        attended, cache = self.self_attn(self.input_layernorm(x), cache)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), cache if decoding else None


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, tokens, caches=None, decoding=False):
        """Logits of `tokens`, [batch, tokens], and if decoding the cache of each layer, for the next call."""
        x = self.embed_tokens(tokens)
        caches = caches or [None] * len(self.layers)
        after = []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, cache, decoding)
            after.append(cache)
        return self.lm_head(self.norm(x)), after
