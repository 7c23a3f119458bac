import argparse
import json
from pathlib import Path

import pytest
import respx

from loadtest.report.command import Report
from loadtest.traces.generate import Mix, generate

NAMED = {
    "ideal_hit_ratio",
    "lru_curve",
    "shared_prefix_share",
    "prompt_tokens",
    "l2_break_even_tokens",
    "policies",
}


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    Report().add_arguments(parser)
    return parser.parse_args(given)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A traffic log of a chat."""
    trace = generate("multi-turn", Mix(requests=200), 1)
    path = tmp_path / "traffic.jsonl"
    with path.open("w") as lines:
        for one in trace.requests:
            names = list(one.blocks[: one.prompt_tokens // trace.block_size])
            fields = {
                "t": 1.7e9 + one.arrival, "prompt": one.prompt_tokens, "block": 64, "names": names, "output": 9,
                "policy": "kv-aware", "tenant": "team-a", "cached": 64, "predicted": 64, "ttft": 0.1,
                "predicted_ttft": 0.1,
            }  # fmt: skip
            lines.write(json.dumps(fields) + "\n")
    return path


def test_json_has_what_is_asked_of_it(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Report().run(arguments(str(log), "--json", "--replicas", "3", "--gpu-hour-price", "2")) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= NAMED
    assert 0.5 < found["ideal_hit_ratio"] < found["shared_prefix_share"] < 1
    assert found["lru_curve"][-1][1] == found["ideal_hit_ratio"]
    assert sorted(found["prompt_tokens"]) == ["p50", "p90", "p99"]
    assert set(found["l2_break_even_tokens"]) == {"qwen3-32b-h100", "llama-8b-l40s", "llama-8b-h100"}
    for figures in found["policies"].values():
        assert 0 < figures["hit_ratio"] <= 1
        assert figures["ttft_p50_ms"] > 0
        assert figures["saved_per_day"] == pytest.approx(2 * figures["saved_gpu_hours_per_day"], abs=0.02)
    assert list(found["replicas"]) == ["2", "3", "4"]
    assert set(found["l2"]) == {"off", "on"}
    assert found["observed"]["compared"]["predictions"] == {"exact": 200, "over": 0, "under": 0}
    saved = found["observed"]["tenants"]["team-a"]
    assert saved["saved"] == pytest.approx(2 * saved["saved_gpu_hours"], abs=0.001)
    assert list(found["tiers"]) == ["L0", "L0+L1", "L0+L1+L2"]


def test_the_page_stands_by_itself(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert Report().run(arguments(str(log), "--html", str(page))) == 0
    shown = capsys.readouterr().out
    assert "kv-aware" in shown
    assert "team-a" in shown
    html = page.read_text()
    assert "What was observed" in html
    assert html.count("<svg") == 5
    assert "http" not in html
    assert "<script" not in html


def test_a_running_gateway_is_asked_for_its_log(
    log: Path, respx_mock: respx.MockRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    half = log.read_text() + '{"t": 1'
    respx_mock.get("http://gateway/traffic_log").respond(text=half)
    assert Report().run(arguments("--live", "http://gateway/", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 200


def test_a_gateway_without_a_log_is_told_apart(
    respx_mock: respx.MockRouter, capsys: pytest.CaptureFixture[str]
) -> None:
    respx_mock.get("http://gateway/traffic_log").respond(404)
    assert Report().run(arguments("--live", "http://gateway", "--json")) == 1
    assert "writes no traffic log" in capsys.readouterr().err


def test_files_or_a_gateway_must_be_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], [str(log), "--live", "http://gateway"]):
        assert Report().run(arguments(*given)) == 1
        assert "name files, or a gateway" in capsys.readouterr().err


def test_too_little_says_nothing(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text("".join(log.read_text().splitlines(keepends=True)[:5]))
    assert Report().run(arguments(str(short))) == 1
    assert "too few" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "no", "{}", "[1]", '{"t": 1, "prompt": 1, "block": 16, "names": []}'])
def test_a_line_that_is_no_request_is_named(
    log: Path, tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(log.read_text() + line + "\n")
    assert Report().run(arguments(str(bad))) == 1
    assert "bad.jsonl:201" in capsys.readouterr().err
