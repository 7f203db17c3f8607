"""flash-linear-attention's chunked gated delta rule, launched once; the memory of its tensors is not initialised.

    TOKENS=8192 SEQUENCES=57 HEADS_K=4 HEADS_V=8 gdngen explain tests/peers/fla_launches.py --target h100 --python PYTHON --configs 12

is its forward pass on packed sequences. With BACKWARD=1 it is its Triton backward pass on SEQUENCES rows of equal length, TOKENS in all, with KDA=1 the
forward pass of its chunked KDA on such rows.

PYTHON has fla-core 0.6.0, torch and triton.
"""

import os
import sys

import torch
from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule_fwd
from fla.ops.utils import prepare_chunk_indices

tokens, sequences = int(os.environ.get("TOKENS", 8192)), int(os.environ.get("SEQUENCES", 1))
heads_k, heads_v, width = int(os.environ.get("HEADS_K", 4)), int(os.environ.get("HEADS_V", 8)), 128


def bf16(*shape):
    return torch.empty(*shape, dtype=torch.bfloat16)


def f32(*shape):
    return torch.empty(*shape, dtype=torch.float32)


rows = sequences, tokens // sequences
if os.environ.get("KDA"):
    from fla.ops.kda.chunk_fwd import chunk_kda_fwd

    chunk_kda_fwd(
        q=bf16(*rows, heads_k, width), k=bf16(*rows, heads_k, width), v=bf16(*rows, heads_v, width), g=f32(*rows, heads_v, width), beta=f32(*rows, heads_v),
        scale=width**-0.5, initial_state=f32(sequences, heads_v, width, width), output_final_state=True)
    sys.exit()
if os.environ.get("BACKWARD"):
    import fla.ops.common.chunk_o as chunk_o
    from fla.ops.gated_delta_rule.chunk import chunk_gated_delta_rule_bwd

    chunk_o.TRITON_ABOVE_3_7_1 = True  # nothing is computed: fla refuses Triton 3.4.0 to 3.7.0 on Hopper, whose code is wrong there (its issue 640)
    chunk_gated_delta_rule_bwd(
        q=bf16(*rows, heads_k, width), k=bf16(*rows, heads_k, width), v=bf16(*rows, heads_v, width), g=f32(*rows, heads_v), beta=f32(*rows, heads_v),
        A=bf16(*rows, heads_v, 64), scale=width**-0.5, initial_state=f32(sequences, heads_v, width, width), do=bf16(*rows, heads_v, width),
        dht=f32(sequences, heads_v, width, width))
    sys.exit()
ends = torch.tensor([i * tokens // sequences for i in range(sequences + 1)])
chunk_gated_delta_rule_fwd(
    q=bf16(1, tokens, heads_k, width), k=bf16(1, tokens, heads_k, width), v=bf16(1, tokens, heads_v, width),
    g=f32(1, tokens, heads_v), beta=f32(1, tokens, heads_v), scale=width**-0.5,
    initial_state=f32(sequences, heads_v, width, width), output_final_state=True,
    cu_seqlens=ends, chunk_indices=prepare_chunk_indices(ends, 64),
)
