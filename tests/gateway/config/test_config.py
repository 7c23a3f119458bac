from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, load, parse
from routing.cost import PROFILES


def test_an_empty_file_is_all_defaults() -> None:
    assert parse("") == Config()


def test_every_spelling_of_a_policy_is_taken() -> None:
    assert parse("policy: kvaware").policy == "kv-aware"
    assert parse("policy: round_robin").policy == "round-robin"
    assert parse("models: {m: {policy: PrefixAware}}").models["m"].policy == "prefix-aware"


def test_a_models_own_policy_comes_before_the_one_for_all() -> None:
    config = parse("policy: round-robin\nmodels:\n  m: {policy: kv-aware}\n  n: {tokenizer: /t}")
    assert [config.policy_for(model) for model in ("m", "n", "other", None)] == ["kv-aware", *["round-robin"] * 3]


@pytest.mark.parametrize(
    ("why", "text", "message"),
    [
        ("an unknown policy", "listen:\n  port: 80\npolicy: fastest", "c:3: policy: unknown policy 'fastest'; known"),
        ("an unknown key", "policy: kv-aware\npolcy: x", "c:2: polcy: Extra inputs are not permitted"),
        ("a nested number", "limits:\n  attempts: 0", "c:2: limits.attempts: Input should be greater than or equal"),
        ("a bad URL in a list", "replicas:\n  - url: http://a:1\n  - url: nonsense", "c:3: replicas.1.url: "),
        ("a missing key", "replicas:\n  - kv_events: tcp://a:1", "c:2: replicas.0.url: Field required"),
        ("a model's policy", "models:\n  m:\n    policy: x", "c:3: models.m.policy: unknown policy 'x'"),
        ("keeping connections longer than engines do", "limits: {idle_connection: 5}", "c:1: limits.idle_connection: "),
        ("an origin with a path", "listen: {allowed_origins: ['https://a/']}", "c:1: listen.allowed_origins.0: "),
        ("not YAML", "a: [1", "c:1: "),
        ("not a mapping", "- 1", "c:1: a mapping of settings is expected"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_line_and_key(why: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, "c")
    assert str(refused.value).startswith(message), why


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        parse("policy: x\nfresh_lifetime: 0", "c")
    assert len(str(refused.value).splitlines()) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load(tmp_path / "none.yaml")


def test_speed_is_a_known_profile_or_figures() -> None:
    assert parse("profile: llama-8b-h100").speed() == PROFILES["llama-8b-h100"]
    custom = parse("profile: {a: 1, b: 2, q: 3, d: 4, e: 5, f: 6}").speed()
    assert custom.prefill_base == pytest.approx(1e-3)
