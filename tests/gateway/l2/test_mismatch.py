from pathlib import Path

import pytest
from l2_world import ROOT, SETTINGS, store, stored

from gateway.config.l2 import SharedModel
from gateway.l2.mismatch import StoredFile, differing, newest_files

PROMPT = range(1000)
SIZE = SETTINGS.file_bytes or 0


def files(tmp_path: Path, settings: SharedModel) -> list[StoredFile]:
    """What engines with these settings have stored."""
    store(tmp_path, PROMPT, settings=settings)
    return list(newest_files(tmp_path))


def changed(**values: object) -> SharedModel:
    return SharedModel.model_validate({**SETTINGS.model_dump(), **values})


def test_files_that_fit_are_no_fault(tmp_path: Path) -> None:
    assert differing(SETTINGS, ROOT, files(tmp_path, SETTINGS), [PROMPT]) == ""


def test_an_empty_folder_says_nothing() -> None:
    assert differing(SETTINGS, ROOT, [], [PROMPT]) == ""


def test_one_file_that_fits_is_enough(tmp_path: Path) -> None:
    others = files(tmp_path, changed(model="/models/other"))
    assert differing(SETTINGS, ROOT, [*others, *files(tmp_path, SETTINGS)], [PROMPT]) == ""


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"model": "/models/other"}, "model is /models/other, not /models/q"),
        ({"world": 2}, "world is 2, not 1"),
        ({"dtype": "half"}, "dtype is half, not bfloat16"),
        ({"legacy_names": True}, "legacy_names is true"),
        ({"layers": 28, "kv_bytes_per_token": 4 * 28}, "layers is the model's number of layers, not 0"),
        ({"kv_bytes_per_token": 2}, "makes 1024 bytes a file, and there are 512"),
        ({"writer": "lmcache-server", "hash": "blake3"}, "writer is lmcache-server, not lmcache"),
        ({"hash": "builtin", "python_hash_seed": 0}, "hash is builtin; python_hash_seed is 0"),
        ({"python_hash_seed": 0}, "python_hash_seed is 0"),
        ({"chunk": 64, "kv_bytes_per_token": 16}, "chunk is 64"),
    ],
)
def test_the_setting_that_differs_is_named(tmp_path: Path, theirs: dict[str, object], said: str) -> None:
    found = files(tmp_path, changed(**theirs))
    fault = differing(SETTINGS, ROOT, found, [PROMPT])
    assert fault.startswith(f"0 of the last {len(found)} files could have been made with these settings: ")
    assert said in fault


def test_hashes_of_prompts_that_were_not_served_here_say_nothing(tmp_path: Path) -> None:
    assert differing(SETTINGS, ROOT, files(tmp_path, SETTINGS), [range(5000, 6000)]) == ""


def test_of_the_servers_files_too(tmp_path: Path) -> None:
    ours = SharedModel(writer="lmcache-server", world=2)
    found = files(tmp_path, SharedModel(writer="lmcache-server"))
    assert "world is 1, not 2" in differing(ours, ROOT, found, [])


async def test_it_is_said_where_operators_look(tmp_path: Path) -> None:
    store(tmp_path, PROMPT, settings=changed(dtype="half"))
    async with stored(tmp_path) as world:
        await world.look_up(PROMPT)
        await world.parts.compare()
        assert world.metric("mismatch", model="m") == 1
        assert "dtype is half, not bfloat16" in world.parts.faults()[0]
        store(tmp_path, PROMPT)
        await world.parts.compare()
        assert world.metric("mismatch", model="m") == 0
        assert not world.parts.faults()
