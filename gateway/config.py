"""Every setting with its unit and default. Nonsense is refused with the line and the key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, ValidationError

from gateway.kv.sources import Source
from routing.cost import PROFILES, Profile, profile_from_ms
from routing.policies import policy_named


class ConfigError(Exception):
    """The configuration can't be used; the message says where and why."""


def _canonical(policy: str) -> str:
    return policy_named(policy).name


PolicyName = Annotated[str, AfterValidator(_canonical)]
_ENDPOINT = r"^tcp://.+:\d+$"
Seconds = Annotated[float, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(_Section):
    """Where the gateway answers."""

    host: str = "0.0.0.0"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080


class ReplicaConfig(_Section):
    """One vLLM server."""

    url: HttpUrl
    """scheme, host and port; a path is not used"""
    kv_events: Annotated[str, Field(pattern=_ENDPOINT)] | None = None
    """ZMQ endpoint of rank 0's KV events, for engines without `/kv_event_sources`; further ranks follow on the ports
    behind it"""
    kv_replay: Annotated[str, Field(pattern=_ENDPOINT)] | None = None
    """ZMQ endpoint of rank 0's replay socket, likewise"""

    def sources(self, ranks: int) -> Mapping[int, Source]:
        """The event streams that are named here, by rank; none where `kv_events` is absent."""
        if self.kv_events is None:
            return {}
        return {
            rank: Source(_behind(self.kv_events, rank), self.kv_replay and _behind(self.kv_replay, rank), "")
            for rank in range(ranks)
        }


def _behind(endpoint: str, rank: int) -> str:
    """Rank 0's endpoint -> that of another rank, on the ports behind it."""
    address, _, port = endpoint.rpartition(":")
    return f"{address}:{int(port) + rank}"


class ModelConfig(_Section):
    """What is particular to one model, by any name it is served under."""

    policy: PolicyName | None = None
    tokenizer: str | None = None
    """path or hub name; the model's own root where absent"""
    chat_template: Path | None = None
    """the file given to vLLM as `--chat-template`"""
    default_chat_template_kwargs: Mapping[str, object] = Field(default_factory=dict)
    """vLLM's `--default-chat-template-kwargs`"""
    chat_template_content_format: Literal["auto", "string", "openai"] = "auto"
    """vLLM's option of that name, as are the next three"""
    trust_request_chat_template: bool = False
    exclude_tools_when_tool_choice_none: bool = False
    anthropic_disabled_thinking_effort: Literal["auto", "none", "low", "medium", "high", "xhigh", "max"] = "auto"
    send_token_ids: bool = False
    """whether the engine gets the gateway's token ids along, which spares it template and tokenizer"""


class CustomProfile(_Section):
    """Speed of an engine: `prefill_ms = a + b n + q n (cached + n/2)`, `itl_ms = d + e B + f B ctx`."""

    a: float
    b: float
    q: float
    d: float
    e: float
    f: float


class Limits(_Section):
    """What one request may take."""

    body_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    attempts: Annotated[int, Field(ge=1)] = 3
    """replicas tried in all before the client is told"""
    connect_timeout: Seconds = 2.0
    response_timeout: Seconds = 600.0
    """seconds until the answer's headers"""
    idle_timeout: Seconds = 300.0
    """seconds between two pieces of an answer"""
    drain: Annotated[int, Field(ge=0)] = 30
    """seconds that running answers get to end when the gateway is told to stop"""
    max_connections: Annotated[int, Field(gt=0)] = 4096
    """connections to each replica"""
    idle_connection: Annotated[float, Field(gt=0, lt=5)] = 4.0
    """seconds that an unused connection is kept; an engine closes its own after 5"""


class Probing(_Section):
    """How replicas are watched."""

    interval: Seconds = 1.0
    timeout: Seconds = 2.0
    failures: Annotated[int, Field(ge=1)] = 2
    """failed probes in a row until a replica leaves; a refused connection counts at once"""
    models_interval: Seconds = 10.0
    """seconds between two looks at a replica's list of models and event sources"""


class Config(_Section):
    """The whole configuration."""

    listen: Listen = Field(default_factory=Listen)
    replicas: tuple[ReplicaConfig, ...] = ()
    policy: PolicyName = "kv-aware"
    """for every model that has none of its own"""
    allow_policy_header: bool = False
    """whether a request's `x-kvgate-policy` header may choose another policy"""
    models: Mapping[str, ModelConfig] = Field(default_factory=dict)
    profile: Literal["qwen3-32b-h100", "llama-8b-l40s", "llama-8b-h100"] | CustomProfile = "qwen3-32b-h100"
    """how fast an engine is, to begin with"""
    hash_secret: str = ""
    """the same in every gateway of a deployment"""
    fresh_lifetime: Seconds = 2.0
    """seconds that a decision credits its engine with the prompt's blocks"""
    history_blocks: Annotated[int, Field(gt=0)] = 20_000
    """blocks that prefix-aware remembers for each engine"""
    history_lifetime: Seconds = 3600.0
    """seconds after its last use that prefix-aware forgets a block"""
    parity_interval: Seconds = 300.0
    """seconds between two comparisons of the gateway's tokens with a replica's"""
    tokenize_timeout: Seconds = 0.5
    """seconds that a replica may take to tokenize a prompt that is not read here"""
    tokenizer_threads: Annotated[int, Field(ge=1)] = 2
    tokenizer_download: bool = False
    """whether a tokenizer that is not on this machine may be fetched from the hub"""
    limits: Limits = Field(default_factory=Limits)
    probing: Probing = Field(default_factory=Probing)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def policy_for(self, model: str | None) -> str:
        """The policy's name for requests of this model."""
        own = self.models.get(model) if model is not None else None
        return own.policy if own and own.policy else self.policy

    def sends_token_ids(self, model: str) -> bool:
        """Whether requests of this model carry the gateway's token ids."""
        own = self.models.get(model)
        return own is not None and own.send_token_ids

    def speed(self) -> Profile:
        """The profile's figures."""
        if isinstance(self.profile, CustomProfile):
            return profile_from_ms(**self.profile.model_dump())
        return PROFILES[self.profile]


def load(path: Path) -> Config:
    """Read a YAML file. Raises ConfigError, with line and key, for what can't be read or used."""
    try:
        text = path.read_text()
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    return parse(text, str(path))


def parse(text: str, name: str = "config") -> Config:
    """Read YAML text; `name` stands for the file in messages. Raises ConfigError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"{name}:{line}: {exc.problem}") from exc
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1: a mapping of settings is expected")
    try:
        return Config.model_validate(values)
    except ValidationError as exc:
        raise ConfigError("\n".join(_explain(name, root, error) for error in exc.errors())) from exc


def _explain(name: str, root: yaml.Node | None, error: Mapping[str, object]) -> str:
    path = error["loc"]
    assert isinstance(path, tuple)
    line, keys = _find(root, path)
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}:{line}: {'.'.join(keys) or 'settings'}: {message}"


def _find(node: yaml.Node | None, path: tuple[str | int, ...]) -> tuple[int, list[str]]:
    """The line of the deepest part of `path` that is in the file, and the path's keys as far as they are keys of it."""
    line = node.start_mark.line + 1 if node else 1
    keys: list[str] = []
    for step in path:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    line, node = key.start_mark.line + 1, value
                    break
            else:
                keys.append(str(step))
                break
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break  # a step of the schema, such as the name of a union's member
        keys.append(str(step))
    return line, keys
