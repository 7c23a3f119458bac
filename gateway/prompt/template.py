"""A chat template: compiled once, and what vLLM reads off its source to decide how a conversation is put to it."""

import json
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any, Literal

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from gateway.prompt.content_format import loops_over_content
from gateway.prompt.result import CannotScore, Reason

ContentFormat = Literal["string", "openai"]

_TEMPLATE_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""what a template's expressions may raise besides Jinja's own errors"""
_CONTINUE_HERE = "CONTINUE_FINAL_MESSAGE_TAG "


class ChatTemplate:
    """Renders conversations as transformers' `apply_chat_template` does for vLLM. Thread-safe.

    `transformers` itself isn't called, because what it does around the template differs between its versions (newer
    ones drop null fields and copy reasoning under other names), and the engine's version is not ours.
    """

    def __init__(self, source: str) -> None:
        """Raises jinja2.TemplateError for source that is no template."""
        environment = _environment()
        syntax = environment.parse(source)
        self._template = environment.from_string(source)
        self._source = source
        self._variables = jinja2.meta.find_undeclared_variables(syntax)
        self.content_format: ContentFormat = "openai" if loops_over_content(syntax) else "string"
        """whether messages' contents are handed over as text or as lists of parts"""
        self.knows_developer = '"developer"' in source or "'developer'" in source
        """whether the role `developer` means something to it"""

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Sequence[Any] | None,
        documents: Sequence[Any] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        arguments: Mapping[str, Any],
    ) -> str:
        """The prompt's text.

        messages: not changed.
        arguments: further variables; those that the template never reads are left out, as the engine does.
        Raises CannotScore where the template or its caller would refuse, which the engine answers with 400.
        """
        if not messages or (continue_final_message and add_generation_prompt):
            raise CannotScore(Reason.REFUSED)
        ending = None
        if continue_final_message:
            messages, ending = self._left_open(messages)
        try:
            text = self._template.render(
                {name: value for name, value in arguments.items() if name in self._variables},
                messages=messages,
                tools=tools,
                documents=documents,
                add_generation_prompt=add_generation_prompt,
            )
        except (jinja2.TemplateError, *_TEMPLATE_FAULTS) as exc:
            raise CannotScore(Reason.REFUSED) from exc
        return text if ending is None else _cut_after(text, ending)

    def _left_open(self, messages: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], str]:
        """The conversation with a mark behind the last message's text, and that text."""
        last = dict(messages[-1])
        content = last.get("content")
        if content is None or "content" not in self._source:
            raise CannotScore(Reason.REFUSED)
        if isinstance(content, str):
            last["content"] = content + _CONTINUE_HERE
            return [*messages[:-1], last], content
        parts = [dict(part) for part in content]
        for part in reversed(parts):
            if "text" in part:
                text = str(part["text"])
                part["text"] = text + _CONTINUE_HERE
                last["content"] = parts
                return [*messages[:-1], last], text
        raise CannotScore(Reason.REFUSED)


def _cut_after(rendered: str, ending: str) -> str:
    """Drop the mark and what follows it."""
    mark = _CONTINUE_HERE.strip()
    if ending.strip() not in rendered or mark not in rendered:
        raise CannotScore(Reason.REFUSED)
    at = rendered.rindex(mark)
    if rendered.startswith(_CONTINUE_HERE, at):
        return rendered[:at]
    # The template trimmed the message, mark and all, so the space before the mark would not be there without it.
    return rendered[:at].rstrip()


def refuses_inner_system(source: str) -> bool:
    """Whether the template rejects a system message between other turns, as vLLM finds out for Anthropic requests.

    It tries it without the functions and variables that templates are otherwise given, so that a template which needs
    one of them counts as one that refuses.
    """
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    turns = [{"role": role, "content": "t"} for role in ("system", "user", "system", "user")]
    try:
        environment.from_string(source).render(messages=turns, add_generation_prompt=False)
    except (jinja2.TemplateError, *_TEMPLATE_FAULTS):
        return True
    return False


def _environment() -> jinja2.Environment:
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


_DICT_ATTRIBUTES = frozenset(dir(dict))
_LOOP_ATTRIBUTES = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox, without the exception that it raises and catches for each `message.role`, and without its search
    of each `loop.index` for what could be unsafe.
    """

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        # They are copied at each rendering, which takes long of Jinja's own ChainMap.
        return self.globals | dict(d or {})

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if type(obj) is jinja2.runtime.LoopContext and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what the assistant wrote, for training; here its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012 -- jinja2 declares it as an instance's attribute

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Any) -> str:
        return str(caller())


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own filter would escape HTML and sort the keys.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
