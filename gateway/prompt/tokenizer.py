"""A model's tokenizer files, loaded by `transformers`: an encoder proven on this tokenizer, and what templates need."""

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.prompt.cuts import AddedToken, spaces_between_words
from gateway.prompt.encoders import Encoder, FastokensEncoder, HuggingFaceEncoder, PythonEncoder
from gateway.prompt.incremental import proven_incremental
from gateway.prompt.pairs import PairFrame, pair_frame
from gateway.prompt.proof import first_difference, hostile_texts

logger = logging.getLogger(__name__)

CACHE_BYTES = 64 << 20
PROOF_TEXTS = 400


class TokenizerError(Exception):
    """A tokenizer can't be loaded. The message names it and says why."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """An encoder and what else a model's tokenizer files say."""

    encoder: Encoder
    templates: str | Mapping[str, str] | None
    """the chat template, or several by name"""
    special_tokens: Mapping[str, object]
    """`bos_token` and the like, as templates see them"""
    added_tokens: Sequence[AddedToken]
    pair_frame: PairFrame | None = None
    """what stands around two texts in one prompt; None where that is not so simple"""

    def encode(self, text: str, add_special_tokens: bool = False) -> Sequence[int]:
        """Token ids in [0, 2**32). Raises CannotScore for text that has no UTF-8 form."""
        return self.encoder.encode(text, add_special_tokens)


def load_tokenizer(
    source: str | Path,
    *,
    revision: str | None = None,
    download: bool = False,
    trust_remote_code: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> Tokenizer:
    """The tokenizer of a model.

    source: a folder, or a name on the hub, which is looked up in the local cache unless `download`.
    cache_bytes: what may be spent on remembering pieces of prompts.
    Takes seconds for a large vocabulary. Raises TokenizerError.
    """
    try:
        if not download and not _at_hand(source):
            raise FileNotFoundError("there is nothing of that name")
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(
            str(source), revision=revision or "main", local_files_only=not download, trust_remote_code=trust_remote_code
        )
    except Exception as exc:  # the Rust side raises just that for a file that it can't read
        where = "here or on the hub" if download else "here or in the hub's local cache"
        raise TokenizerError(f"no tokenizer can be loaded from {str(source)!r} ({where}): {exc}") from exc
    added = [
        AddedToken(token.content, normalized=token.normalized, lstrip=token.lstrip, single_word=token.single_word)
        for token in loaded.added_tokens_decoder.values()
    ]
    frame = pair_frame(loaded)
    return Tokenizer(
        encoder=best_encoder(loaded, added, name=str(source), cache_bytes=cache_bytes),
        templates=loaded.chat_template,
        special_tokens=dict(loaded.special_tokens_map),
        added_tokens=added,
        pair_frame=frame,
    )


def _at_hand(source: str | Path) -> bool:
    """Whether there is anything to load: to import transformers only to hear that there is not takes seconds."""
    if Path(source).exists():
        return True
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.file_download import repo_folder_name

    try:
        return Path(HF_HUB_CACHE, repo_folder_name(repo_id=str(source), repo_type="model")).is_dir()
    except HFValidationError:
        return False  # the path of a folder that is not on this machine


def best_encoder(loaded: Any, added_tokens: Sequence[AddedToken], *, name: str, cache_bytes: int) -> Encoder:
    """The fastest encoder that gives the ids that transformers gives.

    loaded: a tokenizer of transformers; nobody may use it afterwards. name: what the log calls it.
    """
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        return PythonEncoder(loaded)
    encoder = _fastest(backend, added_tokens, name)
    spaces = spaces_between_words(backend.get_vocab(False)) if type(backend.model).__name__ == "BPE" else ""
    incremental = proven_incremental(encoder, added_tokens, spaces=spaces, max_bytes=cache_bytes)
    if incremental is None:
        logger.warning("tokenizer %s: prompts can't be encoded piece by piece, each is encoded whole", name)
        return encoder
    return incremental


def _fastest(backend: Any, added_tokens: Sequence[AddedToken], name: str) -> Encoder:
    """fastokens if it encodes like Hugging Face, else that."""
    reference = HuggingFaceEncoder(backend)
    try:
        fast = FastokensEncoder(backend.to_str())
    except Exception as exc:  # its loader raises whatever the Rust side came upon
        logger.warning("tokenizer %s: fastokens can't load it (%s); encoding with Hugging Face", name, exc)
        return reference
    for special in (False, True):
        texts = hostile_texts(random.Random(1), [token.content for token in added_tokens], PROOF_TEXTS)
        different = first_difference(fast, reference, texts, add_special_tokens=special)
        if different is not None:
            logger.warning(
                "tokenizer %s: fastokens differs on proof text %d; encoding with Hugging Face", name, different
            )
            return reference
    return fast
