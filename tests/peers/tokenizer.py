"""A small tokenizer in the form of Qwen's, and the tokens of some texts: fixtures of gdn/lm, by the package tokenizers.

    python tests/peers/tokenizer.py gdn/lm/testdata/tokenizer
"""

import json
import pathlib
import sys

from tokenizers import Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, trainers

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXT = "the rays of light differ in colour and in the degrees of their being refracted; it's what we'll see. " * 3
TEXTS = [
    "the light of the rays",
    "  it's\n\n refracted;  we'll see \n",
    "<|im_start|>user\nthe light<|im_end|>\n<|im_start|>assistant\n",
    "",
]


def main(root):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    special = ["<|im_start|>", "<|im_end|>"]
    t.train_from_iterator([TEXT + "\n"], trainers.BpeTrainer(vocab_size=64, special_tokens=special, show_progress=False))
    folder = pathlib.Path(root)
    folder.mkdir(parents=True, exist_ok=True)
    t.save(str(folder / "tokenizer.json"))
    texts = [{"text": s, "tokens": t.encode(s).ids} for s in TEXTS]
    (folder / "texts.json").write_text(json.dumps({"tokenizers": __version__, "texts": texts}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
