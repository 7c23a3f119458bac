"""What is counted comes out as prometheus_client itself would have it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Counter as TheirCounter
from prometheus_client import Histogram as TheirHistogram

from gateway.tally import Counter, Histogram

BOUNDS = (-4, 0, 0.25, 1.5, 64)


def exposed(registry: CollectorRegistry) -> list[bytes]:
    """What a scrape sees, without the times at which series began."""
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([*BOUNDS, -9, 0.3, 1e9]))))
def test_values_are_exposed_as_by_prometheus_client(values: list[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    count, their_count = (
        Counter("x", "How many", ["who"], ours),
        TheirCounter("x", "How many", ["who"], registry=theirs),
    )
    spread = Histogram("y", "How much", BOUNDS, ["who"], ours)
    their_spread = TheirHistogram("y", "How much", ["who"], buckets=BOUNDS, registry=theirs)
    for who, value in values:
        count.labels(who).inc(abs(value))
        their_count.labels(who).inc(abs(value))
        spread.labels(who).observe(value)
        their_spread.labels(who).observe(value)
    assert exposed(ours) == exposed(theirs)


def test_a_series_needs_all_its_labels() -> None:
    registry = CollectorRegistry()
    with pytest.raises(ValueError, match="who, where"):
        Counter("x", "How many", ["who", "where"], registry).labels("me")
    with pytest.raises(ValueError, match="who, where"):
        Histogram("y", "How much", BOUNDS, ["who", "where"], registry).labels("me", "here", "now")


def test_series_of_one_label_value_end_and_the_others_stay() -> None:
    registry = CollectorRegistry()
    count = Counter("x", "How many", ["who", "how"], registry)
    spread = Histogram("y", "How much", BOUNDS, ["who"], registry)
    for who in "ab":
        count.labels(who, "well").inc()
        spread.labels(who).observe(1)
    count.remove_by_labels({"who": "a"})
    spread.remove_by_labels({"who": "a"})
    text = b"\n".join(exposed(registry))
    assert b'who="a"' not in text
    assert text.count(b'who="b"') == 1 + len(BOUNDS) + 2
