"""`kvgate check` against replicas that are served as they should be."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import yaml

from tests.engine.prompts import token_ids
from tests.engine.telling import SERVED
from tests.engine.vllm_cpu.server import BLOCK_SIZE, MODEL, VllmServer


def test_check_finds_nothing_wrong_with_a_plain_replica(replicas: list[VllmServer]) -> None:
    status, shown = _check("--replica", replicas[0].url)
    assert status == 0, shown
    assert "nothing found that costs hits" in shown
    assert _column(shown, "block size") == str(BLOCK_SIZE)


def test_check_finds_out_the_seed_of_an_engines_hashes(telling_replica: VllmServer, tmp_path: Path) -> None:
    body = {"model": MODEL, "prompt": token_ids("seeded", 2 * BLOCK_SIZE), "max_tokens": 1}
    httpx.post(f"{telling_replica.url}/v1/completions", json=body, timeout=60.0).raise_for_status()
    config = tmp_path / "kvgate.yaml"
    shared = {"writer": "vllm", "hash": "sha256_cbor", "python_hash_seed": 7}
    settings = {
        "replicas": [{"url": telling_replica.url}],
        "models": {MODEL: SERVED},
        "l2": {"path": str(tmp_path), "models": {MODEL: shared}},
    }
    config.write_text(yaml.safe_dump(settings))
    status, shown = _check("--config", str(config))
    assert (status, _column(shown, "hash seed")) == (1, "0")
    assert "PYTHONHASHSEED is 0, where l2.models says 7" in shown


def test_check_finds_nothing_wrong_with_a_replica_that_is_served_as_configured(
    telling_replica: VllmServer, tmp_path: Path
) -> None:
    config = tmp_path / "kvgate.yaml"
    config.write_text(yaml.safe_dump({"replicas": [{"url": telling_replica.url}], "models": {MODEL: SERVED}}))
    status, shown = _check("--config", str(config))
    assert status == 0, shown


def _check(*arguments: str) -> tuple[int, str]:
    """Status and output of `kvgate check`."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "check", *arguments],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def _column(shown: str, name: str) -> str:
    """What a table of one row has in the column of this name."""
    rows = [[cell.strip() for cell in re.split("[│┃]", line)] for line in shown.splitlines() if line[:1] in ("│", "┃")]
    return rows[1][rows[0].index(name)]
