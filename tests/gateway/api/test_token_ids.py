import json

import pytest

from gateway.api.token_ids import with_ids, without_ids


def params(raw: bytes) -> object:
    return json.loads(raw).get("kv_transfer_params")


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        (b'{"a": 1.0, "kv_transfer_params": {"prompt_token_ids": [1, 2]}}', b'{"a": 1.0, "kv_transfer_params": {}}'),
        (
            b'{"kv_transfer_params":{"x":null, "prompt_token_ids":[1],"y": 1e3},"z":2}',
            b'{"kv_transfer_params":{"x":null,"y": 1e3},"z":2}',
        ),
        (b'{"kv_transfer_params":{"prompt\\u005ftoken_ids":[1]}}', b'{"kv_transfer_params":{}}'),
        (b'{"kv_transfer_params":{"lmcache.tag.t":"a"}}', b'{"kv_transfer_params":{"lmcache.tag.t":"a"}}'),
        (b'{"kv_transfer_params": null}', b'{"kv_transfer_params": null}'),
        (
            b'{"a":NaN,"b":"\\ud800","kv_transfer_params":{"prompt_token_ids":[1],"c":-Infinity}}',
            b'{"a":NaN,"b":"\\ud800","kv_transfer_params":{"c":-Infinity}}',
        ),
    ],
)
def test_a_clients_ids_are_taken_out_and_nothing_else(raw: bytes, left: bytes) -> None:
    assert without_ids(raw, params(raw)) == left


def test_the_last_of_two_equal_keys_hides_nothing() -> None:
    raw = b'{"kv_transfer_params":{},"kv_transfer_params":{"prompt_token_ids":[1]}}'
    assert b"prompt_token_ids" not in without_ids(raw, params(raw))
    first = b'{"kv_transfer_params":{"prompt_token_ids":[1],"prompt_token_ids":[2]}}'
    assert b"prompt_token_ids" not in without_ids(first, params(first))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a": 1.0}', b'{"a": 1.0,"kv_transfer_params":{"prompt_token_ids":[7,8]}}'),
        (b'{"kv_transfer_params": null}', b'{"kv_transfer_params": {"prompt_token_ids":[7,8]}}'),
        (b'{"kv_transfer_params":{"x": 1.0}}', b'{"kv_transfer_params":{"x": 1.0,"prompt_token_ids":[7,8]}}'),
    ],
)
def test_the_gateways_ids_are_put_beside_what_is_there(raw: bytes, expected: bytes) -> None:
    assert with_ids(raw, params(raw), [7, 8]) == expected
