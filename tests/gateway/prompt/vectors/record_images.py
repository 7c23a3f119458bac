"""Records what vLLM makes of chats with images: `images.json`.

    python record_images.py            # in a virtual environment that has vLLM, and torchvision for its torch

The model is a small LLaVA without weights, 16 tokens to an image. Of each request: its body, with images named in
place of their data, its token ids, where the first image begins, and what a KV event tells of its blocks of 4 tokens,
without an adapter and with one; all by vLLM's own functions. To add one, add it to CASES.
"""

import asyncio
import base64
import importlib.metadata
import io
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from PIL import Image  # type: ignore[import-not-found]
from record import HERE, Engine, model_folder  # type: ignore[import-not-found]
from vllm.v1.core.kv_cache_utils import (  # type: ignore[import-not-found]
    generate_block_hash_extra_keys,
    to_event_extra_keys,
)

BLOCK_SIZE = 4
_SIDE = 56
CONFIG = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 420,
    "torch_dtype": "bfloat16",
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "text_config": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": 1024,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "max_position_embeddings": 4096,
    },
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "image_size": _SIDE,
        "patch_size": 14,
        "projection_dim": 32,
    },
}
PREPROCESSOR = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": _SIDE},
    "crop_size": {"height": _SIDE, "width": _SIDE},
}
PROCESSOR = {
    "processor_class": "LlavaProcessor",
    "patch_size": 14,
    "vision_feature_select_strategy": "default",
    "image_token": "<|image|>",
    "num_additional_image_tokens": 1,
}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(name: str, **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": name}, **more}


def _user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


_LONG = "You are a helpful assistant. What is the weather in Paris today?"
_SYSTEM = {"role": "system", "content": _LONG}
CASES: Mapping[str, Mapping[str, Any]] = {
    "an image behind text": {"messages": [_user(_text(_LONG), _image("red"), _text("Tell me."))]},
    "another image there": {"messages": [_user(_text(_LONG), _image("blue"), _text("Tell me."))]},
    "an image before text": {"messages": [_user(_image("red"), _text(_LONG))]},
    "two images": {"messages": [_user(_text(_LONG), _image("red"), _text("and"), _image("blue"), _text("?"))]},
    "the same image twice": {"messages": [_user(_image("red"), _text(_LONG), _image("red"))]},
    "an image in a later turn": {
        "messages": [_SYSTEM, _user(_text("Hi")), {"role": "assistant", "content": "Hi."}, _user(_image("red"))]
    },
    "turns after an image": {
        "messages": [_SYSTEM, _user(_image("blue")), {"role": "assistant", "content": "A sky."}, _user(_text("Why?"))]
    },
    "an image with a name of its own": {"messages": [_user(_text(_LONG), _image("red", uuid="picture-1"))]},
    "a salt": {"messages": [_user(_text(_LONG), _image("red"))], "cache_salt": "tenant"},
    "no generation prompt": {"messages": [_user(_text(_LONG), _image("red"))], "add_generation_prompt": False},
}


def _data(color: str) -> str:
    file = io.BytesIO()
    Image.new("RGB", (_SIDE, _SIDE), color).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _extra_keys(ids: list[int], features: Mapping[str, Any], salt: str | None, adapter: str | None) -> Any:
    """What events of this prompt carry, as JSON."""
    found = [
        SimpleNamespace(identifier=name, mm_position=SimpleNamespace(**place))
        for name, place in zip(features["mm_hashes"]["image"], features["mm_placeholders"]["image"], strict=True)
    ]
    lora = SimpleNamespace(lora_name=adapter, lora_path="/loras/l") if adapter else None
    request = SimpleNamespace(mm_features=found, lora_request=lora, cache_salt=salt, prompt_embeds=None)
    keys, next_image = [], 0
    for start in range(0, len(ids) - BLOCK_SIZE + 1, BLOCK_SIZE):
        key, next_image = generate_block_hash_extra_keys(request, start, start + BLOCK_SIZE, next_image)
        keys.append(key)
    return to_event_extra_keys(keys)


async def main() -> None:
    folder = model_folder(HERE / "tokenizer", CONFIG)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    (folder / "processor_config.json").write_text(json.dumps(PROCESSOR))
    settings = folder / "tokenizer_config.json"
    tokenizer = json.loads(settings.read_text())
    settings.write_text(json.dumps(tokenizer | {"extra_special_tokens": {"image_token": "<|image|>"}}))
    pictures = {color: _data(color) for color in ("red", "blue")}
    vectors = []
    engine = await Engine.start(folder, ("--chat-template", str(HERE / "templates" / "parts.jinja")))
    for why, body in CASES.items():
        sent = json.dumps({"model": "m", "mm_payload": "none", **body})
        for name, data in pictures.items():
            sent = sent.replace(f'"url": "{name}"', f'"url": "{data}"')
        status, answer = await engine.post("/v1/chat/completions/render", json.loads(sent))
        if status != 200:
            raise SystemExit(f"{why}: {status} {answer}")
        ids, features = answer["token_ids"], answer["features"]
        vectors.append(
            {
                "why": why,
                "body": body,
                "ids": ids,
                "image_at": features["mm_placeholders"]["image"][0]["offset"],
                "extra_keys": _extra_keys(ids, features, body.get("cache_salt"), None),
                "adapted_extra_keys": _extra_keys(ids, features, body.get("cache_salt"), "mylora"),
            }
        )
    content = {"engine": f"vLLM {importlib.metadata.version('vllm')}", "block_size": BLOCK_SIZE, "vectors": vectors}
    (HERE / "images.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
