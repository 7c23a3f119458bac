"""Vectors made by running LMCache 0.5.6 and vLLM."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from gateway.l2.hashing import Chain, engine_chain, hex_of, in_process_chain, server_chain
from gateway.l2.python_hash import LARGEST_SEED, string_hash

CHUNK = 256


def names(chain: Chain, count: int, size: int = CHUNK, salt: str | None = None) -> list[str]:
    """Of the tokens 0, 1, 2, ..., cut into `count` chunks."""
    found, parent = [], chain.root
    for start in range(0, count * size, size):
        parent = chain.step(parent, range(start, start + size), salt if start == 0 else None)
        found.append(hex_of(parent))
    return found


def test_lmcache_in_the_engine_with_sha256_cbor() -> None:
    chain = in_process_chain("sha256_cbor", None)
    assert hex_of(chain.root) == "9bd96a485ad84efd"
    assert names(chain, 1) == ["31375f4bc7c57397"]


def test_lmcache_in_the_engine_with_pythons_own_hash() -> None:
    chain = in_process_chain("builtin", 0)
    assert chain.root == 5313149338359954478
    assert names(chain, 2) == ["5f05dec65811b7cc", "-adc333b9eaa0e45"]


def test_lmcache_without_vllm_beside_it_begins_at_zero() -> None:
    with_vllm = in_process_chain("builtin", 0)
    assert names(Chain(0, with_vllm.step), 1) == ["2b763dd00afa89c8"]


def test_lmcaches_server_with_blake3() -> None:
    chain = server_chain("blake3", None)
    assert hex_of(chain.root) == "7e3eff9ef7613a50340eb12677ee03b83ac759fcba9bb32705f07248d56d473b"
    assert names(chain, 1) == ["084547b6c40ed5b05ba8cd0305db5bf74d5617673948d9ed193ab7d6cbc484d4"]


def test_the_servers_sha256_differs_from_that_in_the_engine_in_its_third_element_and_length() -> None:
    (server,), (inside,) = names(server_chain("sha256_cbor", None), 1), names(in_process_chain("sha256_cbor", None), 1)
    assert len(server) == 64
    assert server[:16] != inside


@pytest.mark.parametrize(
    ("algorithm", "root", "blocks"),
    [
        ("sha256", ("066b1e89", "f0d71198"),
         [("fe8fa5dd", 3262291359910021016), ("8be7aaa3", 7142137847444424233)]),
        ("sha256_cbor", ("9bd96a48", "9581eef0"),
         [("dc918a88", 2233398808101521225), ("c300ec27", 17911472383915781900)]),
    ],
)  # fmt: skip
def test_vllms_blocks(algorithm: str, root: tuple[str, str], blocks: list[tuple[str, int]]) -> None:
    chain = engine_chain(algorithm, None)
    assert hex_of(chain.root).startswith(root[0])
    assert hex_of(chain.root).endswith(root[1])
    for name, (beginning, external) in zip(names(chain, 2, 16), blocks, strict=True):
        assert name.startswith(beginning)
        assert int(name, 16) & (2**64 - 1) == external


def test_the_salt_is_in_the_hash_of_vllms_first_block_only() -> None:
    chain = engine_chain("sha256_cbor", None)
    plain, salted = names(chain, 2, 16), names(chain, 2, 16, "tenant")
    assert plain[0] != salted[0]
    parent = bytes.fromhex(salted[0])
    assert salted[1] == hex_of(chain.step(parent, range(16, 32), None))


@pytest.mark.parametrize("chain", [in_process_chain, server_chain, engine_chain])
def test_another_seed_gives_other_names(chain: Callable[[str, int | None], Chain]) -> None:
    assert chain("sha256_cbor", 0).root != chain("sha256_cbor", None).root


@pytest.mark.parametrize("algorithm", ["builtin", "xxhash", "xxhash_cbor"])
def test_a_function_that_begins_at_random_needs_a_seed(algorithm: str) -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED"):
        in_process_chain(algorithm, None)


@pytest.mark.parametrize("seed", [0, 1, 42, LARGEST_SEED])
def test_strings_hash_as_in_a_process_with_that_seed(seed: int) -> None:
    texts = [str(seed), "", "vllm-none-hash", "eight888", "a little longer than sixteen"]
    run = subprocess.run(
        [sys.executable, "-c", f"print([hash(text) for text in {texts}])"],
        env={"PYTHONHASHSEED": str(seed)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert str([string_hash(text, seed) for text in texts]) == run.stdout.strip()
