import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.prompt.reader import PromptReader
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer, load_tokenizer
from routing.fleet import Task

VECTORS = Path(__file__).parent / "vectors"


def template_text(name: str) -> str:
    return (VECTORS / "templates" / f"{name}.jinja").read_text()


@pytest.fixture(scope="session")
def small_tokenizer() -> Tokenizer:
    """Byte-level BPE of 606 tokens, with ChatML's special tokens, a BOS, and no template."""
    return load_tokenizer(VECTORS / "tokenizer")


@pytest.fixture(scope="session")
def recorded_readers(small_tokenizer: Tokenizer) -> Mapping[str, PromptReader]:
    """A reader for each server that vectors were recorded from, set up as it was."""
    readers = {}
    for name, server in json.loads((VECTORS / "servers.json").read_text()).items():
        settings = dict(server.get("settings", {}))
        if "task" in settings:
            settings["task"] = Task(settings["task"])
        prompts = PromptSettings(
            chat_template=template_text(server["template"]) if "template" in server else None,
            max_model_len=4096,
            **settings,
        )
        named = {name: template_text(file) for name, file in server.get("templates", {}).items()}
        readers[name] = PromptReader(replace(small_tokenizer, templates=named or None), prompts)
    return readers


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], list[Mapping[str, Any]]]:
    """What the engine made of recorded requests: objects with why, endpoint, server, body, ids (null where refused)."""

    def read(name: str) -> list[Mapping[str, Any]]:
        with (VECTORS / f"{name}.jsonl").open() as lines:
            return [json.loads(line) for line in lines][1:]

    return read
