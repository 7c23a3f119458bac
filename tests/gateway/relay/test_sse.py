"""A stream is looked at without being touched, or becomes what it would have been without our question."""

import json
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.relay.sse import FORMS, StreamTap
from gateway.relay.usage import Usage

HEAD = '{"id":"1","object":"chat.completion.chunk","model":"m","choices":['
WORD = f'data: {HEAD}{{"index":0,"delta":{{"content":"é"}},"finish_reason":null}}]}}\n\n'.encode()
FINISH = f'data: {HEAD}{{"index":0,"delta":{{"content":""}},"finish_reason":"stop"}}]}}\n\n'.encode()
STAMPED = FINISH.replace(b"]}\n\n", b'],"system_fingerprint":"vllm-0.32"}\n\n')
COUNTS = '{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}'
USAGE = f'data: {HEAD}],"usage":{COUNTS}}}\n\n'.encode()
STAMPED_USAGE = USAGE.replace(b"}\n\n", b',"system_fingerprint":"vllm-0.32"}\n\n')
DONE = b"data: [DONE]\n\n"

ASKED = WORD * 3 + FINISH + STAMPED_USAGE + DONE
UNASKED = WORD * 3 + STAMPED + DONE


def crlf(stream: bytes) -> bytes:
    return stream.replace(b"\n", b"\r\n")


def passed(tap: StreamTap, stream: bytes, sizes: list[int] | None = None) -> bytes:
    """What the client gets when the stream comes in reads of these sizes, the last for the rest."""
    out = []
    at = 0
    for size in [*(sizes or []), len(stream)]:
        read = stream[at : at + size]
        at += size
        if read:
            out.append(tap.feed(read))
    return b"".join([*out, tap.finish()])


splits = st.lists(st.integers(1, 40), max_size=60)


@given(sizes=splits)
def test_every_read_passes_at_once_and_what_it_says_is_noted(sizes: list[int]) -> None:
    tap = StreamTap()
    for at in range(0, len(ASKED), 7):
        assert tap.feed(ASKED[at : at + 7]) == ASKED[at : at + 7]
    assert tap.finish() == b""
    tap = StreamTap()
    assert passed(tap, ASKED, sizes) == ASKED
    assert (tap.usage, tap.done, tap.failed) == (Usage(9, 3, 4), True, False)


@given(sizes=splits)
def test_the_usage_event_is_hidden_wherever_reads_split_it(sizes: list[int]) -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, ASKED, sizes) == UNASKED
    assert (tap.usage, tap.done) == (Usage(9, 3, 4), True)


@pytest.mark.parametrize("hide", [False, True])
def test_a_stream_in_single_bytes(hide: bool) -> None:
    tap = StreamTap(hide_usage=hide)
    assert passed(tap, ASKED, [1] * len(ASKED)) == (UNASKED if hide else ASKED)
    assert (tap.usage, tap.done) == (Usage(9, 3, 4), True)


@given(sizes=splits)
def test_lines_may_end_in_crlf(sizes: list[int]) -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, crlf(ASKED), sizes) == crlf(UNASKED)
    assert (tap.usage, tap.done) == (Usage(9, 3, 4), True)


def test_whole_events_are_not_held_back_while_usage_is_hidden() -> None:
    tap = StreamTap(hide_usage=True)
    assert tap.feed(WORD) == WORD
    assert tap.feed(WORD + WORD[:10]) == WORD
    assert tap.feed(WORD[10:]) == WORD


def test_an_event_that_ends_a_choice_waits_for_the_next_one() -> None:
    tap = StreamTap(hide_usage=True)
    assert tap.feed(FINISH) == b""
    assert tap.feed(STAMPED_USAGE) == STAMPED
    assert tap.feed(DONE) == DONE


