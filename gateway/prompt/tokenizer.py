"""A model's tokenizer: loaded by `transformers`, run by `fastokens` where it proves equal, else by Hugging Face."""

import logging
import random
import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gateway.prompt.proof import first_difference, hostile_texts
from gateway.prompt.result import CannotScore, Reason

logger = logging.getLogger(__name__)

PROOF_TEXTS = 400


class TokenizerError(Exception):
    """A tokenizer can't be loaded. The message names it and says why."""


class Encoder(Protocol):
    """Text -> token ids. Thread-safe."""

    @property
    def name(self) -> str: ...

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        """Raises CannotScore for text that has no UTF-8 form."""
        ...


class FastokensEncoder:
    """The Rust encoder `fastokens`; releases the interpreter lock while it works."""

    name = "fastokens"

    def __init__(self, definition: str) -> None:
        """definition: a tokenizer.json. Raises an error of fastokens's own choice where it can't take it."""
        import fastokens

        self._tokenizer = fastokens.Tokenizer.from_json_str(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        try:
            ids, _ = self._tokenizer.encode_batch_flat([text], add_special_tokens)
        except UnicodeEncodeError as exc:
            raise CannotScore(Reason.UNENCODABLE) from exc
        return array("I", ids)


class HuggingFaceEncoder:
    """The Rust encoder of `tokenizers`, in its batch form: the other one holds the interpreter lock throughout."""

    name = "huggingface"

    def __init__(self, definition: str) -> None:
        """definition: a tokenizer.json."""
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_str(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        try:
            [encoding] = self._tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        except (UnicodeEncodeError, TypeError) as exc:
            raise CannotScore(Reason.UNENCODABLE) from exc
        ids: list[int] = encoding.ids
        return ids


class PythonEncoder:
    """A tokenizer without a Rust form (tiktoken or sentencepiece files), one call at a time."""

    name = "python"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        try:
            with self._lock:
                ids: list[int] = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except (UnicodeEncodeError, TypeError) as exc:
            raise CannotScore(Reason.UNENCODABLE) from exc
        return ids


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """An encoder and what else a model's tokenizer files say."""

    encoder: Encoder
    templates: str | Mapping[str, str] | None
    """the chat template, or several by name"""
    special_tokens: Mapping[str, object]
    """`bos_token` and the like, as templates see them"""
    added_tokens: Sequence[str]
    """what is cut out of a text before anything else"""
    definition: str | None
    """the tokenizer.json; None for one in Python"""

    def encode(self, text: str, add_special_tokens: bool = False) -> Sequence[int]:
        """Token ids in [0, 2**32). Raises CannotScore for text that has no UTF-8 form."""
        return self.encoder.encode(text, add_special_tokens)


def load_tokenizer(
    source: str | Path, *, revision: str | None = None, download: bool = False, trust_remote_code: bool = False
) -> Tokenizer:
    """The tokenizer of a model.

    source: a folder, or a name on the hub, which is looked up in the local cache unless `download`.
    Raises TokenizerError.
    """
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(
            str(source), revision=revision or "main", local_files_only=not download, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as exc:
        where = "here or on the hub" if download else "here or in the hub's local cache"
        raise TokenizerError(f"no tokenizer can be loaded from {str(source)!r} ({where}): {exc}") from exc
    backend = getattr(loaded, "backend_tokenizer", None)
    added = [str(token) for token in loaded.get_added_vocab()]
    definition: str | None = None
    if backend is None:
        encoder: Encoder = PythonEncoder(loaded)
    else:
        definition = str(backend.to_str())
        encoder = fastest_encoder(definition, added, str(source))
    return Tokenizer(
        encoder=encoder,
        templates=loaded.chat_template,
        special_tokens=dict(loaded.special_tokens_map),
        added_tokens=added,
        definition=definition,
    )


def fastest_encoder(definition: str, added_tokens: Sequence[str], name: str) -> Encoder:
    """fastokens if it encodes like Hugging Face, else that.

    definition: a tokenizer.json; name: what the log calls it.
    """
    reference = HuggingFaceEncoder(definition)
    try:
        fast = FastokensEncoder(definition)
    except Exception as exc:  # its loader raises whatever the Rust side came upon
        logger.warning("tokenizer %s: fastokens can't load it (%s); encoding with Hugging Face", name, exc)
        return reference
    for special in (False, True):
        texts = hostile_texts(random.Random(1), added_tokens, PROOF_TEXTS)
        different = first_difference(
            lambda text, special=special: fast.encode(text, special),  # type: ignore[misc]
            lambda text, special=special: reference.encode(text, special),  # type: ignore[misc]
            texts,
        )
        if different is not None:
            logger.warning(
                "tokenizer %s: fastokens differs on proof text %d; encoding with Hugging Face", name, different
            )
            return reference
    return fast
