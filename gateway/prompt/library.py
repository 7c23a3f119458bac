"""The prompt readers of the models that the fleet serves, loaded in the background."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from gateway.background import Background
from gateway.config import Config, ModelConfig
from gateway.prompt.reader import PromptReader, load
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import TokenizerError
from routing.fleet import Replica, Task

logger = logging.getLogger(__name__)


class _Served(NamedTuple):
    """What must be equal for two replicas to share a reader."""

    model: str
    root: str
    max_model_len: int | None
    task: Task | None


class Library:
    """One reader for each model. A model that can't be read here, or is read wrongly, has none and is said so once."""

    def __init__(self, config: Config, executor: Executor, background: Background) -> None:
        self._config = config
        self._executor = executor
        self._background = background
        self._readers: dict[_Served, PromptReader | None] = {}
        self._loading: dict[_Served, asyncio.Task[None]] = {}
        self._distrusted: dict[str, str] = {}

    def close(self) -> None:
        """Load no more."""
        for task in self._loading.values():
            task.cancel()
        self._loading.clear()

    def reload(self, config: Config, members: Iterable[Replica]) -> None:
        """Take in changed settings; where they change how prompts are read, the readers are loaded again."""
        changed = _reading(config) != _reading(self._config)
        self._config = config
        if changed:
            self.close()
            self._readers.clear()
            self._distrusted.clear()
            for replica in members:
                self.want(replica)

    @property
    def loading(self) -> list[str]:
        """The models whose reader is not there yet and may still come."""
        return sorted(served.model for served in self._loading)

    @property
    def distrusted(self) -> Mapping[str, str]:
        """The models whose reader was found to be wrong, with what was found."""
        return self._distrusted

    def reader(self, replica: Replica) -> PromptReader | None:
        """The reader for what this replica serves; None where there is none, none yet, or one not to be trusted."""
        served = _served(replica)
        return None if served.model in self._distrusted else self._readers.get(served)

    def untested_reader(self, replica: Replica) -> PromptReader | None:
        """The reader, be it trusted or not."""
        return self._readers.get(_served(replica))

    def distrust(self, model: str, found: str) -> None:
        """The reader of this base model gives other tokens than the engine has."""
        if self._distrusted.get(model) != found:
            logger.error("model %s: prompts are not read here any more but by the replicas: %s", model, found)
            self._distrusted[model] = found

    def trust(self, model: str) -> None:
        """The reader of this base model gives what the engine has."""
        if self._distrusted.pop(model, None):
            logger.info("model %s: prompts are read here again", model)

    def want(self, replica: Replica) -> None:
        """Start to load the reader for what this replica serves, unless that was done before."""
        served = _served(replica)
        if served not in self._readers and served not in self._loading:
            step = self._load(served, configured(self._config, replica))
            self._loading[served] = self._background.once("tokenizer", step)

    async def _load(self, served: _Served, model: ModelConfig) -> None:
        source = model.tokenizer or served.root
        try:
            read = partial(
                load,
                source,
                read_settings(model, served.max_model_len, served.task),
                download=self._config.tokenizer_download,
            )
            self._readers[served] = await asyncio.get_running_loop().run_in_executor(self._executor, read)
            logger.info("model %s: tokenizer of %s loaded", served.model, source)
        except TokenizerError as exc:
            logger.error("model %s: prompts are read by the replicas, if at all: %s", served.model, exc)
            self._readers[served] = None
        finally:
            if self._loading.get(served) is asyncio.current_task():
                del self._loading[served]


def _reading(config: Config) -> Mapping[str, ModelConfig]:
    """What of the settings matters here."""
    return {name: model.model_copy(update={"policy": None, "pools": ()}) for name, model in config.models.items()}


def configured(config: Config, replica: Replica) -> ModelConfig:
    """What the configuration says under any of a replica's names."""
    models: Mapping[str, ModelConfig] = config.models
    return next((models[card.id] for card in replica.cards if card.id in models), ModelConfig())


def _served(replica: Replica) -> _Served:
    base = replica.base
    return _Served(base.id, base.root, base.max_model_len, replica.task)


def read_settings(model: ModelConfig, max_model_len: int | None, task: Task | None) -> PromptSettings:
    """How a model is served, by its configuration. max_model_len (in tokens) and task: as a replica says.

    Raises TokenizerError for a template that can't be read.
    """
    try:
        template = model.chat_template.read_text() if model.chat_template else None
    except OSError as exc:
        raise TokenizerError(f"the chat template {model.chat_template} can't be read: {exc.strerror}") from exc
    return PromptSettings(
        chat_template=template,
        content_format=model.chat_template_content_format,
        default_template_arguments=model.default_chat_template_kwargs,
        trust_request_template=model.trust_request_chat_template,
        exclude_tools_when_choice_none=model.exclude_tools_when_tool_choice_none,
        disabled_thinking_effort=model.anthropic_disabled_thinking_effort,
        use_sep_token=model.use_sep_token,
        task=task,
        max_model_len=max_model_len,
    )
