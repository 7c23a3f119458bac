"""What is said when admission is set up."""

import time
from hashlib import sha256

import pytest

from gateway.admission.parts import admission
from gateway.config import Config
from gateway.metrics import Metrics

KEYS = {"keys": [{"name": "red", "sha256": sha256(b"a key").hexdigest()}]}


@pytest.mark.parametrize(("listen", "warned"), [({}, True), ({"admin_port": 9090}, False)])
def test_keys_for_clients_and_no_port_for_operators_is_worth_a_warning(
    listen: dict[str, int], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config.model_validate({"listen": listen, "admission": KEYS})
    assert admission(config, Metrics(), time.monotonic) is not None
    assert ("listen.admin_port" in caplog.text) is warned
    assert "a key" not in caplog.text


def test_where_everybody_may_send_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert admission(Config(), Metrics(), time.monotonic) is None
    assert caplog.text == ""
