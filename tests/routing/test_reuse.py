from routing.reuse import ReuseChance


def test_nothing_known_is_the_prior_at_every_age() -> None:
    assert {ReuseChance(prior=0.4).chance(age) for age in (0.0, 0.001, 1.0, 1e9)} == {0.4}


def test_blocks_are_as_likely_to_come_back_as_those_that_grew_as_old() -> None:
    reuse = ReuseChance(weight=1.0)
    reuse.used(50.0, 9000)
    reuse.evicted(60.0, 1000)
    assert 0.85 < reuse.chance(55.0) < 0.95


def test_what_comes_back_soon_says_nothing_good_of_what_did_not() -> None:
    reuse = ReuseChance(weight=1.0)
    reuse.used(2.0, 10_000)
    reuse.evicted(300.0, 10_000)
    assert reuse.chance(2.0) > 0.4
    assert reuse.chance(300.0) < 0.01


def test_of_an_age_that_no_block_has_come_to_no_more_is_thought_than_of_younger_ones() -> None:
    reuse = ReuseChance()
    reuse.evicted(50.0, 10_000)
    assert reuse.chance(1000.0) <= reuse.chance(50.0) < 0.1


def test_that_blocks_come_back_soon_is_no_reason_to_expect_it_of_old_ones() -> None:
    reuse = ReuseChance(prior=0.5)
    reuse.used(1.0, 100_000)
    assert reuse.chance(1000.0) <= 0.5 < reuse.chance(1.0)


def test_what_was_long_ago_counts_less_than_what_is_now() -> None:
    reuse = ReuseChance(weight=1.0)
    for _ in range(10):
        reuse.used(50.0, 1_000_000)
    for _ in range(3):
        reuse.evicted(50.0, 1_000_000)
    assert reuse.chance(50.0) < 0.5
