"""Tokenizers of the families that models come with, small and trained here."""

import json
from collections.abc import Callable, Mapping, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from gateway.prompt import cuts

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
CORPUS = [
    "the quick brown fox jumps over the lazy dog and the model answers what the user asked of it, word by word. " * 4,
    "def main(argument):\n    return {'a': [1, 22, 333, None]}  # comment\n\n" * 6,
    "naïve café über 你好，世界。 日本語のテキスト 한국어 Привет, мир " * 3,
]


def specials(*contents: str, **flags: bool) -> list[AddedToken]:
    return [AddedToken(content, normalized=False, special=True, **flags) for content in contents]


CHATML = specials("<|im_start|>", "<|im_end|>", "<think>", "</think>")


def byte_level(patterns: Sequence[str], added: list[AddedToken]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]
    levels = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, levels])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(added)
    return tokenizer


def sentencepiece_like(added: list[AddedToken]) -> Tokenizer:
    """BPE over whole texts, with `▁` for spaces and bytes for what the vocabulary lacks; no normaliser yet."""
    trained = Tokenizer(BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(CORPUS, BpeTrainer(vocab_size=500, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.add_special_tokens([*specials("<unk>"), *added])
    return tokenizer


def qwen() -> Tokenizer:
    tokenizer = byte_level([WORDS], CHATML)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def llama3() -> Tokenizer:
    tokenizer = byte_level([WORDS.replace(r"\p{N}|", r"\p{N}{1,3}|")], specials("<|bos|>", "<|start|>", "<|eot|>"))
    bos = tokenizer.token_to_id("<|bos|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[("<|bos|>", bos)]
    )
    return tokenizer


def gpt2() -> Tokenizer:
    return byte_level([], specials("<|endoftext|>"))


def deepseek() -> Tokenizer:
    return byte_level(DEEPSEEK, specials("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"))


def gemma() -> Tokenizer:
    tokenizer = sentencepiece_like(specials("<bos>", "<start_of_turn>", "<end_of_turn>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return tokenizer


def llama2() -> Tokenizer:
    tokenizer = sentencepiece_like(specials("<s>", "</s>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def metaspace_first() -> Tokenizer:
    tokenizer = sentencepiece_like(specials("<s>", "</s>", "[INST]", "[/INST]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def rstrip_specials() -> Tokenizer:
    tokenizer = sentencepiece_like(specials("<|user|>", "<|assistant|>", "<|end|>", rstrip=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return tokenizer


def lstrip_specials() -> Tokenizer:
    return byte_level([], [*CHATML, *specials("<mask>", lstrip=True), *specials("<word>", single_word=True)])


FAMILIES: Mapping[str, Callable[[], Tokenizer]] = {
    family.__name__: family
    for family in (*(qwen, llama3, gpt2, deepseek, gemma, llama2, metaspace_first, rstrip_specials, lstrip_specials),)
}


def contents(tokenizer: Tokenizer) -> list[str]:
    return [token.content for token in tokenizer.get_added_tokens_decoder().values()]


def added_tokens(tokenizer: Tokenizer) -> list[cuts.AddedToken]:
    return [
        cuts.AddedToken(token.content, token.normalized, token.lstrip, token.single_word)
        for token in tokenizer.get_added_tokens_decoder().values()
    ]