def test_of_several_choices_each_one_that_ends_is_passed_on() -> None:
    other = FINISH.replace(b'"index":0', b'"index":1')
    tap = StreamTap(hide_usage=True)
    assert tap.feed(FINISH) + tap.feed(WORD) + tap.feed(other) == FINISH + WORD
    stamped = STAMPED.replace(b'"index":0', b'"index":1')
    assert passed(tap, STAMPED_USAGE + DONE) == stamped + DONE


def test_without_a_fingerprint_nothing_is_added() -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, WORD + FINISH + USAGE + DONE) == WORD + FINISH + DONE


def test_a_fingerprint_that_is_there_already_stays_alone() -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, STAMPED + STAMPED_USAGE + DONE) == STAMPED + DONE


@pytest.mark.parametrize(
    ("why", "event", "usage"),
    [
        ("spaced", b'data: {"choices": [], "usage" : {"prompt_tokens" : 9, "completion_tokens": 3}}', (9, 3, None)),
        ("no space after the colon", b'data:{"choices":[],"usage":{"prompt_tokens":9}}', (9, 0, None)),
        ("no details", b'data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}', (9, 0, None)),
        ("several lines", b'event: x\ndata: {"choices":[],\ndata: "usage":{"prompt_tokens":9}}\nid: 7', (9, 0, None)),
        ("a comment in front", b': ping\ndata: {"choices":[],"usage":{"prompt_tokens":9}}', (9, 0, None)),
    ],
)  # fmt: skip
def test_usage_is_read_and_hidden_however_it_is_written(
    why: str, event: bytes, usage: tuple[int, int, int | None]
) -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, WORD + event + b"\n\n" + DONE) == WORD + DONE, why
    assert tap.usage == Usage(*usage), why


@pytest.mark.parametrize(
    ("why", "event"),
    [
        ("usage is null", WORD.replace(b"]}\n", b'],"usage":null}\n')),
        ("usage beside choices", WORD.replace(b"]}\n", b'],"usage":{"prompt_tokens":1}}\n')),
        ("usage in what the model says", WORD.replace("é".encode(), b'{\\"usage\\":{\\"prompt_tokens\\":1}}')),
        ("a comment", b": keep-alive\n\n"),
        ("an event of another kind", b"event: ping\ndata: {}\n\n"),
        ("not JSON", b'data: {"usage":{\n\n'),
        ("usage that is none", b'data: {"choices":[],"usage":{"prompt_tokens":"many"}}\n\n'),
        ("only blank lines", b"\n\n\n\n"),
    ],
)
def test_other_events_pass_untouched(why: str, event: bytes) -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, WORD + event + WORD + DONE) == WORD + event + WORD + DONE, why


def test_the_last_usage_of_many_counts() -> None:
    def counted(tokens: int) -> bytes:
        return WORD.replace(b"]}\n", b'],"usage":{"prompt_tokens":9,"completion_tokens":%d}}\n' % tokens)

    tap = StreamTap()
    passed(tap, counted(1) + counted(2) + WORD.replace(b"]}\n", b'],"usage":null}\n') + DONE)
    assert tap.usage == Usage(9, 2, None)


@pytest.mark.parametrize(
    ("why", "event", "failed"),
    [
        ("vLLM's", b'data: {"error": {"message": "x", "type": "InternalServerError", "code": 500}}\n\n', True),
        ("a named event", b'event: error\ndata: {"message":"x"}\n\n', True),
        ("a word of the model", WORD.replace("é".encode(), b'\\n\\ndata: {\\"error\\":1}'), False),
        ("a member deeper down", b'data: {"choices":[{"error":1}]}\n\n', False),
    ],
)
def test_an_error_inside_the_stream_is_noticed(why: str, event: bytes, failed: bool) -> None:
    tap = StreamTap()
    passed(tap, WORD + event + DONE)
    assert tap.failed is failed, why


def test_done_said_by_the_model_is_not_the_end() -> None:
    tap = StreamTap()
    passed(tap, WORD.replace("é".encode(), b"\\n\\ndata: [DONE]\\n\\n"))
    assert not tap.done


