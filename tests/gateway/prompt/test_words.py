"""Texts of which only the words that are new are encoded have the tokens that they have as a whole."""

import random
from collections.abc import Iterator, Sequence

import pytest
from tokenizer_families import FAMILIES, added_tokens, contents, gpt2
from tokenizers import Tokenizer

from gateway.prompt.cuts import Cuts, spaces_between_words
from gateway.prompt.encoders import HuggingFaceEncoder
from gateway.prompt.incremental import LITTLE, IncrementalEncoder, proven_incremental
from gateway.prompt.proof import first_difference, hostile_texts
from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.words import LONGEST, WordEncoder


class Watched(HuggingFaceEncoder):
    """Shows what parts it was asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.asked: list[str] = []

    def encode_parts(self, parts: Sequence[str]) -> Sequence[bytes]:
        self.asked += parts
        return super().encode_parts(parts)


@pytest.fixture
def watched() -> Watched:
    return Watched(gpt2())


def made_up_words(rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        yield "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_those_of_hugging_face(family: str) -> None:
    tokenizer = FAMILIES[family]()
    reference, added = HuggingFaceEncoder(tokenizer), contents(tokenizer)
    spaces = spaces_between_words(tokenizer.get_vocab(False))
    encoder = proven_incremental(reference, added_tokens(tokenizer), spaces=spaces, max_bytes=1 << 18)
    assert encoder is not None
    rng = random.Random(11)
    chats = ["".join(hostile_texts(rng, added, 6)) for _ in range(20)]
    texts = [*hostile_texts(rng, added, 60), *chats, "", " ", "a" * 1000]
    assert first_difference(encoder, reference, texts, add_special_tokens=False) is None


def test_a_word_is_encoded_once(watched: Watched) -> None:
    encoder = WordEncoder(watched, spaces=" \n", max_bytes=1 << 16)
    encoder.encode("The dog saw the fox, and the dog ran.", False)
    watched.asked.clear()
    text = "The dog saw the\nfox, and the cat saw the cat"
    assert list(encoder.encode(text, False)) == list(watched.encode(text, False))
    assert watched.asked == ["\nfox, and", " cat"]


def test_words_are_kept_apart_only_where_little_is_new(watched: Watched) -> None:
    words = WordEncoder(watched, spaces=" ", max_bytes=1 << 16)
    cuts = Cuts([], piece=2048, least=0, spaces=" ")
    encoder = IncrementalEncoder(watched, cuts, cuts, max_bytes=1 << 20, of_little=words)
    rng = random.Random(13)
    long, turn = " ".join(made_up_words(rng, LITTLE // 3)), " ".join(made_up_words(rng, 50))
    encoder.encode(long, False)
    assert not watched.asked
    assert list(encoder.encode(long + turn, False)) == list(watched.encode(long + turn, False))
    assert watched.asked


def test_memory_stays_within_its_bound(watched: Watched) -> None:
    encoder = WordEncoder(watched, spaces=" ", max_bytes=8192)
    rng = random.Random(12)
    for _ in range(50):
        text = " ".join(made_up_words(rng, 20))
        assert list(encoder.encode(text, False)) == list(watched.encode(text, False))
        assert encoder.cached_bytes <= 8192
    assert encoder.cached_bytes > 0


def test_text_without_spaces_is_not_remembered(watched: Watched) -> None:
    encoder = WordEncoder(watched, spaces=" ", max_bytes=1 << 16)
    encoder.encode("你好" * LONGEST, False)
    assert encoder.cached_bytes == 0


def test_a_new_word_without_utf8_form_is_refused(watched: Watched) -> None:
    encoder = WordEncoder(watched, spaces=" ", max_bytes=1 << 16)
    encoder.encode("half a pair", False)
    with pytest.raises(CannotScore, match=Reason.UNENCODABLE):
        encoder.encode("half a \ud83d pair", False)
