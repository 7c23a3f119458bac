import pytest

from gateway.l2.store import LINEAR_UP_TO, Progress, leading


@pytest.mark.parametrize("count", [0, 1, 5, LINEAR_UP_TO, LINEAR_UP_TO + 1, 100, 512])
def test_it_finds_the_end_of_what_is_there_wherever_it_is(count: int) -> None:
    for there in range(count + 1):
        progress = Progress()
        assert leading(count, lambda index, end=there: index < end, progress) == there  # type: ignore[misc]
        assert progress.chunks == there


def test_long_prompts_are_asked_about_with_few_questions() -> None:
    asked: list[int] = []

    def present(index: int) -> bool:
        asked.append(index)
        return index < 300

    assert leading(512, present, Progress()) == 300
    assert len(asked) <= LINEAR_UP_TO + 16


def test_a_hole_among_the_first_ends_the_prefix() -> None:
    assert leading(512, lambda index: index != 7, Progress()) == 7


def test_who_stops_waiting_knows_how_far_it_came() -> None:
    progress = Progress()

    def present(index: int) -> bool:
        if index == 5:
            raise OSError("no")
        return True

    with pytest.raises(OSError, match="no"):
        leading(100, present, progress)
    assert progress.chunks == 5