@given(sizes=splits)
def test_a_stream_of_responses_begins_behind_what_is_said_before_anything_is_computed(sizes: list[int]) -> None:
    early = b"".join(
        b'event: response.%b\ndata: {"type":"response.%b","response":{"usage":null}}\n\n' % (name, name)
        for name in (b"created", b"in_progress")
    )
    tap = StreamTap(FORMS["/v1/responses"])
    for start, end in pairwise([0, *accumulate(sizes), len(early)]):
        tap.feed(early[start:end])
        assert not tap.begun
    tap.feed(b'event: response.output_text.delta\ndata: {"delta":"\\nevent: response.completed\\n"}\n\n')
    assert (tap.begun, tap.done) == (True, False)
    last = b'event: response.completed\ndata: {"response":{"usage":{"input_tokens":9,"output_tokens":3}}}\n\n'
    passed(tap, last, sizes)
    assert (tap.done, tap.usage) == (True, Usage(9, 3, None))


@given(sizes=splits)
def test_a_stream_of_messages_says_in_its_own_way_that_it_is_done(sizes: list[int]) -> None:
    tap = StreamTap(FORMS["/v1/messages"])
    passed(tap, b'event: message_start\ndata: {"message":{"id":"event: message_stop"}}\n\n', sizes)
    assert (tap.begun, tap.done) == (True, False)
    passed(tap, b'event: message_stop\ndata: {"type":"message_stop"}\n\n', sizes)
    assert tap.done


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_stream_without_its_last_blank_line_is_passed_on(end: bytes) -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, WORD + b"data: [DONE]" + end) == WORD + b"data: [DONE]" + end
    assert tap.done


def test_a_stream_that_ends_with_its_usage_shows_nothing_of_it() -> None:
    tap = StreamTap(hide_usage=True)
    assert passed(tap, WORD + FINISH + USAGE.rstrip()) == WORD + FINISH
    assert tap.usage == Usage(9, 3, 4)


def test_after_a_break_the_client_is_between_two_events() -> None:
    shown = StreamTap()
    shown.feed(WORD + WORD[:20])
    assert shown.abandon() == b"\n\n"
    assert StreamTap().abandon() == b""
    hiding = StreamTap(hide_usage=True)
    assert hiding.feed(WORD + FINISH + USAGE[:20]) == WORD
    assert hiding.abandon() == FINISH


def test_an_endless_event_is_not_kept() -> None:
    tap = StreamTap(hide_usage=True)
    block = b"x" * 65536
    sent = b"data: " + block * 40
    out = [tap.feed(sent[at : at + 65536]) for at in range(0, len(sent), 65536)]
    assert sum(map(len, out)) >= len(sent) - 2**20
    assert b"".join([*out, tap.finish()]) == sent


texts = st.text(max_size=20)


@given(words=st.lists(texts, max_size=8), sizes=splits, line_end=st.sampled_from(["\n", "\r\n"]))
def test_hiding_takes_one_event_out_of_any_stream(words: list[str], sizes: list[int], line_end: str) -> None:
    def event(value: object) -> bytes:
        return f"data: {json.dumps(value)}{line_end * 2}".encode()

    chunks = [event({"choices": [{"index": 0, "delta": {"content": word}}]}) for word in words]
    usage = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(words)}})
    done = f"data: [DONE]{line_end * 2}".encode()
    tap = StreamTap(hide_usage=True)
    assert passed(tap, b"".join([*chunks, usage, done]), sizes) == b"".join([*chunks, done])
    assert tap.usage == Usage(7, len(words), None)


@pytest.mark.parametrize("sizes", [[], [1] * 150, [40, 70]])
def test_the_id_of_an_answer_is_told_once_and_with_the_event_that_has_it(sizes: list[int]) -> None:
    created = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1","usage":null}}\n\n'
    told: list[str] = []
    tap = StreamTap(on_id=told.append)
    assert passed(tap, b": ping\n\n" + created + created.replace(b"resp_1", b"resp_2"), sizes) != b""
    assert told == ["resp_1"]
