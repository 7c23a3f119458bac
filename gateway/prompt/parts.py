"""The parts of one message's content: text of several kinds, and media, which end what can be predicted."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.template import ContentFormat

MEDIA_MARK = "\U000ffffd"
"""Stands where an image, video or audio comes: what is rendered before the first one is known, the rest isn't."""

_TEXT_FIELDS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
    "tool_reference": "name",
}
"""kind of part -> the field that holds its text"""
_MODALITIES: Mapping[str, str] = {
    **dict.fromkeys(("image_url", "input_image", "image_pil", "image_embeds"), "image"),
    **dict.fromkeys(("audio_url", "input_audio", "audio_embeds"), "audio"),
    **dict.fromkeys(("video_url", "video_embeds"), "video"),
}
_KNOWN_FIELDS = frozenset(
    {
        *("type", "text", "refusal", "thinking", "closed", "name", "data", "file", "uuid", "prompt_cache_breakpoint"),
        *(
            "image_url",
            "image_pil",
            "image_embeds",
            "input_audio",
            "audio_url",
            "audio_embeds",
            "video_url",
            "video_embeds",
        ),
    }
)
"""fields that vLLM knows of some part; a text part hands over to the template only those that it doesn't know"""

BILLING_HEADER = "x-anthropic-billing-header"


def parse_parts(parts: Iterable[object], form: ContentFormat) -> Any:
    """One message's content as the template gets it.

    Returns, where form is "string", the texts that are not empty, a line each, behind MEDIA_MARK if there are media,
    because vLLM puts their placeholders in front; else a list of objects with a `type`.
    Raises CannotScore for parts that the engine refuses.
    """
    parsed = [_part(part) for part in _present(parts)]
    if form == "openai":
        return parsed
    texts = [
        part["name"] if part["type"] == "tool_reference" else part["text"] for part in parsed if not _is_media(part)
    ]
    front = [MEDIA_MARK] if len(texts) < len(parsed) else []
    return "\n".join([*front, *filter(None, texts)])


def has_media(content: object) -> bool:
    """Whether parsed content holds an image, video or audio."""
    if isinstance(content, list):
        return any(_is_media(part) for part in content)
    return isinstance(content, str) and MEDIA_MARK in content


def marked(content: object) -> object:
    """Parsed content with MEDIA_MARK as text in place of every image, video and audio."""
    if not isinstance(content, list):
        return content
    return [{"type": "text", "text": MEDIA_MARK} if _is_media(part) else part for part in content]


def without_billing_header(parts: Iterable[object]) -> Iterator[object]:
    """System text without the line that Claude Code puts first: it changes with each request and would end a match."""
    for part in parts:
        is_text = isinstance(part, Mapping) and part.get("type") == "text"
        text = part.get("text") if isinstance(part, Mapping) and is_text else part
        if not isinstance(text, str) or not text.startswith(BILLING_HEADER):
            yield part
        elif rest := text.partition("\n")[2]:
            yield {**part, "text": rest} if isinstance(part, Mapping) else rest


def _present(parts: Iterable[object]) -> Iterator[object]:
    """Without text and refusals that are null, which the engine skips."""
    for part in parts:
        if isinstance(part, Mapping):
            kind = part.get("type")
            if kind in ("text", "refusal") and part.get(kind) is None:
                continue
        yield part


def _is_media(part: Mapping[str, Any]) -> bool:
    return part["type"] in ("image", "audio", "video")


def _part(part: object) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise CannotScore(Reason.MALFORMED)
    kind = _kind(part)
    if kind in _MODALITIES:
        return {"type": _MODALITIES[kind], **_unknown_fields(part)}
    text = part.get(_TEXT_FIELDS[kind])
    if not isinstance(text, str):
        raise CannotScore(Reason.MALFORMED)
    if kind == "tool_reference":
        return {"type": kind, "name": text}
    return {"type": "text", "text": text, **_unknown_fields(part)}


def _kind(part: Mapping[str, Any]) -> str:
    """The part's type, a key of _TEXT_FIELDS or _MODALITIES."""
    kind = part.get("type")
    if kind == "prompt_embeds" or (kind is None and "prompt_embeds" in part):
        raise CannotScore(Reason.PROMPT_EMBEDS)
    if kind is None or part.get("uuid") is not None:
        # Media may come by their field alone, and always do where a `uuid` names them.
        kind = next((name for name in _MODALITIES if name in part), None)
    if not isinstance(kind, str) or (kind not in _TEXT_FIELDS and kind not in _MODALITIES):
        raise CannotScore(Reason.REFUSED)
    return kind


def _unknown_fields(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in _KNOWN_FIELDS}
