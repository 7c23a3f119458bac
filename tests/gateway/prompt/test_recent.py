from gateway.prompt.recent import Recent


def test_the_least_recently_used_goes_first() -> None:
    recent: Recent[str, int] = Recent(max_bytes=30)
    for number, key in enumerate("abc"):
        recent.put(key, number, size=10)
    assert recent.get("a") == 0
    recent.put("d", 3, size=10)
    assert [recent.get(key) for key in "abcd"] == [0, None, 2, 3]
    assert recent.bytes == 30


def test_a_value_too_large_for_any_room_is_not_kept() -> None:
    recent: Recent[str, int] = Recent(max_bytes=30)
    recent.put("a", 1, size=10)
    recent.put("b", 2, size=31)
    assert recent.get("a") == 1
    assert recent.get("b") is None


def test_a_key_that_returns_counts_once() -> None:
    recent: Recent[str, int] = Recent(max_bytes=30)
    recent.put("a", 1, size=10)
    recent.put("a", 2, size=20)
    assert (recent.get("a"), recent.bytes) == (2, 20)
