"""Texts that tell two encoders apart, and the comparison: what a tokenizer must pass at load before it is trusted."""

import random
from collections.abc import Iterable, Iterator, Sequence

from gateway.prompt.encoders import Encoder

_PIECES = (
    *("the quick brown fox", "Don't we'll I'M", "snake_case camelCase", "3.14159 10,000 2026-11-29", "naïve café über"),
    *("你好，世界。", "日本語のテキスト", "한국어 문장", "Привет, мир", "مرحبا بالعالم", "ไทยไม่มีช่องว่าง", "नमस्ते"),
    *("🙂", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\u00e9", "ﬁ", "Ω\u2126"),
    *("\u200b", "\u200d", "\ufeff", "\u00a0", "\u3000", "\u2028", "\x00", "\x7f", "\ue000", "\U0010ffff"),
    *(" ", "  ", "    ", " " * 17, "\n", "\n\n", "\r\n", "\t", " \n ", "\n    ", "\v", "\f", "\x85"),
    *("def f(x):\n    return x**2\n", '{"a": [1, null, "b\\n"]}', "<div class='x'>&amp;</div>", "$\\frac{a}{b}$"),
    *("a/b\\c", "...---", "<|", "|>", "<s>", "</s>", "[INST]", "<<SYS>>", "<0x0A>", "▁", "Ġ", "<|im_start", "<unk>"),
)


def hostile_texts(rng: random.Random, specials: Sequence[str], count: int) -> Iterator[str]:
    """`count` texts of up to some hundred characters: scripts, emoji, white-space runs, special tokens and near misses.

    specials: the tokenizer's added tokens, as text.
    """
    vocabulary = [*_PIECES, *specials, *(token[:-1] for token in specials), *(token[1:] for token in specials)]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 24)):
            piece = rng.choice(vocabulary)
            parts.append(piece * rng.randint(2, 9) if rng.random() < 0.1 else piece)
            if rng.random() < 0.3:
                parts.append(
                    rng.choice((" ", "\n", chr(rng.randrange(0x20, 0xD800)), chr(rng.randrange(0x1F300, 0x1FAFF))))
                )
        yield "".join(parts)


def first_difference(one: Encoder, other: Encoder, texts: Iterable[str], *, add_special_tokens: bool) -> int | None:
    """The number of the first text that the two encode differently; None if there is none."""
    for number, text in enumerate(texts):
        if list(one.encode(text, add_special_tokens)) != list(other.encode(text, add_special_tokens)):
            return number
    return None
