"""A gateway's traffic log is what `kvgate report` reads."""

import argparse
import asyncio
import json
import time
from pathlib import Path

import httpx
import pytest
from processes import all_joined, eventually, gateway_process

from loadtest.play import play
from loadtest.replica.serve import ReplicaSettings, serve
from loadtest.replica.text import Text
from loadtest.report.command import Report
from loadtest.traces.stream import stream
from loadtest.workload import ChatShape, chat

SHAPE = ChatShape(
    conversations=2, turns=3, groups=1, system_sentences=20, question_sentences=4, begin_within=0.1, pause=0.01
)


MANY = ChatShape(
    conversations=12, turns=3, groups=2, system_sentences=20, question_sentences=4, begin_within=0.1, pause=0.01
)


async def written(log: Path, lines: int) -> None:
    """Lines are gathered for a moment before they are written."""

    async def all_there() -> bool:
        return log.read_text().count("\n") == lines

    await eventually(all_there, f"{lines} lines")


async def test_a_running_gateway_is_reported_on_with_what_came_of_its_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serve(ReplicaSettings(time_scale=0.01), Text()) as replica:
        log = tmp_path / "traffic.jsonl"
        settings = {"replicas": [{"url": replica.url}], "traffic_log": {"path": str(log), "stride": 1}}
        async with gateway_process(settings, tmp_path) as gateway:
            await all_joined(gateway.url, 1)
            exchanges = await play(gateway.url, "sim", chat(MANY, 1), 8, lambda: None)
            await written(log, len(exchanges))
            parser = argparse.ArgumentParser()
            Report().add_arguments(parser)
            args = parser.parse_args(["--live", gateway.url, "--replicas", "2", "--json", "--gpu-hour-price", "3"])
            assert await asyncio.to_thread(Report().run, args) == 0
    observed = json.loads(capsys.readouterr().out)["observed"]
    cached = sum(one.cached_tokens or 0 for one in exchanges)
    assert observed["requests"] == len(exchanges) == 36
    assert observed["hit_ratio"] == pytest.approx(cached / sum(one.prompt_tokens for one in exchanges), abs=1e-3)
    assert observed["compared"]["predictions"]["exact"] > 30
    assert observed["tenants"][""]["cached_tokens"] == cached > 0
    assert observed["ttft_p50_ms"] > 0


async def test_prompts_are_logged_even_where_the_policy_does_not_look_at_them(tmp_path: Path) -> None:
    log = tmp_path / "traffic.jsonl"
    async with serve(ReplicaSettings(time_scale=0.01), Text()) as replica:
        settings = {
            "policy": "round-robin",
            "replicas": [{"url": replica.url}],
            "traffic_log": {"path": str(log), "stride": 1},
        }
        async with gateway_process(settings, tmp_path) as gateway:
            await all_joined(gateway.url, 1)
            exchanges = await play(gateway.url, "sim", chat(SHAPE, 1), 8, lambda: None)
            await written(log, len(exchanges))
            async with httpx.AsyncClient() as client:
                live = (await client.get(f"{gateway.url}/traffic_log")).text
    requests, block_size = stream([log])
    logged = list(requests)
    assert block_size == 16
    assert log.read_text().startswith(live)
    assert len(live.splitlines()) > 1
    assert sorted(one.prompt_tokens for one in logged) == sorted(one.prompt_tokens for one in exchanges)
    assert all(one.output_tokens == 8 for one in logged)
    assert all(abs(one.arrival - time.time()) < 600 for one in logged)
    assert len({one.blocks[0] for one in logged}) == 1
    assert len({one.blocks[-1] for one in logged}) == len(logged)
