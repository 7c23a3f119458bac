from pathlib import Path

import pytest

from loadtest.replica.engine import Engine
from loadtest.replica.l2 import FolderSettings, SharedFolder
from loadtest.replica.request import Request
from loadtest.replica.timing import PROFILES

PROFILE = PROFILES["llama-8b-l40s"]
PROMPT = list(range(1000))


def engine(path: Path, writer: str, **settings: bool) -> Engine:
    folder = SharedFolder(FolderSettings(path, kv_bytes_per_token=16, **settings), "/models/q", writer)
    return Engine(PROFILE, 200, 16, storage=folder)


def run(engine: Engine, prompt: list[int] = PROMPT) -> tuple[Request, float]:
    """Serve one request. Returns it, and how long the engine took to its first token."""
    request = Request("r", prompt, [1], 16)
    engine.add(request)
    step = engine.start_step()
    if step is None:
        return request, 0.0
    engine.finish_step(step)
    return request, step.seconds


def test_what_one_engine_computed_another_loads_in_whole_chunks(tmp_path: Path) -> None:
    first, computing = run(engine(tmp_path, "a"))
    second, loading = run(engine(tmp_path, "b"))
    assert (first.cached, second.cached) == (0, 768)
    assert loading < computing
    expected_ms = 5.0 + 768 * 16 / 1.84e6 + PROFILE.prefill_ms(232, 768)
    assert loading == pytest.approx(expected_ms / 1000)


def test_files_have_lmcaches_names_and_a_chunks_size(tmp_path: Path) -> None:
    run(engine(tmp_path, "a"), list(range(256)))
    (file,) = tmp_path.glob("*.data")
    assert file.name == "-SEP-models-SEP-q@1@0@31375f4bc7c57397@bfloat16.data"
    assert file.stat().st_size == 256 * 16


def test_the_last_token_is_computed_in_any_case(tmp_path: Path) -> None:
    prompt = list(range(512))
    run(engine(tmp_path, "a"), prompt)
    assert run(engine(tmp_path, "b"), prompt)[0].cached == 511


def test_what_the_cache_holds_is_not_loaded_again(tmp_path: Path) -> None:
    one = engine(tmp_path, "a")
    run(one)
    request, again = run(one)
    assert request.cached == 992
    assert again == pytest.approx(PROFILE.prefill_ms(8, 992) / 1000)


@pytest.mark.parametrize(("fails", "ended"), [(True, 1), (False, 0)])
def test_a_file_that_was_cut_off_fails_the_request_or_is_computed(tmp_path: Path, fails: bool, ended: int) -> None:
    run(engine(tmp_path, "a"))
    next(iter(tmp_path.glob("*.data"))).write_bytes(b"x")
    other = engine(tmp_path, "b", fails=fails)
    request, _ = run(other)
    assert len(other.failed) == ended
    assert request.cached == (None if fails else 0)
    assert other.cache.pool.usage == 0
