import json
from pathlib import Path

import pytest
from l2_world import CHUNK, KV_BYTES, ROOT, SETTINGS, request_of, store, stored

from gateway.config.l2 import SharedModel
from gateway.l2.names import tier_folder
from gateway.l2.storage import Stored
from routing.decision import RouteRequest


async def test_whole_chunks_from_the_first_are_found(tmp_path: Path) -> None:
    tokens = range(1000)
    store(tmp_path, tokens, chunks=2)
    async with stored(tmp_path) as world:
        found = await world.look_up(tokens)
        assert found is not None
        assert (found.tokens, found.chunk) == (2 * CHUNK, CHUNK)
        assert found.per_token == KV_BYTES / 1.84e9
        assert world.metric("look_ups_total", model="m", outcome="answered") == 1


async def test_what_is_written_meanwhile_is_seen_at_once(tmp_path: Path) -> None:
    async with stored(tmp_path) as world:
        for chunks in range(4):
            store(tmp_path, range(1000), chunks)
            found = await world.look_up(range(1000))
            assert found is not None
            assert found.tokens == chunks * CHUNK


@pytest.mark.parametrize("size", [0, 1, CHUNK * KV_BYTES - 1])
async def test_a_file_that_is_not_whole_does_not_count(tmp_path: Path, size: int) -> None:
    files = store(tmp_path, range(1000))
    files[1].write_bytes(bytes(size))
    async with stored(tmp_path) as world:
        found = await world.look_up(range(1000))
        assert found is not None
        assert found.tokens == CHUNK


async def test_an_empty_file_does_not_count_where_sizes_are_not_known(tmp_path: Path) -> None:
    model = SharedModel(hash="sha256_cbor")
    store(tmp_path, range(300))[0].write_bytes(b"")
    async with stored(tmp_path, model) as world:
        found = await world.look_up(range(300))
        assert found is not None
        assert (found.tokens, found.per_token) == (0, 0.0)


async def test_a_temporary_file_is_not_the_file(tmp_path: Path) -> None:
    (file,) = store(tmp_path, range(300))
    file.rename(file.with_suffix(".tmp"))
    async with stored(tmp_path) as world:
        found = await world.look_up(range(300))
        assert found is not None
        assert found.tokens == 0


async def test_the_files_of_every_rank_are_needed(tmp_path: Path) -> None:
    model = SETTINGS.model_copy(update={"world": 2})
    files = store(tmp_path, range(1000), settings=model)
    files[3].unlink()
    async with stored(tmp_path, model) as world:
        found = await world.look_up(range(1000))
        assert found is not None
        assert found.tokens == CHUNK


async def test_a_salt_keeps_the_servers_chunks_apart(tmp_path: Path) -> None:
    model = SharedModel(writer="lmcache-server", kv_bytes_per_token=KV_BYTES)
    store(tmp_path, range(300), settings=model)
    async with stored(tmp_path, model) as world:
        plain, salted = await world.look_up(range(300)), await world.look_up(range(300), "tenant")
        assert plain is not None
        assert salted is not None
        assert (plain.tokens, salted.tokens) == (CHUNK, 0)


async def test_what_was_seen_is_remembered_for_as_long_as_is_set(tmp_path: Path) -> None:
    files = store(tmp_path, range(300))
    async with stored(tmp_path, positive_age=3600.0, negative_age=3600.0) as world:
        await world.look_up(range(300))
        files[0].unlink()
        found = await world.look_up(range(300))
        assert found is not None
        assert found.tokens == CHUNK


async def test_vllms_tier_describes_itself(tmp_path: Path) -> None:
    fields = {
        "model_name": ROOT, "tokens_per_hash": 16, "blocks_per_file": 4, "tp_size": 1, "pp_size": 1, "pcp_size": 1,
        "dcp_size": 1, "dtype": "torch.bfloat16", "kv_cache_groups": [], "inference_engine": "vllm",
    }  # fmt: skip
    folder = tmp_path / tier_folder(fields)
    model = SharedModel(writer="vllm", hash="sha256_cbor")
    async with stored(tmp_path, model, check_interval=1e-9) as world:
        found = await world.look_up(range(300))
        assert found is not None
        assert found.tokens == 0
        assert "no config.json" in world.parts.faults()[0]
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(fields))
        assert world.parts.storage.faults()
        found = await world.look_up(range(300))
        assert found is not None
        assert found.chunk == 64
        assert not world.parts.faults()


async def test_a_tier_whose_fingerprint_is_not_its_configurations_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "_models_q_0123456789ab"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_name": ROOT}))
    async with stored(tmp_path, SharedModel(writer="vllm")) as world:
        await world.look_up(range(300))
        assert world.parts.faults()


@pytest.mark.parametrize("salt", ["x" * 5000, "nul\0", "\udc80", "a/b"])
async def test_a_salt_that_can_be_no_part_of_a_name_is_no_fault_of_the_storage(tmp_path: Path, salt: str) -> None:
    async with stored(tmp_path, SharedModel(writer="lmcache-server"), failures=1) as world:
        found = await world.look_up(range(300), salt)
        assert found is not None
        assert found.tokens == 0
        assert world.parts.storage.health.believed


async def test_short_prompts_and_unknown_models_are_not_asked_about(tmp_path: Path) -> None:
    async with stored(tmp_path) as world:
        found = await world.look_up(range(CHUNK - 1))
        assert found is not None
        assert found.tokens == 0
        assert await world.parts.storage.look_up(world_request("other"), [range(300)], None, ()) == Stored()


def world_request(model: str) -> RouteRequest:
    return request_of(range(300))._replace(model=model)
