import hashlib
from pathlib import Path

import pytest
import yaml

from gateway.admission.tenants import Keys, Tenant
from gateway.config import ConfigError, parse
from gateway.errors import Unauthorized


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


KEYS = Keys([(digest("one"), Tenant("a")), (digest("two"), Tenant("b"))])


@pytest.mark.parametrize(
    "fields",
    [
        {b"authorization": b"Bearer two"},
        {b"authorization": b"bearer  two "},
        {b"x-api-key": b"two"},
    ],
)
def test_a_key_is_known_in_openais_and_in_anthropics_header(fields: dict[bytes, bytes]) -> None:
    assert KEYS.tenant(fields).name == "b"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"authorization": b"Basic two"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Bearer three"},
        {b"authorization": b"Bearer " + digest("two").encode()},
    ],
)
def test_without_a_known_key_nobody_is_let_in(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(Unauthorized):
        KEYS.tenant(fields)


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(yaml.safe_dump([{"name": "b", "sha256": digest("two"), "models": ["m"]}]))
    config = parse(
        yaml.safe_dump({"admission": {"keys_file": str(file), "keys": [{"name": "a", "sha256": digest("one")}]}})
    )
    assert config.admission is not None
    assert [key.tenant() for key in config.admission.all_keys()] == [Tenant("a"), Tenant("b", frozenset({"m"}))]


def test_what_is_wrong_in_the_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    for text in ("- {name: a, sha256: my-secret-key}", "{name: my-secret-key", "my-secret-key"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"keys\.yaml") as refusal:
            parse(yaml.safe_dump({"admission": {"keys_file": str(file)}}))
        assert "my-secret-key" not in str(refusal.value)
