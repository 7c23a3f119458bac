"""The whole configuration: every setting with its unit and default."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from gateway.config.admission import AdmissionConfig
from gateway.config.audit import AuditConfig
from gateway.config.discovery import Discovery
from gateway.config.index import IndexConfig
from gateway.config.l2 import L2
from gateway.config.limits import Ejection, Limits, Probing
from gateway.config.listen import Listen
from gateway.config.models import CustomProfile, ModelConfig
from gateway.config.page import Page
from gateway.config.replicas import ReplicaConfig
from gateway.config.saturation import Saturation
from gateway.config.section import PolicyName, Seconds, Section
from gateway.config.tls import UpstreamTLS
from gateway.config.tracing import TracingConfig
from gateway.config.traffic_log import TrafficLogConfig
from gateway.config.warm_up import WarmUp
from routing.cost import PROFILES, Profile, profile_from_ms

_RELOADED = frozenset({"policy", "allow_policy_header", "models", "replicas", "admission"})


class Config(Section):
    """The whole configuration."""

    listen: Listen = Field(default_factory=Listen)
    replicas: tuple[ReplicaConfig, ...] = ()
    discovery: Discovery = Field(default_factory=Discovery)
    policy: PolicyName = "kv-aware"
    """for every model that has none of its own"""
    shadow_policy: PolicyName | None = None
    """decides along and is not followed: what it would have done is counted"""
    allow_policy_header: bool = False
    """whether a request's `x-kvgate-policy` header may choose another policy"""
    models: Mapping[str, ModelConfig] = Field(default_factory=dict)
    profile: Literal["qwen3-32b-h100", "llama-8b-l40s", "llama-8b-h100"] | CustomProfile = "qwen3-32b-h100"
    """how fast an engine is, to begin with"""
    hash_secret: str = ""
    """the same in every gateway of a deployment"""
    fresh_lifetime: Seconds = 2.0
    """seconds after its first token that a prompt's blocks still count as held if no event speaks of them"""
    history_blocks: Annotated[int, Field(gt=0)] = 20_000
    """blocks that prefix-aware remembers for each engine, the longest unused forgotten first"""
    history_bytes: Annotated[int, Field(gt=0)] = 536_870_912
    """what that may take in all: of many engines each has a smaller share; 550 bytes are counted for a block"""
    history_lifetime: Seconds = 3600.0
    """seconds after its last use that prefix-aware forgets a block"""
    room_lifetime: Seconds = 600.0
    """seconds after its last use that a cached block counts 1/e in how full a cache is"""
    parity_interval: Seconds = 300.0
    """seconds between two comparisons of the gateway's tokens with a replica's"""
    tokenize_timeout: Seconds = 0.5
    """seconds that a replica may take to tokenize a prompt that is not read here"""
    tokenizer_threads: Annotated[int, Field(ge=1)] = 2
    tokenizer_download: bool = False
    """whether a tokenizer that is not on this machine may be fetched from the hub"""
    index: IndexConfig = Field(default_factory=IndexConfig)
    limits: Limits = Field(default_factory=Limits)
    probing: Probing = Field(default_factory=Probing)
    saturation: Saturation = Field(default_factory=Saturation)
    operator_metric_names: bool = False
    """whether `/metrics` has the figures of requests under the names of HyperPod's operators too"""
    audit: AuditConfig = Field(default_factory=AuditConfig)
    l2: L2 | None = None
    """shared storage, where there is any"""
    page: Page = Field(default_factory=Page)
    traffic_log: TrafficLogConfig | None = None
    """where requests are written down for `kvgate report`; nowhere where absent"""
    tracing: TracingConfig | None = None
    """where spans of requests go; nowhere where absent"""
    ejection: Ejection = Field(default_factory=Ejection)
    warm_up: WarmUp = Field(default_factory=WarmUp)
    upstream_api_key: SecretStr | None = None
    """for all replicas that have none of their own"""
    upstream_tls: UpstreamTLS = Field(default_factory=UpstreamTLS)
    aliases: Mapping[str, str] = Field(default_factory=dict)
    """further names of models: what clients may say -> what replicas serve"""
    admission: AdmissionConfig | None = None
    """who may send what; absent: everybody everything"""
    log_format: Literal["json", "text"] = "json"
    """of each line"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def policy_for(self, model: str | None) -> str:
        """The policy's name for requests of this model."""
        own = self.models.get(model) if model is not None else None
        return own.policy if own and own.policy else self.policy

    def changed_for_a_start(self, before: "Config") -> list[str]:
        """The settings that were others before, and take effect with the next start only."""
        fixed = (name for name in type(self).model_fields if name not in _RELOADED)
        return [name for name in fixed if getattr(before, name) != getattr(self, name)]

    def sends_token_ids(self, model: str) -> bool:
        """Whether requests of this model carry the gateway's token ids."""
        own = self.models.get(model)
        return own is not None and own.send_token_ids

    def speed(self) -> Profile:
        """The profile's figures."""
        if isinstance(self.profile, CustomProfile):
            return profile_from_ms(**self.profile.model_dump())
        return PROFILES[self.profile]
