"""What turns text into token ids: `fastokens`, Hugging Face's `tokenizers`, or a tokenizer in Python."""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

from gateway.prompt.result import CannotScore, Reason


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

    def __init__(self, tokenizer: Any) -> None:
        """tokenizer: a `tokenizers.Tokenizer`, from now on used by nobody else."""
        self._tokenizer = tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, text: str, add_special_tokens: bool) -> Sequence[int]:
        ids: list[int] = _only(self._tokenizer.encode_batch_fast, text, add_special_tokens).ids
        return ids

    def encode_parts(self, parts: Sequence[str]) -> Sequence[bytes]:
        """The ids of each part of a text, for parts between which no token reaches across, as an `array("I")` has them.

        Raises CannotScore for text that has no UTF-8 form.
        """
        encoding = _only(self._tokenizer.encode_batch, "".join(parts), False)
        ids = array("I", encoding.ids)
        starts = [start for start, _ in encoding.offsets]
        ends = [bisect_left(starts, end) * ids.itemsize for end in accumulate(map(len, parts))]
        packed = ids.tobytes()
        return [packed[start:end] for start, end in pairwise([0, *ends])]


def _only(encode_batch: Callable[..., Sequence[Any]], text: str, add_special_tokens: bool) -> Any:
    """What a batch of this one text gives. Raises CannotScore for text that has no UTF-8 form."""
    try:
        [encoding] = encode_batch([text], add_special_tokens=add_special_tokens)
    except (UnicodeEncodeError, TypeError) as exc:
        raise CannotScore(Reason.UNENCODABLE) from exc
    return encoding


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
