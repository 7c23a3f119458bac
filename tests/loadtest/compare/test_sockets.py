import sys
from pathlib import Path

import httpx
import pytest

from loadtest.bounds import infinite
from loadtest.compare.outcome import hit_ratio, max_over_mean
from loadtest.compare.plan import Fleet, slices
from loadtest.compare.routers import Kvgate, Running, Started, kvgate, peer
from loadtest.compare.sockets import play, replicas
from loadtest.processes import ChildFailed
from loadtest.replica.text import Text
from loadtest.replica.timing import PROFILES
from loadtest.traces.generate import Mix, generate

FLEET = Fleet(2, PROFILES["llama-8b-h100"])
TRACE = generate("multi-turn", Mix(requests=16, system=200, question=80, output=8, turns=4, pause=0.1), 1)
PROFILE = PROFILES["llama-8b-h100"]


async def test_routers_are_played_the_same_slice_and_what_they_leave_unanswered_is_told(
    text: Text, tmp_path: Path
) -> None:
    (made,) = slices([TRACE], FLEET, [0.5], 0.25)
    answered: list[None] = []
    (tmp_path / "health").touch()
    files = Started("files", f"{sys.executable} -m http.server --bind 127.0.0.1 --directory {tmp_path} {{port}}")
    async with replicas(FLEET) as urls:
        async with kvgate("kvaware", PROFILE).serving(urls) as url:
            outcome = await play(made, Running("other", url), urls, text, lambda: answered.append(None))
        silent = await play(made, files, urls, text, lambda: None)
    assert len(answered) == 16
    assert [one.number for one in outcome.asked] == [one.number for one in silent.asked] == list(range(4, 16))
    assert all(one.ttft is not None and one.ttft > 0 for one in outcome.asked)
    # Chat markup comes on top of the trace's tokens.
    assert 0.8 * infinite(made.trace.lookups(), 64, 4) < hit_ratio(outcome.asked) < 1
    assert 1 <= max_over_mean(outcome) <= 2
    assert all(one.ttft is None for one in silent.asked)


async def test_a_command_gets_the_replicas_as_words_of_their_own() -> None:
    shown = Started("shown", f"{sys.executable} -c 'import sys; sys.exit(str(sys.argv[1:]))' {{replicas}} {{commas}}")
    with pytest.raises(ChildFailed) as failed:
        async with shown.serving(["http://a", "http://b"]):
            pass
    assert "['http://a', 'http://b', 'http://a,http://b']" in failed.value.__notes__[0]


async def test_a_word_is_repeated_for_each_replica_with_the_place_of_its_events() -> None:
    shown = Started(
        "shown", f"{sys.executable} -c 'import sys; sys.exit(str(sys.argv[1:]))' --from={{replica}}={{events}}"
    )
    async with replicas(FLEET) as urls, httpx.AsyncClient() as client:
        sources = [(await client.get(f"{url}/kv_event_sources")).json()["0"]["endpoint"] for url in urls]
        with pytest.raises(ChildFailed) as failed:
            async with shown.serving(urls):
                pass
    words = [f"--from={url}={place}" for url, place in zip(urls, sources, strict=True)]
    assert str(words) in failed.value.__notes__[0]


LATE = """
import http.server, sys
lists = iter([b"[]", b"[]"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/v1/models":
            self.wfile.write(b'{"data": ' + next(lists, b'[{"id": "unknown"}]') + b"}")
        elif self.path == "/unasked":
            self.wfile.write(b"%d" % len(list(lists)))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


async def test_a_router_that_lists_no_model_yet_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    async with (
        Started("late", f"{sys.executable} {tmp_path / 'late.py'} {{port}}").serving([]) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"{url}/unasked")).text == "0"


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ChildFailed, match="no-such-router: No such file"):
        async with Started("absent", "no-such-router {port}").serving([]):
            pass


def test_peers_are_named_by_url_or_command() -> None:
    assert peer("one=http://127.0.0.1:1/") == Running("one", "http://127.0.0.1:1")
    assert peer("two=router --port {port}") == Started("two", "router --port {port}")
    assert kvgate("kv_aware", PROFILE, 2.0) == Kvgate("kv-aware", PROFILE, 2.0)
    for wrong in ("http//x", "=x", "name="):
        with pytest.raises(ValueError, match="NAME=URL or NAME=COMMAND"):
            peer(wrong)
