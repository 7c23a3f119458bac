"""How long and how much a connection to a replica may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    connect: float = 5.0
    """Until TCP, and TLS where there is any, stand."""
    acquire: float = 30.0
    """In the queue for a connection when all are in use."""
    response: float = 600.0
    """From the request to the answer's last header; holds queueing and prefill at the engine."""
    read: float = 300.0
    """Between two reads of a body, counted only while somebody waits for it."""
    keep_alive: float = 4.0
    """Of an idle connection. vLLM's server closes its own after 5 s; whoever closes first never meets a closed one."""
    connections: int = 1024
    """To one replica, connecting ones included."""
    head_bytes: int = 65_536
    """Of status line and headers, and of anything else between two parts of a body: trailers, chunk extensions."""
    buffer_bytes: int = 262_144
    """Of body kept for a reader that is slower than the replica; above it the socket is not read."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0")
