"""The prompt readers of the models that the fleet serves, loaded in the background."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial

from gateway.config import Config, ModelConfig
from gateway.prompt.reader import PromptReader, load
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import TokenizerError
from routing.fleet import Replica

logger = logging.getLogger(__name__)


class Library:
    """One reader for each base model. A model whose tokenizer can't be loaded has none, and is said so once."""

    def __init__(self, config: Config, executor: Executor, group: asyncio.TaskGroup) -> None:
        self._config = config
        self._executor = executor
        self._group = group
        self._readers: dict[str, PromptReader | None] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Load no more."""
        for task in self._loading.values():
            task.cancel()

    @property
    def loading(self) -> list[str]:
        """The models whose reader is not there yet and may still come."""
        return sorted(self._loading)

    def reader(self, replica: Replica) -> PromptReader | None:
        """The reader for what this replica serves; None where there is none or it is still being loaded."""
        return self._readers.get(replica.base.id)

    def want(self, replica: Replica) -> None:
        """Start to load the reader for what this replica serves, unless that was done before."""
        model = replica.base.id
        if model not in self._readers and model not in self._loading:
            self._loading[model] = self._group.create_task(self._load(replica))

    async def _load(self, replica: Replica) -> None:
        model = replica.base.id
        configured = self._configured(replica)
        source = configured.tokenizer or replica.base.root
        try:
            settings = _settings(configured, replica)
            read = partial(load, source, settings, download=self._config.tokenizer_download)
            reader = await asyncio.get_running_loop().run_in_executor(self._executor, read)
            logger.info("model %s: tokenizer of %s loaded", model, source)
            self._readers[model] = reader
        except TokenizerError as exc:
            logger.error("model %s: requests are routed without a prefix: %s", model, exc)
            self._readers[model] = None
        finally:
            del self._loading[model]

    def _configured(self, replica: Replica) -> ModelConfig:
        """What the configuration says under any of the replica's names."""
        models: Mapping[str, ModelConfig] = self._config.models
        return next((models[card.id] for card in replica.cards if card.id in models), ModelConfig())


def _settings(model: ModelConfig, replica: Replica) -> PromptSettings:
    """Raises TokenizerError for a template that can't be read."""
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
        max_model_len=replica.base.max_model_len,
    )
