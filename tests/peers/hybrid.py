"""Tiny random models of transformers, on a CPU, with what they answer: the fixtures of gdn/lm.

    python tests/peers/hybrid.py gdn/lm/testdata

Made with the versions that config.json and answers.safetensors name.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

SIZES = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    linear_conv_kernel_dim=4,
    max_position_embeddings=256,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=16, tie_word_embeddings=False)
KIMI = dict(
    num_local_experts=8, n_shared_experts=1, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
    linear_num_heads=4, linear_head_dim=8, num_key_value_heads=4, head_dim=None,
    layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"],
)  # fmt: skip
MODELS = {
    "qwen3_5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", dict(tie_word_embeddings=True)),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", dict(num_experts=0, tie_word_embeddings=False)),
    "qwen3_next_experts": (
        "Qwen3NextConfig",
        "Qwen3NextForCausalLM",
        dict(num_experts=8, shared_expert_intermediate_size=24, mlp_only_layers=[1], **EXPERTS),
    ),
    "qwen3_5_moe": (
        "Qwen3_5MoeTextConfig",
        "Qwen3_5MoeForCausalLM",
        dict(num_experts=6, shared_expert_intermediate_size=24, **EXPERTS),
    ),
    "olmo_hybrid": ("OlmoHybridConfig", "OlmoHybridForCausalLM", dict(head_dim=None, linear_value_head_dim=16)),
    "kimi_linear": ("KimiLinearConfig", "KimiLinearForCausalLM", EXPERTS | KIMI),
}
PROMPT, STEPS, GREEDY = 23, 9, 64


def answers(model, tokens):
    """Logits of all tokens at once, those of single tokens after a prompt, and greedy tokens after the prompt."""
    whole = model(tokens, use_cache=False).logits
    out = model(tokens[:, :PROMPT], use_cache=True)
    cache, steps = out.past_key_values, []
    for i in range(STEPS):
        out = model(tokens[:, PROMPT + i : PROMPT + i + 1], past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        steps.append(out.logits)
    greedy = tokens[:, :PROMPT]
    for _ in range(GREEDY):
        last = model(greedy, use_cache=False).logits[:, -1]
        greedy = torch.cat([greedy, last.argmax(-1, keepdim=True)], 1)
    return {"tokens": tokens, "logits": whole, "steps": torch.cat(steps, 1), "greedy": greedy[:, PROMPT:]}


def split(path, model):
    """Convolutions by the widths of q, k and v, as published: transformers saves three equal parts."""
    tensors = load_file(path)
    for i, layer in enumerate(model.model.layers):
        if hasattr(layer, "linear_attn"):
            mix = layer.linear_attn
            parts = mix.conv1d.weight.split([mix.key_dim, mix.key_dim, mix.value_dim])
            for part, weight in zip("qkv", parts, strict=True):
                tensors[f"model.layers.{i}.linear_attn.{part}_conv1d.weight"] = weight.detach().contiguous()
    save_file(tensors, path, {"format": "pt"})


def main(root):
    torch.set_num_threads(1)
    for name, (config, causal, more) in MODELS.items():
        torch.manual_seed(7)
        sizes = {k: v for k, v in (SIZES | more).items() if v is not None or k.endswith("_token_id")}
        model = getattr(transformers, causal)(getattr(transformers, config)(**sizes)).eval().float()
        for key, p in [*model.named_parameters(), *model.named_buffers()]:
            if "A_log" in key or "dt_bias" in key or "inv_freq" in key:
                continue
            if p.dim() > 1 or "norm" in key or "correction" in key:
                torch.nn.init.normal_(p, std=0.3 if p.dim() > 1 else 0.1)
                if "norm" in key and name in ("olmo_hybrid", "kimi_linear"):  # these scale by the weight alone
                    p.data += 1
        with torch.no_grad():
            tokens = torch.randint(0, SIZES["vocab_size"], (2, PROMPT + STEPS))
            out = answers(model, tokens)
        folder = pathlib.Path(root) / name
        model.save_pretrained(folder)
        if name == "olmo_hybrid":
            split(folder / "model.safetensors", model)
        with torch.no_grad():  # what is computed in float32 of weights rounded to bfloat16, as gdn/lm holds them
            for key, p in [*model.named_parameters(), *model.named_buffers()]:
                if not any(word in key for word in ("A_log", "dt_bias", ".gate.", "inv_freq")):
                    p.copy_(p.bfloat16())
            out["bfloat16"] = model(tokens, use_cache=False).logits
        (folder / "generation_config.json").unlink(missing_ok=True)
        save_file({k: v.contiguous() for k, v in out.items()}, folder / "answers.safetensors",
                  {"transformers": transformers.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(sys.argv[1])
