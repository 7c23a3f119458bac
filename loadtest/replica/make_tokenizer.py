"""Makes the simulated replica's tokenizer: `python -m loadtest.replica.make_tokenizer DIRECTORY`.

A byte-level BPE of about 2,000 tokens with ChatML's special tokens, trained on made-up text, so that
the same files come out on every machine.
"""

import argparse
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from loadtest.prose import sentences, snippets

VOCABULARY = 2048
MAX_MODEL_LEN = 131_072
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

WORD_BOUNDARIES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen models cut text into words, so that an encoder which knows them knows this one."""

CHAT_TEMPLATE = """\
{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' -%}
{%- if tools -%}
{{ '<|im_start|>system\\n' }}{% if system %}{{ system + '\\n\\n' }}{% endif -%}
{{ 'You may call these functions:\\n<tools>\\n' }}
{%- for tool in tools %}{{ tool | tojson }}{{ '\\n' }}{% endfor -%}
{{ '</tools>\\nTo call one, answer with its name and arguments as JSON between <tool_call> tags.<|im_end|>\\n' }}
{%- elif system -%}
{{ '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'system' and loop.first -%}
{%- elif message.role == 'tool' -%}
{{ '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else -%}
{{ '<|im_start|>' + message.role + '\\n' }}{% if message.content %}{{ message.content }}{% endif -%}
{%- for call in message.tool_calls or [] -%}
{{ '\\n<tool_call>\\n{"name": ' }}{{ call.function.name | tojson }}{{ ', "arguments": ' -}}
{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""


def build() -> PreTrainedTokenizerFast:
    """Train and dress the tokenizer. The same on every call."""
    rng = random.Random(0)
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_BOUNDARIES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(MARKERS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [" ".join(sentences(rng, 8_000)), *sentences(rng, 8_000), *snippets(rng, 400)]
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in MARKERS])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_MODEL_LEN,
        chat_template=CHAT_TEMPLATE,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    build().save_pretrained(directory)
    config = directory / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    template = directory / "chat_template.jinja"
    if template.exists():
        settings["chat_template"] = template.read_text()
        template.unlink()
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # the name that transformers 4 and 5 both know
    config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    tokenizer = directory / "tokenizer.json"
    tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
