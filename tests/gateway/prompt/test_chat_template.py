from typing import Any

import pytest

from gateway.prompt.result import CannotScore, Reason
from gateway.prompt.template import ChatTemplate, refuses_inner_system

LOOP = "{% for message in messages %}BODY{% endfor %}"
PARTS = "{% for part in CONTENT %}{{ part.text }}{% endfor %}"


def over(content: str) -> str:
    return LOOP.replace("BODY", PARTS.replace("CONTENT", content))


def render(template: ChatTemplate, messages: list[dict[str, Any]]) -> str:
    return template.render(
        messages, tools=None, documents=None, add_generation_prompt=True, continue_final_message=False, arguments={}
    )


@pytest.mark.parametrize(
    ("why", "source", "expected"),
    [
        ("content as text", LOOP.replace("BODY", "{{ message.content }}"), "string"),
        ("item by key", over("message['content']"), "openai"),
        ("item by attribute", over("message.content"), "openai"),
        ("filtered content", over("message.content | reverse"), "openai"),
        ("part of the content", over("message.content[1:]"), "openai"),
        ("another field", over("message.parts"), "string"),
        ("content of something else", over("other.content"), "string"),
        ("some of the messages", over("message.content").replace("in messages", "in messages[1:]"), "openai"),
        (
            "messages under another name",
            "{% set turns = messages[1:] %}" + over("message.content").replace("in messages", "in turns"),
            "openai",
        ),
        (
            "a name that is chosen",
            "{% set turns = messages[1:] if x else messages %}"
            + over("message.content").replace("in messages", "in turns"),
            "string",
        ),
        (
            "content under its own name",
            LOOP.replace("BODY", "{% set content = message.content %}" + PARTS.replace("CONTENT", "content")),
            "openai",
        ),
        (
            "content under another name",
            LOOP.replace("BODY", "{% set c = message.content %}" + PARTS.replace("CONTENT", "c")),
            "string",
        ),
        ("two names at once", LOOP.replace("BODY", "{% for a, b in message.content %}{% endfor %}"), "string"),
        ("messages in pairs", "{% for a, b in messages %}{% endfor %}" + over("message.content"), "string"),
        (
            "messages into a namespace",
            "{% set ns = namespace() %}{% set ns.m = messages %}" + over("message.content"),
            "string",
        ),
        (
            "a macro that is given content",
            "{% macro show(c) %}"
            + PARTS.replace("CONTENT", "c")
            + "{% endmacro %}"
            + LOOP.replace("BODY", "{{ show(message.content) }}"),
            "openai",
        ),
        (
            "a macro that is given it by name",
            "{% macro show(a, c) %}"
            + PARTS.replace("CONTENT", "c")
            + "{% endmacro %}"
            + LOOP.replace("BODY", "{{ show(1, c=message.content) }}"),
            "openai",
        ),
        (
            "a macro that is given something else",
            "{% macro show(content) %}"
            + PARTS.replace("CONTENT", "content")
            + "{% endmacro %}"
            + LOOP.replace("BODY", "{{ show(message.role) }}"),
            "string",
        ),
        (
            "a macro that is given another parameter",
            "{% macro show(a, b) %}"
            + PARTS.replace("CONTENT", "a")
            + "{% endmacro %}"
            + LOOP.replace("BODY", "{{ show(1, message.content) }}"),
            "string",
        ),
    ],
)
def test_content_format(why: str, source: str, expected: str) -> None:
    assert ChatTemplate(source).content_format == expected, why


def rendered(source: str, content: str = "Hi", **arguments: object) -> str:
    return ChatTemplate(source).render(
        [{"role": "user", "content": content}],
        tools=None,
        documents=None,
        add_generation_prompt=True,
        continue_final_message=False,
        arguments=arguments,
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
        ("{{ [1, 2] | tojson(indent=1) }}", "[\n 1,\n 2\n]"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Hi"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ messages[0].missing is defined }}{{ messages[0].missing }}", "False"),
        ("{{ messages[0].get('role') }}{% for key in messages[0].keys() %} {{ key }}{% endfor %}", "user role content"),
        ("{% if tools is none and documents is none %}none{% endif %}", "none"),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_templates_have_what_transformers_gives_them(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no') }}",
        "{{ messages[0].content + 1 }}",
        "{{ 1 / 0 }}",
        "{{ missing.field }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    ],
)
def test_a_template_that_raises_refuses_the_request(source: str) -> None:
    with pytest.raises(CannotScore, match=Reason.REFUSED):
        rendered(source)


def test_a_variable_reaches_only_a_template_that_reads_it() -> None:
    assert rendered("{{ mood }}", mood="fine") == "fine"
    assert rendered("{{ messages[0].content }}", mood="fine") == "Hi"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False),
        (
            LOOP.replace(
                "BODY", "{% if message.role == 'system' and not loop.first %}{{ raise_exception('x') }}{% endif %}"
            ),
            True,
        ),
        ("{{ strftime_now('%Y') }}", True),
        ("{{ bos_token }}{{ tools | length }}", False),
        ("{% generation %}{% endgeneration %}", True),
    ],
)
def test_inner_system_messages(source: str, expected: bool) -> None:
    assert refuses_inner_system(source) is expected


def test_a_loop_tells_where_it_is() -> None:
    asked = "{{ loop.index0 }}{{ loop.index }}{{ loop.revindex0 }}{{ loop.revindex }}{{ loop.length }}"
    ends = "{{ 'first' if loop.first }}{{ 'last' if loop.last }}{{ loop.previtem is defined }}{{ loop.nothing }} "
    template = ChatTemplate(LOOP.replace("BODY", asked + ends))
    messages = [{"role": role, "content": ""} for role in ("system", "user", "assistant")]
    assert render(template, messages) == "01233firstFalse 12123True 23013lastTrue "
