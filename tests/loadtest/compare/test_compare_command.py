import argparse
import json
from pathlib import Path

import pytest

from loadtest.compare.command import KINDS, PEERS, POLICIES, PROFILES, Compare
from loadtest.replica import timing
from loadtest.traces import generate
from loadtest.virtual import peers
from routing import policies

SMALL = ["--quick", "--requests", "60", "--replicas", "3", "--workload", "multi-turn"]


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    Compare().add_arguments(parser)
    return parser.parse_args(given)


def test_quick_prints_one_object_with_every_policy_and_what_is_possible(capsys: pytest.CaptureFixture[str]) -> None:
    assert Compare().run(arguments(*SMALL, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["policies"]) == ["round-robin", "prefix-aware", "kv-aware"]
    for figures in found["policies"].values():
        assert 0 < figures["hit_ratio"] <= found["ideal_hit_ratio"] + 0.01
        assert 0 < figures["ttft_p50_ms"] <= figures["ttft_p90_ms"]
        assert 1 <= figures["max_over_mean"] <= 3
    assert found["policies"]["round-robin"]["hit_ratio"] < found["policies"]["kv-aware"]["hit_ratio"]
    assert found["pooled_lru_hit_ratio"] <= found["ideal_hit_ratio"]


def test_several_loads_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(*SMALL, "--loads", "0.4", "0.9", "--policies", "kvaware", "--json")
    assert Compare().run(given) == 0
    found = json.loads(capsys.readouterr().out)["loads"]
    assert [cell["load"] for cell in found] == [0.4, 0.9]
    assert [list(cell["policies"]) for cell in found] == [["kv-aware"], ["kv-aware"]]


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert Compare().run(arguments(*SMALL, "--policies", "round-robin")) == 0
    assert "round-robin" in capsys.readouterr().out


def test_trouble_and_the_rules_of_others_are_for_virtual_time(capsys: pytest.CaptureFixture[str]) -> None:
    trouble = ["--slow", "1", "--event-lag", "0.1", "--event-loss", "0.1", "--restart", "--block-size", "64"]
    assert Compare().run(arguments(*SMALL, *trouble, "--policies", "kv-aware", *PEERS, "--json")) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert list(found) == ["kv-aware", *PEERS]
    assert len({figures["requests"] for figures in found.values()}) == 1
    assert Compare().run(arguments("--slow", "1")) == 1
    assert "add --virtual" in capsys.readouterr().err
    assert Compare().run(arguments("--policies", PEERS[0])) == 1
    assert "unknown policy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--trace", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--policies", "magic"], "unknown policy 'magic'"),
        (["--requests", "1"], "too few requests"),
        (["--policies", "lmetrics"], "unknown policy 'lmetrics'"),
    ],
)
def test_what_does_not_fit_is_said(given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Compare().run(arguments(*given)) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.jsonl").write_text("no")
    assert Compare().run(arguments("--trace", str(tmp_path / "trace.jsonl"))) == 1
    assert "trace.jsonl:1" in capsys.readouterr().err


def test_the_names_that_the_command_line_offers_are_those_there_are() -> None:
    assert set(KINDS) == set(generate.KINDS)
    assert set(PROFILES) == set(timing.PROFILES)
    assert set(POLICIES) <= set(policies.POLICIES)
    assert set(PEERS) == set(peers.PEERS)


def test_the_page_stands_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "compare.html"
    given = arguments(*SMALL, "--loads", "0.4", "0.9", "--policies", "kv-aware", "--html", str(page))
    assert Compare().run(given) == 0
    html = page.read_text()
    assert html.count("<svg") == 6
    assert "http" not in html


def test_there_are_no_peers_in_virtual_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert Compare().run(arguments(*SMALL, "--peer", "other=http://127.0.0.1:1")) == 1
    assert "no peers" in capsys.readouterr().err


def test_tables_are_written_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.md"
    given = arguments(*SMALL, "--policies", "kv-aware", "--markdown", str(file))
    assert Compare().run(given) == 0
    lines = file.read_text().splitlines()
    assert lines[0].startswith("Load 0.7; one endless cache 0.")
    head, rule, row = lines[2:5]
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| kv-aware | 0.")
