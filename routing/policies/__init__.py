"""The policies by name. A new one is one file here and one line in `POLICIES`."""

from collections.abc import Mapping

from routing.policies.kv_aware import KVAware
from routing.policies.least_loaded import LeastLoaded
from routing.policies.policy import Choice, Policy, PrefixSource
from routing.policies.prefix_aware import PrefixAware
from routing.policies.round_robin import RoundRobin
from routing.policies.session import Session

POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy for policy in (KVAware, PrefixAware, RoundRobin, LeastLoaded, Session)
}

__all__ = ["POLICIES", "Choice", "Policy", "PrefixSource", "policy_named"]


def policy_named(name: str) -> type[Policy]:
    """The policy of that name in any spelling that operators know: `kv-aware`, `kv_aware`, `kvaware`.

    Raises ValueError, which lists the names, for an unknown one.
    """
    wanted = name.lower().replace("-", "").replace("_", "")
    for known, policy in POLICIES.items():
        if known.replace("-", "") == wanted:
            return policy
    raise ValueError(f"unknown policy {name!r}; known are {', '.join(POLICIES)}")
