"""Tokens a second of a model by transformers, and a checkpoint of random numbers in the layout of Qwen3.5 0.8B.

    python tests/peers/generate.py make DIR                       # 1.5 GB: names, shapes and config.json as published
    OMP_NUM_THREADS=2 python tests/peers/generate.py run DIR      # float32; --bfloat16 too

The same prompt by this project: go run ./examples/chat --model DIR --measure
"""

import argparse
import json
import pathlib
import resource
import time

import torch

TEXT = dict(
    model_type="qwen3_5_text",
    attn_output_gate=True,
    full_attention_interval=4,
    head_dim=256,
    hidden_act="silu",
    hidden_size=1024,
    intermediate_size=3584,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=16,
    linear_value_head_dim=128,
    num_attention_heads=8,
    num_hidden_layers=24,
    num_key_value_heads=2,
    rms_norm_eps=1e-6,
    rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25),
    tie_word_embeddings=True,
    vocab_size=248320,
)
CONFIG = dict(
    architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5", text_config=TEXT, tie_word_embeddings=True
)


def tensors():
    """Names and shapes of the text model."""
    t, at = TEXT, "model.language_model."
    hidden, width = t["hidden_size"], t["intermediate_size"]
    keys = t["linear_num_key_heads"] * t["linear_key_head_dim"]
    values = t["linear_num_value_heads"] * t["linear_value_head_dim"]
    heads, dim = t["num_attention_heads"], t["head_dim"]
    yield at + "embed_tokens.weight", (t["vocab_size"], hidden)
    yield at + "norm.weight", (hidden,)
    for i in range(t["num_hidden_layers"]):
        p = f"{at}layers.{i}."
        yield p + "input_layernorm.weight", (hidden,)
        yield p + "post_attention_layernorm.weight", (hidden,)
        yield p + "mlp.gate_proj.weight", (width, hidden)
        yield p + "mlp.up_proj.weight", (width, hidden)
        yield p + "mlp.down_proj.weight", (hidden, width)
        if (i + 1) % t["full_attention_interval"]:
            p += "linear_attn."
            yield p + "in_proj_qkv.weight", (2 * keys + values, hidden)
            yield p + "in_proj_z.weight", (values, hidden)
            yield p + "in_proj_b.weight", (t["linear_num_value_heads"], hidden)
            yield p + "in_proj_a.weight", (t["linear_num_value_heads"], hidden)
            yield p + "conv1d.weight", (2 * keys + values, 1, t["linear_conv_kernel_dim"])
            yield p + "dt_bias", (t["linear_num_value_heads"],)
            yield p + "A_log", (t["linear_num_value_heads"],)
            yield p + "norm.weight", (t["linear_value_head_dim"],)
            yield p + "out_proj.weight", (hidden, values)
        else:
            p += "self_attn."
            yield p + "q_proj.weight", (2 * heads * dim, hidden)
            yield p + "k_proj.weight", (t["num_key_value_heads"] * dim, hidden)
            yield p + "v_proj.weight", (t["num_key_value_heads"] * dim, hidden)
            yield p + "o_proj.weight", (hidden, heads * dim)
            yield p + "q_norm.weight", (dim,)
            yield p + "k_norm.weight", (dim,)


def make(folder):
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    draw = torch.Generator().manual_seed(7)
    file = {}
    for name, shape in tensors():
        x = torch.randn(shape, generator=draw)
        if "linear_attn.norm" in name:  # the norm in the rule's layer scales by its weight alone
            x = 1 + 0.1 * x
        elif name.endswith(("A_log", "dt_bias")):
            x = x - 2 * name.endswith("dt_bias")
        elif "norm" in name:
            x = 0.1 * x
        else:
            x = x * (0.3 if "conv1d" in name else 0.02 if "embed" in name else shape[-1] ** -0.5)
        file[name] = x if name.endswith("A_log") else x.bfloat16()
    save_file(file, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))


def run(folder, kind, prompt, tokens):
    from transformers import AutoModelForCausalLM

    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
    ids = torch.arange(prompt)[None] * 7919 % TEXT["vocab_size"]
    out = {}
    for turn in range(2):  # the first is to warm up
        begin = time.perf_counter()
        o = model(ids, use_cache=True, logits_to_keep=1)
        prefill = time.perf_counter() - begin
        said, begin, busy = [], time.perf_counter(), time.process_time()
        for _ in range(tokens if turn else 2):
            said.append(o.logits[:, -1].argmax(-1, keepdim=True))
            o = model(said[-1], past_key_values=o.past_key_values, use_cache=True)
        decode, busy = time.perf_counter() - begin, time.process_time() - busy
        out = dict(
            by="transformers",
            type=str(kind),
            prefill_tokens_per_s=round(prompt / prefill, 2),
            decode_tokens_per_s=round(len(said) / decode, 3),
            decode_processor_s=round(busy / len(said), 3),
            peak_MiB=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            tokens=torch.cat(said, 1)[0].tolist()[:8],
        )
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["make", "run"])
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--bfloat16", action="store_true")
    p.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    p.add_argument("--tokens", type=int, default=16, help="tokens that are generated")
    a = p.parse_args()
    if a.what == "make":
        make(a.folder)
    else:
        run(a.folder, torch.bfloat16 if a.bfloat16 else torch.float32, a.prompt, a.tokens)
