import codecs

import pytest

from gateway.api.parse import document, in_utf8, parse
from gateway.errors import BadRequest


def test_the_few_fields_are_read() -> None:
    body = parse(b'{"model":"m","stream":true,"x":[1]}')
    assert (body.model, body.streams, body.lacks_usage) == ("m", True, True)


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        (b'{"stream":true,"stream_options":{"include_usage":true}}', False),
        (b'{"stream":true,"stream_options":{"include_usage":false}}', True),
        (b'{"stream":true,"stream_options":null}', True),
        (b'{"stream":true,"stream_options":[]}', False),
        (b'{"stream":true,"stream_options":{"include_usage":"on"}}', False),
        (b'{"stream":true,"stream_options":{"include_usage":"perhaps"}}', False),
        (b'{"stream":"TRUE","stream_options":{"include_usage":0}}', True),
        (b'{"stream":1}', True),
        (b'{"stream":"no"}', False),
        (b'{"stream":2}', False),
        (b'{"stream":false}', False),
        (b"{}", False),
    ],
)
def test_only_a_stream_that_does_not_report_usage_lacks_it(body: bytes, lacks: bool) -> None:
    assert parse(body).lacks_usage is lacks


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"model": "m",\n "messages": [}', "Expecting value at line 2 column 15 (char 29)"),
        (b"", "Expecting value at line 1 column 1 (char 0)"),
        (b"[1]", "must be a JSON object"),
        (b'{"a":"\xff"}', "not valid UTF-8: invalid start byte at byte 6"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' + b"9" * 5000 + b"}", "too many digits"),
    ],
)
def test_malformed_json_is_refused_with_the_position(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        document(body)
    assert message in refused.value.message


def test_a_model_that_is_no_string_is_refused_by_name() -> None:
    with pytest.raises(BadRequest) as refused:
        parse(b'{"model":5}')
    assert refused.value.param == "model"


def test_what_engines_take_beyond_json_is_taken() -> None:
    assert parse(b'{"model":"m","temperature":NaN}').model == "m"
    assert document(b'{"a":"\\ud800"}') == {"a": "\ud800"}


def test_the_last_of_two_equal_keys_counts_as_it_does_for_the_engine() -> None:
    assert parse(b'{"model":"a","model":"b"}').model == "b"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_body_is_the_same_text_in_whatever_encoding_engines_take(encoding: str) -> None:
    text = '{"model":"Müller","x":"\ud800"}'
    assert in_utf8(text.encode(encoding, "surrogatepass")) == text.encode("utf-8", "surrogatepass")


def test_a_body_that_is_in_no_encoding_is_refused_as_it_came() -> None:
    half = codecs.BOM_UTF16_LE + b"{"
    assert in_utf8(half) == half
    with pytest.raises(BadRequest):
        parse(half)
