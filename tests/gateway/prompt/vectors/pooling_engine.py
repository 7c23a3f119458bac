"""vLLM's own handling of embeddings, scores and the like up to the engine, without one: for `record.py`."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
from vllm.config import VllmConfig  # type: ignore[import-not-found]
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # type: ignore[import-not-found]
from vllm.entrypoints.openai.models.protocol import BaseModelPath  # type: ignore[import-not-found]
from vllm.entrypoints.openai.models.serving import OpenAIServingModels  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.classify.protocol import ClassificationRequest  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.classify.serving import ServingClassification  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.embed.protocol import EmbeddingRequest  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.embed.serving import ServingEmbedding  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.pooling.protocol import PoolingRequest  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.pooling.serving import ServingPooling  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.scoring.protocol import RerankRequest, ScoreRequest  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.scoring.serving import ServingScores  # type: ignore[import-not-found]
from vllm.exceptions import VLLMValidationError  # type: ignore[import-not-found]
from vllm.renderers import renderer_from_config  # type: ignore[import-not-found]
from vllm.renderers.chat_utils import ChatTemplateConfig, load_chat_template  # type: ignore[import-not-found]
from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]

REFUSALS = (ValidationError, VLLMValidationError, ValueError, NotImplementedError)
"""what the server answers with 4xx or 501"""


class PoolingEngine:
    """What a server of one pooling model makes of requests."""

    def __init__(self, task: str, arguments: Sequence[str]) -> None:
        """task: `embed` or `classify`. arguments: of vLLM's command line."""
        parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(
            [*arguments, "--runner", "pooling", "--convert", task]
        )
        args = AsyncEngineArgs.from_cli_args(parsed)
        model = args.create_model_config()
        config = VllmConfig(model_config=model)
        engine = SimpleNamespace(
            model_config=model, vllm_config=config, renderer=renderer_from_config(config), input_processor=None
        )
        models = OpenAIServingModels(engine, [BaseModelPath(name="m", model_path=parsed.model)])
        shared: dict[str, Any] = {
            "request_logger": None,
            "chat_template_config": ChatTemplateConfig(
                chat_template=load_chat_template(parsed.chat_template),
                chat_template_content_format=parsed.chat_template_content_format,
                trust_request_chat_template=parsed.trust_request_chat_template,
            ),
        }
        tasks: dict[str, Any] = {"supported_tasks": (task,)}
        scores = ServingScores(engine, models, **tasks, **shared)
        own = {"embed": ServingEmbedding, "classify": ServingClassification}[task](engine, models, **shared)
        self._handlers: dict[str, tuple[TypeAdapter[Any], Any]] = {
            "/pooling": (TypeAdapter(PoolingRequest), ServingPooling(engine, models, **tasks, **shared)),
            "/score": (TypeAdapter(ScoreRequest), scores),
            "/rerank": (TypeAdapter(RerankRequest), scores),
        }
        if task == "embed":
            self._handlers["/v1/embeddings"] = (TypeAdapter(EmbeddingRequest), own)
        else:
            self._handlers["/classify"] = (TypeAdapter(ClassificationRequest), own)

    async def token_ids(self, endpoint: str, body: Mapping[str, Any]) -> list[list[int]] | None:
        """The prompts of a request for `endpoint`; None if it is refused."""
        request, serving = self._handlers[endpoint]
        try:
            parsed = request.validate_python(dict(body))
            processor = serving.get_io_processor(parsed)
            context = await serving._init_ctx(processor, parsed)
            await serving._preprocessing(processor, context)
        except REFUSALS:
            return None
        return [list(one["prompts"]["prompt_token_ids"]) for one in context.engine_inputs]
