"""Every setting with its unit and default; a section is a module."""

from gateway.config.admission import AdmissionConfig, KeyConfig
from gateway.config.audit import AuditConfig
from gateway.config.discovery import Discovery
from gateway.config.index import IndexConfig
from gateway.config.limits import Ejection, Limits, Probing
from gateway.config.listen import Listen
from gateway.config.models import CustomProfile, ModelConfig
from gateway.config.page import Page
from gateway.config.read import ConfigError, load, parse
from gateway.config.replicas import ReplicaConfig
from gateway.config.settings import Config
from gateway.config.tracing import TracingConfig
from gateway.config.traffic_log import TrafficLogConfig

__all__ = [
    "AdmissionConfig",
    "AuditConfig",
    "Config",
    "ConfigError",
    "CustomProfile",
    "Discovery",
    "Ejection",
    "IndexConfig",
    "KeyConfig",
    "Limits",
    "Listen",
    "ModelConfig",
    "Page",
    "Probing",
    "ReplicaConfig",
    "TracingConfig",
    "TrafficLogConfig",
    "load",
    "parse",
]
