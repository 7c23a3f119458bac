"""What follows from each thing that can happen to a stream of numbered messages."""

from collections.abc import Sequence

import msgspec

from gateway.kv.actions import Action, Apply, Ask
from gateway.kv.feed import Feed

PATIENCE, QUIET, ROOM = 5.0, 20.0, 8
UNREADABLE = b"\xc1"


def message(seq: int, life: int = 1) -> bytes:
    """The payload of an engine's message; its time tells number and process."""
    return msgspec.msgpack.encode([life * 1000.0 + seq, [], 0])


def told(actions: Sequence[Action]) -> list[int | str]:
    """The applied messages (number + 1000 x process), and what else is wanted."""
    return [
        int(action.batch.ts)
        if isinstance(action, Apply)
        else f"ask {action.start}"
        if isinstance(action, Ask)
        else "clear"
        for action in actions
    ]


def new_feed(*, replayable: bool = True) -> Feed:
    return Feed(replayable=replayable, patience=PATIENCE, quiet=QUIET, room=ROOM)


def following(last: int) -> Feed:
    """A feed that has applied messages 0 to `last`."""
    feed = new_feed()
    feed.start(0.0)
    feed.connected(0.0)
    for seq in range(last + 1):
        feed.replayed(seq, message(seq), 0.0)
    feed.replay_ended(0.0)
    return feed


def test_joining_asks_for_everything() -> None:
    feed = new_feed()
    assert told(feed.start(0.0)) == ["ask 0"]
    assert told(feed.connected(0.0)) == []
    assert told(feed.live(2, message(2), 0.0)) == []
    assert told(feed.replayed(0, message(0), 0.0)) == [1000]
    assert told(feed.replayed(1, message(1), 0.0)) == [1001]
    assert told(feed.replayed(2, message(2), 0.0)) == [1002]
    assert told(feed.replay_ended(0.0)) == []
    assert told(feed.live(3, message(3), 0.0)) == [1003]


def test_joining_without_replay_takes_what_comes() -> None:
    feed = new_feed(replayable=False)
    assert told(feed.start(0.0)) == []
    assert told(feed.connected(0.0)) == []
    assert told(feed.live(7, message(7), 0.0)) == [1007]


def test_joining_an_engine_whose_buffer_has_lost_the_beginning() -> None:
    feed = new_feed()
    feed.start(0.0)
    assert told(feed.replayed(7, message(7), 0.0)) == [1007]
    assert told(feed.replay_ended(0.0)) == []
    assert feed.counters.clears == 0


def test_a_gap_is_filled_while_live_messages_wait() -> None:
    feed = following(0)
    assert told(feed.live(3, message(3), 1.0)) == ["ask 0"]
    assert told(feed.live(4, message(4), 1.0)) == []
    assert [told(feed.replayed(seq, message(seq), 1.0)) for seq in range(4)] == [[], [1001], [1002], [1003]]
    assert told(feed.replay_ended(1.0)) == [1004]
    assert (feed.counters.gaps, feed.counters.clears) == (1, 0)


def test_a_hole_in_the_answer_clears() -> None:
    feed = following(0)
    feed.live(3, message(3), 1.0)
    feed.replayed(0, message(0), 1.0)
    assert told(feed.replayed(2, message(2), 1.0)) == ["clear", 1002]
    assert told(feed.replay_ended(1.0)) == [1003]


def test_an_answer_that_does_not_close_the_gap_is_not_asked_for_again() -> None:
    feed = following(0)
    feed.live(3, message(3), 1.0)
    feed.replayed(0, message(0), 1.0)
    assert told(feed.replay_ended(1.0)) == ["clear", 1003]


def test_a_gap_without_replay_clears() -> None:
    feed = new_feed(replayable=False)
    feed.live(0, message(0), 0.0)
    assert told(feed.live(2, message(2), 0.0)) == ["clear", 1002]
    assert told(feed.live(3, message(3), 0.0)) == [1003]


