from collections import Counter

from loadtest.workload import ChatShape, chat

SHAPE = ChatShape(
    conversations=8, turns=3, groups=2, system_sentences=3, question_sentences=2, begin_within=5.0, pause=0.5
)


def test_the_same_seed_gives_the_same_conversations() -> None:
    assert chat(SHAPE, 1) == chat(SHAPE, 1)
    assert chat(SHAPE, 1) != chat(SHAPE, 2)


def test_conversations_have_the_shape_that_was_asked_for() -> None:
    conversations = chat(SHAPE, 1)
    assert SHAPE.requests == sum(len(one.questions) for one in conversations) == 24
    assert set(Counter(one.system for one in conversations).values()) == {4}
    assert all(len(one.pauses) == 2 for one in conversations)
    begins = [one.begins for one in conversations]
    assert begins == sorted(begins)
    assert 0 <= begins[0] <= begins[-1] <= 5


def test_no_question_is_asked_twice() -> None:
    questions = [question for one in chat(SHAPE, 1) for question in one.questions]
    assert len(set(questions)) == len(questions)
