"""Where the gateway answers, and what clients' connections may take."""

from typing import Annotated

from pydantic import Field

from gateway.config.section import Seconds, Section

Origin = Annotated[str, Field(pattern=r"^(\*|null|[a-z][a-z0-9+.-]*://[^/\sA-Z]+)$")]
Port = Annotated[int, Field(ge=0, le=65535)]


class Listen(Section):
    """Sockets and the bounds on what comes through them."""

    host: str = "0.0.0.0"
    port: Port = 8080
    admin_port: Port | None = None
    """where operators call; absent: at the same port as clients, without what changes anything"""
    admin_host: str | None = None
    """absent: the same"""
    idle_timeout: Seconds = 75.0
    """seconds that a client's connection may be unused; longer than a load balancer keeps it"""
    head_timeout: Seconds = 30.0
    """seconds in which a request's head must have come"""
    body_timeout: Seconds = 30.0
    """seconds in which a body must end, or bring 16 KiB more"""
    answer_timeout: Seconds = 300.0
    """seconds in which a client that is slower than its answer must have taken what waits for it, some 64 KiB"""
    connections_per_address: Annotated[int, Field(gt=0)] | None = None
    """from one address at once; absent: no limit, as behind a load balancer"""
    allowed_origins: tuple[Origin, ...] = ()
    """of web pages that may call what clients call, such as `https://chat.example.com`; `*`: any"""
    drain_delay: Annotated[float, Field(ge=0)] = 0.0
    """seconds between not being ready any more and taking no new connections, for load balancers to notice"""
