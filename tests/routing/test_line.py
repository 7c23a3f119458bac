from routing.line import Line, Prefill

SHORT, LONG = Prefill(100, 5_000), Prefill(10_000, 50_000_000)


def test_an_engine_turns_to_the_next_prompt_when_the_first_is_done() -> None:
    line = Line()
    first, second = line.join(LONG, 1.0), line.join(SHORT, 2.0)
    assert (line.first, line.since, len(line)) == (LONG, 1.0, 2)
    line.leave(first, 5.0)
    assert (line.first, line.since) == (SHORT, 5.0)
    line.leave(second, 5.5)
    assert len(line) == 0
    line.join(LONG, 9.0)
    assert (line.first, line.since) == (LONG, 9.0), "nobody was in front"


def test_who_leaves_from_further_behind_does_not_change_since_when_the_first_is_served() -> None:
    line = Line()
    line.join(LONG, 1.0)
    cancelled, _ = line.join(SHORT, 2.0), line.join(SHORT, 3.0)
    line.leave(cancelled, 4.0)
    assert (line.first, line.since, len(line)) == (LONG, 1.0, 2)