def test_no_answer_in_time_clears_and_goes_on() -> None:
    feed = following(0)
    feed.live(3, message(3), 1.0)
    assert told(feed.tick(1.0 + PATIENCE)) == ["clear", 1003]
    assert told(feed.replayed(1, message(1), 7.0)) == []
    assert told(feed.live(4, message(4), 7.0)) == [1004]
    assert feed.counters.failed_replays == 1


def test_a_request_of_which_nothing_is_heard_is_made_again_less_and_less_often() -> None:
    feed = new_feed()
    feed.start(0.0)
    asked = [now / 10 for now in range(49) if told(feed.tick(now / 10))]
    assert asked == [1.0, 3.0]
    assert told(feed.replayed(0, message(0), 4.9)) == [1000]
    assert told(feed.tick(PATIENCE + 4.0)) == []
    assert told(feed.replay_ended(PATIENCE + 4.0)) == []
    assert feed.counters.failed_replays == 0


def test_each_message_of_an_answer_renews_the_patience() -> None:
    feed = following(0)
    feed.live(3, message(3), 1.0)
    feed.replayed(0, message(0), PATIENCE)
    assert told(feed.tick(PATIENCE + 2)) == []


def test_more_messages_than_may_wait_clear() -> None:
    feed = following(0)
    waiting = range(3, 3 + ROOM + 1)
    assert [told(feed.live(seq, message(seq), 1.0)) for seq in waiting][-1] == [
        "clear",
        *(1000 + seq for seq in waiting),
    ]


def test_a_failed_replay_is_tried_again_and_replaces_what_is_booked_only_if_answered() -> None:
    feed = following(0)
    feed.live(3, message(3), 0.0)
    assert told(feed.tick(PATIENCE)) == ["clear", 1003]
    assert told(feed.tick(PATIENCE + QUIET)) == ["ask 0"]
    assert told(feed.live(4, message(4), 26.0)) == []
    assert told(feed.tick(2 * PATIENCE + QUIET)) == [1004]
    assert told(feed.tick(2 * PATIENCE + 3 * QUIET)) == ["ask 0"]
    assert told(feed.replayed(0, message(0), 71.0)) == ["clear", 1000]


def test_numbers_going_back_are_a_restart() -> None:
    feed = following(1)
    feed.live(2, message(2), 1.0)
    assert told(feed.live(0, message(0, life=2), 1.0)) == ["clear", "ask 0"]
    assert told(feed.replayed(0, message(0, life=2), 1.0)) == [2000]
    assert told(feed.replay_ended(1.0)) == []
    assert feed.counters.restarts == 1


def test_a_restart_during_a_replay_forgets_what_waits() -> None:
    feed = following(1)
    assert told(feed.live(5, message(5), 1.0)) == ["ask 1"]
    assert told(feed.live(0, message(0, life=2), 1.0)) == ["clear", "ask 0"]
    assert told(feed.replayed(0, message(0, life=2), 1.0)) == [2000]
    assert told(feed.replay_ended(1.0)) == []


def test_numbers_going_back_without_replay_clear() -> None:
    feed = new_feed(replayable=False)
    feed.live(5, message(5), 0.0)
    assert told(feed.live(0, message(0, life=2), 0.0)) == ["clear", 2000]


def test_a_new_connection_to_the_same_process_changes_nothing() -> None:
    feed = following(2)
    assert told(feed.connected(1.0)) == ["ask 2"]
    assert told(feed.live(4, message(4), 1.0)) == []
    assert [told(feed.replayed(seq, message(seq), 1.0)) for seq in (2, 3)] == [[], [1003]]
    assert told(feed.replay_ended(1.0)) == [1004]


