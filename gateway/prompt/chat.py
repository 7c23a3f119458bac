"""A chat request -> the text that the engine encodes."""

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from gateway.prompt import fields
from gateway.prompt.messages import Message, conversation, for_template_without_developer
from gateway.prompt.parts import MEDIA_MARK, has_media, marked
from gateway.prompt.result import CannotScore, EncodedPrompts, Reason
from gateway.prompt.settings import PromptSettings
from gateway.prompt.template import ChatTemplate, ContentFormat, refuses_inner_system
from gateway.prompt.tokenizer import Tokenizer
from gateway.prompt.tools import tool_definitions
from gateway.prompt.truncation import Truncation

_TOKENIZER_ARGUMENTS = frozenset(
    {
        *("conversation", "tokenize", "tokenizer", "model_config", "tools", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
        "sanitize_control_tokens",
    }
)
"""names in `chat_template_kwargs` that reach transformers' `apply_chat_template` as its own arguments"""


class ChatRenderer:
    """Renders chat requests with a model's templates. Thread-safe."""

    def __init__(
        self, tokenizer: Tokenizer, settings: PromptSettings, *, processor_template: str | None = None
    ) -> None:
        """processor_template: of a multimodal model's processor; goes before the tokenizer's where there are no tools.

        Raises jinja2.TemplateError if the template of the settings can't be compiled.
        """
        self._tokenizer = tokenizer
        self._settings = settings
        self._processor_template = processor_template
        self._compiled = functools.lru_cache(maxsize=32)(ChatTemplate)
        if settings.chat_template is not None:
            self._compiled(self._named(settings.chat_template))

    def with_tokenizer(self, tokenizer: Tokenizer) -> "ChatRenderer":
        """The same with another tokenizer of the same templates."""
        other = copy.copy(self)
        other._tokenizer = tokenizer
        return other

    def render(self, body: Mapping[str, Any], tools: Sequence[Any] | None) -> tuple[str, bool]:
        """The text that the request's prompt is encoded from, and whether it ends before an image, video or audio.

        body: a chat request, or what another kind of request was converted to.
        tools: as `tool_definitions` gives them.
        Raises CannotScore.
        """
        template = self._template(body, tools)
        form: ContentFormat = template.content_format
        if self._settings.content_format != "auto":
            form = self._settings.content_format
        messages: Sequence[Message] = conversation(body.get("messages"), form)
        if not template.knows_developer:
            messages = for_template_without_developer(messages)
        arguments = self._arguments(body)
        documents = arguments.pop("documents", None)
        add_generation_prompt = arguments.pop("add_generation_prompt")
        continue_final_message = arguments.pop("continue_final_message")

        def rendered(messages: Sequence[Message]) -> str:
            return template.render(
                messages,
                tools=tools,
                documents=documents,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                arguments=arguments,
            )

        text = rendered(messages)
        if not any(has_media(message["content"]) for message in messages):
            return text, False
        if continue_final_message:
            raise CannotScore(Reason.CONVERSION)
        other = rendered([message | {"content": marked(message["content"])} for message in messages])
        return self._certain(_common_start(text, other).partition(MEDIA_MARK)[0], text), True

    def encode(self, body: Mapping[str, Any], truncation: Truncation, salt: str | None) -> EncodedPrompts:
        """A chat request's token ids, up to the first image, video or audio. Raises CannotScore.

        body: as for `render`.
        """
        text, has_media = self.render(body, self.tools(body))
        add_special_tokens = fields.flag(body, "add_special_tokens", False)
        if has_media:
            ids = self._tokenizer.encode(text, add_special_tokens)
            return EncodedPrompts((ids,), salt, images_from=len(ids))
        return EncodedPrompts((truncation.encode(self._tokenizer, text, add_special_tokens),), salt)

    def tools(self, body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """The tools of a chat request as this model's templates get them. Raises CannotScore."""
        if self._settings.exclude_tools_when_choice_none and body.get("tool_choice") == "none":
            return None
        return tool_definitions(body.get("tools"))

    @functools.cached_property
    def system_first(self) -> bool:
        """Whether one of the templates wants the system message to be the first, or there is none."""
        no_tools: list[Any] = []
        sources = (self._source(None, None), self._source(None, no_tools))
        return any(source is None or refuses_inner_system(source) for source in sources)

    @functools.cached_property
    def effort_when_disabled(self) -> str:
        """The reasoning effort that vLLM asks templates for when an Anthropic client switches thinking off.

        It is `none`, but `low` where a template rejects that or takes it for one of the others.
        """
        if self._settings.disabled_thinking_effort != "auto":
            return self._settings.disabled_thinking_effort
        prompts = [self._probe(effort) for effort in ("none", "low", "medium", "high", "xhigh", "max")]
        return "low" if prompts[0] is None or prompts[0] in prompts[1:] else "none"

    def _certain(self, start: str, text: str) -> str:
        """As much of a text's start as is encoded in the same way whatever follows.

        That is all of it where an added token comes next, as placeholders of images mostly are; else it ends with the
        last added token.
        """
        if any(token.cuts and text.startswith(token.content, len(start)) for token in self._tokenizer.added_tokens):
            return start
        tokens = (token.content for token in self._tokenizer.added_tokens)
        return start[: max((start.rfind(token) + len(token) for token in tokens if token in start), default=0)]

    def _probe(self, effort: str) -> str | None:
        try:
            return self.render({"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort}, None)[0]
        except CannotScore:
            return None

    def _arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The template's variables besides messages and tools: request over server over tokenizer."""
        given = fields.mapping(body, "chat_template_kwargs")
        if not _TOKENIZER_ARGUMENTS.isdisjoint(given):
            raise CannotScore(Reason.TEMPLATE_ARGUMENTS)
        if given.get("chat_template") is not None:
            raise CannotScore(Reason.REFUSED)
        effort = fields.text(body, "reasoning_effort")
        asked: dict[str, Any] = {
            "add_generation_prompt": fields.flag(body, "add_generation_prompt", True),
            "continue_final_message": fields.flag(body, "continue_final_message", False),
            "documents": _documents(body),
            "reasoning_effort": effort,
        }
        if effort is not None and "enable_thinking" not in given:
            asked["enable_thinking"] = effort != "none"
        request = fields.override(given, asked)
        request.pop("chat_template", None)
        return {
            **self._tokenizer.special_tokens,
            **fields.override(self._settings.default_template_arguments, request),
        }

    def _template(self, body: Mapping[str, Any], tools: Sequence[Any] | None) -> ChatTemplate:
        asked = fields.text(body, "chat_template")
        if asked is not None and not self._settings.trust_request_template:
            raise CannotScore(Reason.REFUSED)
        source = self._source(asked, tools)
        if source is None:
            raise CannotScore(Reason.NO_TEMPLATE)
        try:
            return self._compiled(source)
        except jinja2.TemplateError as exc:
            raise CannotScore(Reason.REFUSED) from exc

    def _source(self, asked: str | None, tools: Sequence[Any] | None) -> str | None:
        """The text of the template: the request's, the server's, the processor's or the tokenizer's."""
        given = asked or self._settings.chat_template
        if given is not None:
            return self._named(given)
        if tools is None and self._processor_template is not None:
            return self._processor_template
        return self._own(tools)

    def _named(self, template: str) -> str:
        """A template's text, given that or its name among the tokenizer's."""
        templates = self._tokenizer.templates
        return templates.get(template, template) if isinstance(templates, Mapping) else template

    def _own(self, tools: Sequence[Any] | None) -> str | None:
        templates = self._tokenizer.templates
        if not isinstance(templates, Mapping):
            return templates
        if tools is not None and "tool_use" in templates:
            return templates["tool_use"]
        return templates.get("default")


def _common_start(one: str, other: str) -> str:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


def _documents(body: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    documents = body.get("documents")
    if documents is None:
        return None
    if not isinstance(documents, list):
        raise CannotScore(Reason.MALFORMED)
    for document in documents:
        if not isinstance(document, Mapping) or not all(isinstance(value, str) for value in document.values()):
            raise CannotScore(Reason.MALFORMED)
    return documents
