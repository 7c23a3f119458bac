from collections.abc import Sequence

from routing.turns import Turns
from routing.types import BlockHash


def chain(*names: int) -> Sequence[BlockHash]:
    return [BlockHash(name) for name in names]


def test_a_prompt_that_reaches_past_an_earlier_one_goes_on_from_it() -> None:
    turns = Turns(100)
    turns.record(chain(1, 2, 3))
    assert turns.continued(chain(1, 2, 3, 4, 5)) == 3


def test_the_latest_turn_is_the_one_gone_on_from() -> None:
    turns = Turns(100)
    turns.record(chain(1, 2))
    turns.record(chain(1, 2, 3, 4))
    assert turns.continued(chain(1, 2, 3, 4, 5)) == 4


def test_the_same_prompt_again_is_no_turn() -> None:
    turns = Turns(100)
    turns.record(chain(1, 2))
    assert turns.continued(chain(1, 2)) == 0


def test_where_many_go_on_in_their_own_words_is_nobodys_conversation() -> None:
    turns = Turns(100)
    turns.record(chain(1, 2))
    turns.record(chain(1, 2, 3))
    assert turns.continued(chain(1, 2, 4)) == 0
    assert turns.continued(chain(1, 2, 3, 5)) == 3


def test_a_shared_beginning_is_no_earlier_prompt() -> None:
    turns = Turns(100)
    turns.record(chain(1, 2, 3))
    assert turns.continued(chain(1, 2, 4, 5)) == 0


def test_a_prompt_without_a_full_block_leaves_nothing() -> None:
    turns = Turns(100)
    turns.record(())
    assert turns.continued(()) == turns.continued(chain(1)) == 0


def test_the_end_of_an_earlier_turn_is_found_wherever_it_is() -> None:
    turns = Turns(100)
    talk = chain(*range(200))
    for length in (1, 31, 32, 33, 63, 64, 65, 66, 150):
        turns.record(talk[:length])
        for longer in range(length + 1, 200):
            assert turns.continued(talk[:longer]) == length
            assert turns.continued(talk[:length]) < length


def test_the_oldest_are_forgotten() -> None:
    turns = Turns(2, parts=1)
    for first in (10, 20, 30):
        turns.record(chain(first))
    assert [turns.continued(chain(first, first + 1)) for first in (10, 20, 30)] == [0, 1, 1]
