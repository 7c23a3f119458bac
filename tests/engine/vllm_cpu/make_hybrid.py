"""Make a tiny random Gemma 3: `VENV/bin/python make_hybrid.py MODEL FOLDER`.

Three layers look back 128 tokens and one looks back to the beginning, so vLLM keeps them in KV-cache groups of their
own. Tokenizer and template are those of MODEL, which `make_model.py` makes. The weights are seeded.
"""

# Runs in vLLM's venv, whose packages a type check of the project does not see.
# mypy: disable-error-code="import-not-found, no-untyped-call, no-any-return"

import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

WINDOW = 128


def main(model: Path, folder: Path) -> None:
    """Write `folder`."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    config = Gemma3TextConfig(
        vocab_size=151936,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=8192,
        sliding_window=WINDOW,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
        bos_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="bfloat16",
    )
    Gemma3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
