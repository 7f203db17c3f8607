"""The forward pass of flash-linear-attention's chunked gated delta rule on packed sequences, launched once; the memory of its tensors is not initialised.

    TOKENS=8192 SEQUENCES=57 HEADS_K=4 HEADS_V=8 gdngen explain tests/peers/fla.py --target h100 --python PYTHON --configs 12

PYTHON has fla-core 0.6.0, torch 2.11.0 and triton 3.6.0.
"""

import os

import torch
from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule_fwd
from fla.ops.utils import prepare_chunk_indices

tokens, sequences = int(os.environ.get("TOKENS", 8192)), int(os.environ.get("SEQUENCES", 1))
heads_k, heads_v, width = int(os.environ.get("HEADS_K", 4)), int(os.environ.get("HEADS_V", 8)), 128


def bf16(*shape):
    return torch.empty(*shape, dtype=torch.bfloat16)


def f32(*shape):
    return torch.empty(*shape, dtype=torch.float32)


ends = torch.tensor([i * tokens // sequences for i in range(sequences + 1)])
chunk_gated_delta_rule_fwd(
    q=bf16(1, tokens, heads_k, width), k=bf16(1, tokens, heads_k, width), v=bf16(1, tokens, heads_v, width),
    g=f32(1, tokens, heads_v), beta=f32(1, tokens, heads_v), scale=width**-0.5,
    initial_state=f32(sequences, heads_v, width, width), output_final_state=True,
    cu_seqlens=ends, chunk_indices=prepare_chunk_indices(ends, 64),
)
