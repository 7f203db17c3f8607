"""Tiny random models of transformers, on a CPU, with what they answer: the fixtures of gdn/lm.

    python tests/peers/hybrid.py gdn/lm/testdata

Made with the versions that config.json and answers.safetensors name.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

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
MODELS = {
    "qwen3_5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", dict(tie_word_embeddings=True)),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", dict(num_experts=0, tie_word_embeddings=False)),
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


def main(root):
    torch.set_num_threads(1)
    for name, (config, causal, more) in MODELS.items():
        torch.manual_seed(7)
        model = getattr(transformers, causal)(getattr(transformers, config)(**SIZES, **more)).eval().float()
        for key, p in model.named_parameters():
            if p.dim() > 1 or "norm" in key:
                torch.nn.init.normal_(p, std=0.3 if p.dim() > 1 else 0.1)
        with torch.no_grad():
            out = answers(model, torch.randint(0, SIZES["vocab_size"], (2, PROMPT + STEPS)))
        folder = pathlib.Path(root) / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        save_file({k: v.contiguous() for k, v in out.items()}, folder / "answers.safetensors",
                  {"transformers": transformers.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(sys.argv[1])
