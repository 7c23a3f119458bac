from loadtest.replica.text import Text
from loadtest.traces.generate import Mix, generate
from loadtest.traces.spell import Speller
from loadtest.traces.trace import Trace, TraceRequest

MIX = Mix(requests=20, system=200, question=50, output=10)


def test_text_has_the_tokens_that_were_asked_for(text: Text) -> None:
    trace = generate("multi-turn", MIX, 1)
    speller = Speller(text, trace)
    for request in trace.requests:
        tokens = speller.tokens(request)
        assert len(tokens) == request.prompt_tokens
        assert text.encode(speller.prompt(request)) == tokens


def test_equal_ids_are_equal_text_and_other_ids_differ_at_once(text: Text) -> None:
    first, second = TraceRequest(0, 12, 1, [1, 2, 3]), TraceRequest(0, 12, 1, [1, 2, 4])
    speller = Speller(text, Trace("made", 4, [first, second]))
    assert speller.tokens(first)[:8] == speller.tokens(second)[:8]
    assert speller.tokens(first)[8] != speller.tokens(second)[8]
    assert Speller(text, Trace("made", 4, []), seed=1).tokens(first) != speller.tokens(first)
