"""What is written down of requests, and what is not."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endings import candidate, decision, ended
from prometheus_client import CollectorRegistry

from gateway.config import TrafficLogConfig
from gateway.relay.record import Ended
from gateway.relay.usage import Usage
from gateway.traffic_log import PENDING, TrafficLog
from loadtest.traces import traffic
from routing.blocks import block_hashes, root_hash
from routing.decision import Prompt
from routing.types import Namespace

SPACE = Namespace("m", 4)


def asked(*tokens: int) -> Ended:
    """A request whose prompt has these tokens."""
    blocks = block_hashes(tokens, 4, root_hash(b"", "m", 4))
    whole = ended(
        body=b"the secret text", chosen=decision(candidate("one", l0=8)), usage=Usage(len(tokens), 3, 8), ttft=0.25
    )
    inbound = msgspec.structs.replace(whole.inbound, prompts=[Prompt(len(tokens), {SPACE: blocks})])
    return msgspec.structs.replace(whole, inbound=inbound)


def write(path: Path, *requests: Ended, registry: CollectorRegistry | None = None, **settings: Any) -> None:
    config = TrafficLogConfig(path=path, stride=2, **settings)
    log = TrafficLog(config, registry or CollectorRegistry())
    for request in requests:
        log.add(request)
    log.close()


def names(path: Path) -> list[list[int]]:
    return [list(request.blocks) for request in traffic.read(path)]


def test_a_line_tells_lengths_decision_and_outcome(tmp_path: Path) -> None:
    write(tmp_path / "log", asked(*range(20)))
    line = json.loads((tmp_path / "log").read_text())
    assert len(line.pop("names")) == 2
    assert line == {
        "t": 16.5, "model": "m", "prompt": 20, "block": 8, "output": 3, "cached": 8, "predicted": 8, "tenant": "",
        "replica": "one", "rank": 0, "policy": "kv-aware", "status": 200, "outcome": "complete", "ttft": 0.25,
        "predicted_ttft": 0.01, "seconds": 0.5,
    }  # fmt: skip


def test_prompts_that_begin_alike_have_names_that_begin_alike(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, asked(*range(24)), asked(*range(16), *range(100, 108)), asked(7, *range(23)))
    first, second, third = names(path)
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    assert not set(first) & set(third)


def test_names_depend_on_the_salt_and_are_not_the_hashes_that_route(tmp_path: Path) -> None:
    for file, salt in (("a", "x"), ("b", "x"), ("c", "y"), ("d", ""), ("e", "")):
        write(tmp_path / file, asked(*range(8)), salt=salt)
    found = [names(tmp_path / file)[0][0] for file in "abcde"]
    assert found[0] == found[1]
    assert len(set(found)) == 4
    hashes = block_hashes(range(8), 4, root_hash(b"", "m", 4))
    assert not {name & 0xFFFFFF for name in found} & {whole & 0xFFFFFF for whole in hashes}
    assert max(found) < 2**48


def test_text_and_what_was_not_read_are_not_written(tmp_path: Path) -> None:
    write(tmp_path / "log", asked(*range(8)), ended(body=b"unread"))
    text = (tmp_path / "log").read_text()
    assert text.count("\n") == 1
    assert "secret" not in text


def test_files_are_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, *[asked(*range(800 * number, 800 * number + 800)) for number in range(20)], file_bytes=4096, files=3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(file.stat().st_size <= 4096 for file in tmp_path.iterdir())
    kept = [*names(tmp_path / "log.2"), *names(tmp_path / "log.1"), *names(path)]
    assert 2 <= len(kept) < 20


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path / "log", asked(*range(8)), salt="x")
    first, second = names(tmp_path / "log")
    assert first == second


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "nowhere" / "log")


def test_lines_are_counted(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    write(tmp_path / "log", asked(1, 2), asked(3), registry=registry)
    assert registry.get_sample_value("kvgate_traffic_log_lines_total", {"outcome": "written"}) == 2


def test_what_the_disk_does_not_take_in_time_is_dropped_and_counted_and_the_rest_is_written(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    write(tmp_path / "log", *[asked(1, 2)] * (PENDING + 5), registry=registry)
    outcomes = {
        outcome: registry.get_sample_value("kvgate_traffic_log_lines_total", {"outcome": outcome}) or 0
        for outcome in ("written", "dropped")
    }
    assert sum(outcomes.values()) == PENDING + 5
    assert (tmp_path / "log").read_text().count("\n") == outcomes["written"] >= PENDING


def test_a_disk_that_takes_nothing_is_counted_and_ends_nothing() -> None:
    registry = CollectorRegistry()
    write(Path("/dev/full"), asked(1, 2), registry=registry)
    assert registry.get_sample_value("kvgate_traffic_log_lines_total", {"outcome": "failed"}) == 1
