"""What a model's files say about its prompts besides the tokenizer: whether vLLM renders them by code of its own."""

import json
from pathlib import Path
from typing import Any

from gateway.prompt.tokenizer import TokenizerError

_OWN_RENDERERS = {
    "GptOssForCausalLM": "Harmony",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV4ForConditionalGeneration": "deepseek_v4",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "MoonshotKimiaForCausalLM": "kimi_audio",
    "InklingForCausalLM": "inkling",
    "InklingForConditionalGeneration": "inkling",
}
"""architecture -> the name of vLLM's code that renders it without a chat template"""


class NotReproducible(TokenizerError):
    """The engine renders this model's prompts by code of its own: only a replica can tell its tokens."""


def refuse_own_renderer(source: str | Path, revision: str | None = None) -> None:
    """Raises NotReproducible for a model whose prompts are not made by a chat template."""
    config = _read_json(source, "config.json", revision)
    for architecture in config.get("architectures") or ():
        if architecture in _OWN_RENDERERS:
            raise NotReproducible(
                f"{source}: vLLM renders {architecture} by its own code, {_OWN_RENDERERS[architecture]}"
            )
    # vLLM takes Mistral's own tokenizer where the files are in Mistral's own format.
    if _model_file(source, "tekken.json", revision) and config.get("model_type", "").startswith(("mistral", "pixtral")):
        raise NotReproducible(f"{source}: vLLM uses Mistral's own tokenizer")


def separates_pairs(source: str | Path, revision: str | None = None) -> bool | None:
    """Whether vLLM puts two texts that a model scores together into one prompt as the tokenizer makes pairs, with its
    special tokens, or simply joins them; None where the model puts them together by code of its own.
    """
    config = _read_json(source, "config.json", revision)
    if any("JinaVL" in architecture for architecture in config.get("architectures") or ()):
        return None
    if isinstance(separated := config.get("use_sep_token"), bool):
        return separated
    # Language models that are turned into classifiers when they are loaded.
    return not any(config.get(name) for name in ("classifier_from_token", "method", "is_original_qwen3_reranker"))


def processor_template(source: str | Path, revision: str | None = None) -> str | None:
    """The chat template of a multimodal model's processor, where it has one apart from the tokenizer's."""
    if not any(_model_file(source, f"{name}_config.json", revision) for name in ("processor", "preprocessor")):
        return None
    template = _read_json(source, "chat_template.json", revision).get("chat_template")
    return template if isinstance(template, str) else None


def _read_json(source: str | Path, name: str, revision: str | None) -> dict[str, Any]:
    path = _model_file(source, name, revision)
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as exc:
        raise TokenizerError(f"{path} can't be read: {exc}") from exc
    return content if isinstance(content, dict) else {}


def _model_file(source: str | Path, name: str, revision: str | None) -> Path | None:
    """One of the model's files, in its folder or in the hub's local cache."""
    if Path(source).is_dir():
        path = Path(source) / name
        return path if path.is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(str(source), name, revision=revision)
    except HFValidationError:
        return None  # the path of a folder that is not on this machine
    return Path(found) if isinstance(found, str) else None
