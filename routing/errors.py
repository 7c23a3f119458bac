"""
Why a request can't be routed:

* RoutingError
  - UnknownModel          no replica serves this model
  - NoReplicaAvailable    replicas serve it, none may take this request now
"""


class RoutingError(Exception):
    """No replica was chosen."""


class UnknownModel(RoutingError):
    """No replica of the fleet serves this model."""

    def __init__(self, model: str) -> None:
        super().__init__(f"The model `{model}` does not exist.")
        self.model = model


class NoReplicaAvailable(RoutingError):
    """Nobody may take the request now; a later try may succeed."""

    def __init__(self, model: str | None) -> None:
        super().__init__("No replica is available." if model is None else f"No replica of `{model}` is available.")
        self.model = model
