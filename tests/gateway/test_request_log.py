import io
import json

from endings import candidate, decision, ended
from gateway_here import until

from gateway.log_line import LogLines
from gateway.relay.usage import Usage
from gateway.request_log import RequestLog

FIELDS = {
    "time", "level", "logger", "id", "model", "tenant", "path", "replica", "engine", "policy", "outcome", "status",
    "prompt", "completion", "cached", "predicted", "overhead", "ttft", "itl", "duration", "reason",
}  # fmt: skip


async def written(form: str) -> str:
    stream = io.BytesIO()
    log = RequestLog(stream, form)
    lines = LogLines([log.write])
    chosen = decision(candidate("one", l0=64), predicted=48)
    lines.ended(ended(id="r1", body=b'{"prompt": "secret"}', chosen=chosen, usage=Usage(100, 7, 48), tenant="team-a"))
    lines.ended(ended(id="r2", status=500, how="engine_error", ttft=None))
    assert not stream.getvalue()  # held, to be written together
    log.flush()
    return stream.getvalue().decode()


async def test_a_request_is_one_line_of_json_with_all_that_is_known_and_no_text() -> None:
    text = await written("json")
    first, second = map(json.loads, text.splitlines())
    assert set(first) == set(second) == FIELDS
    told = {
        "id": "r1",
        "tenant": "team-a",
        "replica": "one",
        "policy": "kv-aware",
        "outcome": "complete",
        "status": 200,
    }
    counted = {"prompt": 100, "completion": 7, "cached": 48, "predicted": 48, "ttft": 0.1, "duration": 0.5}
    assert first.items() >= {**told, **counted, "logger": "kvgate.request", "level": "INFO"}.items()
    assert (second["outcome"], second["ttft"], second["prompt"]) == ("engine_error", None, None)
    assert "secret" not in text


async def test_the_line_for_people_has_the_same() -> None:
    line = (await written("text")).splitlines()[0]
    assert all(f" {field}=" in line for field in FIELDS - {"time", "level", "logger"})
    assert "INFO kvgate.request id=r1 " in line


async def test_a_line_is_written_without_being_asked_for() -> None:
    stream = io.BytesIO()
    LogLines([RequestLog(stream, "json").write]).ended(ended(id="a"))
    await until(stream.getvalue, "it is written")


async def test_a_request_that_no_replica_answered_has_its_line_too() -> None:
    stream = io.BytesIO()
    log = RequestLog(stream, "json")
    log.takers = [log.write]
    log.unanswered("r1", "m", "team-a", "/v1/chat/completions", "refused", 429, 0.25, "tokens")
    log.flush()
    line = json.loads(stream.getvalue())
    assert set(line) == FIELDS
    told = {"id": "r1", "model": "m", "tenant": "team-a", "outcome": "refused", "status": 429, "reason": "tokens"}
    assert line.items() >= {**told, "logger": "kvgate.request", "duration": 0.25, "replica": "", "ttft": None}.items()
