"""What the tests of the load-test tools share."""

import pytest

from loadtest.replica.text import Text


@pytest.fixture(scope="session")
def text() -> Text:
    return Text()