def test_a_new_connection_to_a_new_process_past_our_number_clears() -> None:
    feed = following(2)
    feed.connected(1.0)
    assert told(feed.live(3, message(3, life=2), 1.0)) == []
    assert told(feed.replayed(2, message(2, life=2), 1.0)) == ["clear", "ask 0"]
    assert told(feed.replayed(0, message(0, life=2), 1.0)) == [2000]


def test_a_new_connection_to_a_process_that_has_not_come_so_far_clears() -> None:
    feed = following(2)
    feed.connected(1.0)
    assert told(feed.replay_ended(1.0)) == ["clear", "ask 0"]


def test_a_new_connection_without_replay_clears() -> None:
    feed = new_feed(replayable=False)
    feed.connected(0.0)
    feed.live(0, message(0), 0.0)
    assert told(feed.connected(1.0)) == ["clear"]
    assert told(feed.live(1, message(1, life=2), 1.0)) == [2001]


def test_a_message_that_comes_after_its_replay_is_dropped() -> None:
    feed = following(2)
    assert told(feed.live(1, message(1), 1.0)) == []
    assert told(feed.live(2, message(2), 1.0)) == []
    assert told(feed.live(3, message(3), 1.0)) == [1003]
    assert feed.counters.restarts == 0


def test_a_passed_number_with_a_later_time_is_a_restart() -> None:
    feed = following(2)
    assert told(feed.live(1, message(1, life=2), 1.0)) == ["clear", "ask 0"]


def test_an_unreadable_message_clears() -> None:
    feed = following(0)
    assert told(feed.live(1, UNREADABLE, 1.0)) == ["clear"]
    assert told(feed.live(2, message(2), 1.0)) == [1002]
    assert feed.counters.unreadable == 1


def test_rebuilding_forgets_and_asks_for_everything() -> None:
    feed = following(2)
    assert told(feed.live(4, message(4), 1.0)) == ["ask 2"]
    assert told(feed.rebuild(1.0)) == ["clear", "ask 0"]
    assert [told(feed.replayed(seq, message(seq), 1.0)) for seq in range(5)] == [[1000 + seq] for seq in range(5)]
    assert told(feed.replay_ended(1.0)) == []
    assert told(feed.live(5, message(5), 1.0)) == [1005]
    assert (feed.counters.rebuilds, feed.counters.restarts) == (1, 0)


def test_rebuilding_without_replay_goes_on_with_what_comes() -> None:
    feed = new_feed(replayable=False)
    feed.live(0, message(0), 0.0)
    assert told(feed.rebuild(1.0)) == ["clear"]
    assert told(feed.live(1, message(1), 1.0)) == [1001]


def test_what_came_and_is_not_applied_is_counted() -> None:
    feed = following(0)
    feed.live(3, message(3), 1.0)
    assert (feed.counters.heard_seq, feed.counters.last_seq) == (3, 0)


def test_silence_is_checked_ever_more_rarely() -> None:
    feed = following(0)
    feed.live(1, message(1), 1.0)
    assert told(feed.tick(QUIET)) == []
    assert told(feed.tick(1.0 + QUIET)) == ["ask 1"]
    assert [told(feed.replayed(seq, message(seq), 22.0)) for seq in (1, 2)] == [[], [1002]]
    assert told(feed.replay_ended(22.0)) == []
    assert told(feed.tick(1.0 + 2 * QUIET)) == []
    assert told(feed.tick(1.0 + 3 * QUIET)) == ["ask 2"]


def test_a_failed_check_changes_nothing() -> None:
    feed = following(0)
    feed.live(1, message(1), 1.0)
    feed.tick(1.0 + QUIET)
    assert told(feed.tick(1.0 + QUIET + PATIENCE)) == []
    assert told(feed.live(2, message(2), 30.0)) == [1002]


def test_the_next_message_makes_a_check_needless() -> None:
    feed = following(0)
    feed.live(1, message(1), 1.0)
    feed.tick(1.0 + QUIET)
    assert told(feed.live(2, message(2), 22.0)) == [1002]
    assert not feed.replaying
