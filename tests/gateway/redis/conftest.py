from collections.abc import Callable, Iterator

import pytest
import zmq
from kv_publisher import Publisher
from valkey_server import Valkey, valkey


@pytest.fixture
def server() -> Iterator[Valkey]:
    with valkey() as server:
        yield server


@pytest.fixture
def make_publisher() -> Iterator[Callable[..., Publisher]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made: list[Publisher] = []

    def make(*, replay: bool = True) -> Publisher:
        made.append(Publisher(context, replay=replay))
        return made[-1]

    yield make
    for publisher in made:
        publisher.stop()
    context.term()
