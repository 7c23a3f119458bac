"""Pieces encoded by themselves give the tokens of the whole, for the tokenizer families that models come with.

KVGATE_CHATS sets how many random conversations are compared; `make soak` compares many.
"""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from tokenizer_families import FAMILIES, added_tokens, contents, gpt2, llama2, metaspace_first, qwen
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from gateway.prompt import cuts
from gateway.prompt.cuts import Cuts, spaces_between_words
from gateway.prompt.encoders import Encoder, HuggingFaceEncoder
from gateway.prompt.incremental import AtOnce, IncrementalEncoder, TooMuch, proven_incremental
from gateway.prompt.proof import first_difference, hostile_texts
from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.tokenizer import best_encoder

CHATS = int(os.environ.get("KVGATE_CHATS", "12"))
HOSTILE = max(60, CHATS // 5)


def random_chats(rng: random.Random, added: Sequence[str], count: int) -> Iterator[str]:
    """Rendered conversations of several thousand characters, so that cuts between words happen."""
    for _ in range(count):
        turns = hostile_texts(rng, added, rng.randint(2, 8))
        yield "".join(f"{rng.choice(added)}user\n{turn} {'and so on ' * rng.randint(0, 900)}{turn}" for turn in turns)


def best(tokenizer: Tokenizer) -> Any:
    loaded = PreTrainedTokenizerFast(tokenizer_object=tokenizer)  # type: ignore[no-untyped-call]
    return best_encoder(loaded, added_tokens(tokenizer), name="test", cache_bytes=1 << 20)


def cuts_every(piece: int, added: Sequence[cuts.AddedToken] = ()) -> tuple[Cuts, Cuts]:
    """Pieces of about that many characters, and stretches of four pieces."""
    return Cuts(added, piece=piece, least=piece // 8, spaces=" "), Cuts(added, piece=4 * piece, least=0, spaces=" ")


@dataclass(frozen=True)
class Family:
    encoder: Encoder
    reference: Encoder
    added: Sequence[str]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    tokenizer = FAMILIES[request.param]()
    reference = HuggingFaceEncoder(Tokenizer.from_str(tokenizer.to_str()))
    return Family(best(tokenizer), reference, contents(tokenizer))


@pytest.mark.parametrize("add_special_tokens", [False, True])
def test_ids_are_those_of_hugging_face(family: Family, add_special_tokens: bool) -> None:
    rng = random.Random(7)
    texts = chain(random_chats(rng, family.added, CHATS), hostile_texts(rng, family.added, HOSTILE), ("",))
    assert first_difference(family.encoder, family.reference, texts, add_special_tokens=add_special_tokens) is None


def test_a_megabyte_of_one_letter_has_the_ids_of_hugging_face(family: Family) -> None:
    letters = "a" * 1_000_000
    assert list(family.encoder.encode(letters, False)) == list(family.reference.encode(letters, False))


def test_a_conversation_that_grows_has_the_tokens_of_the_whole_at_each_turn(family: Family) -> None:
    rng = random.Random(8)
    text = ""
    for turn in hostile_texts(rng, family.added, 12):
        text += f"{rng.choice(family.added)}user\n{turn}{'and so on ' * rng.randint(0, 500)}{turn}"
        assert list(family.encoder.encode(text, False)) == list(family.reference.encode(text, False))


def test_texts_are_encoded_piece_by_piece_where_that_is_exact(family: Family) -> None:
    assert isinstance(family.encoder, IncrementalEncoder)


def test_text_without_utf8_form_is_refused(family: Family) -> None:
    with pytest.raises(CannotScore, match=Reason.UNENCODABLE):
        family.encoder.encode("half a \ud83d pair", False)


def test_a_longer_text_costs_only_what_is_new(family: Family) -> None:
    seen: list[str] = []

    class Counting:
        name = "counting"

        def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
            seen.append(text)
            return family.reference.encode(text, add_special_tokens)

    added = [cuts.AddedToken("<|im_start|>")]
    encoder = IncrementalEncoder(Counting(), *cuts_every(50, added), max_bytes=1 << 20)
    first = "<|im_start|>" + "and so on " * 30 + "<|im_start|>" + "a question"
    encoder.encode(first, False)
    seen.clear()
    encoder.encode(first + " and more<|im_start|>an answer", False)
    assert seen == ["<|im_start|>a question and more", "<|im_start|>an answer"]


def test_a_little_that_is_new_is_encoded_at_once(family: Family) -> None:
    known = "It was said before. " * 2000
    family.encoder.encode(known, False)
    longer = f"{known}{family.added[0]}And this is new."
    assert AtOnce(family.encoder).encode(longer, False) == family.encoder.encode(longer, False)


def test_much_that_is_new_is_too_much_for_one_request_however_it_is_divided(family: Family) -> None:
    at_once = AtOnce(family.encoder)

    def encode_many() -> None:
        for number in range(100):
            at_once.encode(f"{number} " * 500, False)

    with pytest.raises(TooMuch):
        encode_many()
    at_once.begin()
    assert at_once.encode("another request", False) == family.encoder.encode("another request", False)
    assert AtOnce(family.reference).encode("short", False) == family.reference.encode("short", False)
    with pytest.raises(TooMuch):
        AtOnce(family.reference).encode("too long " * 5000, False)


def test_what_is_encoded_sooner_than_looked_up_is_not_remembered() -> None:
    encoder = best(qwen())
    encoder.encode("A short question.", True)
    assert encoder.cached_bytes == 0
    encoder.encode("A long question. " * 1000, True)
    assert encoder.cached_bytes > 0


def test_the_cache_stays_within_its_bound() -> None:
    encoder = IncrementalEncoder(HuggingFaceEncoder(gpt2()), *cuts_every(50), max_bytes=4096)
    for number in range(100):
        encoder.encode(f"number {number} " * 20, False)
        assert encoder.cached_bytes <= 4096


@pytest.mark.parametrize(("build", "encoder", "said"), [(qwen, "fastokens", 0), (metaspace_first, "huggingface", 1)])
def test_fastokens_encodes_what_it_can(
    build: Callable[[], Tokenizer], encoder: str, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert best(build()).name == encoder
    assert len(caplog.records) == said


def test_no_cut_where_a_token_reaches_across() -> None:
    assert spaces_between_words(["Ġthe", "fox", "word", "ĊĊ"]) == "\n "
    assert spaces_between_words(["Ġthe", "ofĠthe"]) == "\n"
    assert spaces_between_words(["▁comment\n\n"]) == " "


def test_an_encoder_that_looks_at_the_whole_text_is_not_used_piece_by_piece() -> None:
    class Counting:
        name = "counting"

        def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
            return [len(text), *text.encode()]

    assert proven_incremental(Counting(), [cuts.AddedToken("<|im_start|>")], spaces=" ", max_bytes=1 << 20) is None


def test_prepended_spaces_forbid_cuts_between_words() -> None:
    encoder = HuggingFaceEncoder(llama2())
    fine = IncrementalEncoder(encoder, *cuts_every(1), max_bytes=1 << 20)
    assert list(fine.encode("fox fox", False)) != list(encoder.encode("fox fox", False))
