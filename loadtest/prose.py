"""Made-up text that reads like prose or code to a tokenizer."""

import json
import random
from collections.abc import Iterator

STEM_WORDS = """\
able account act add age agree air all also answer any appear apply area ask base bear begin believe best block board
body book both bring build busi call can care carry case cause center chang chance charge check child choice city
class clear close code come common compare complete consider contain continue control copy cost count country course
cover create current data date day deal decide deep describe design detail develop differ direct do door down draw
drive drop early east easy effect end engine enough enter even event ever every exact example expect explain fact fall
far fast feel field figure file fill find first follow food force form found free friend front full general get give
go good great ground group grow hand happen hard have head hear help high hold home hope hour house how human idea
image improve include increase interest issue join just keep kind know land large last late law lead learn leave less
level life light like limit line list little live local long look lose low machine main make manage many mark matter
may mean measure meet memory message method might mind minute miss model moment money month more most move much must
name nation near need network never new next night note number object offer office often old open order other out over
own page paper part pass path pay people perform person place plan play point policy poor power present press price
problem process produce program prompt provide public put quest quick range rate reach read real reason receive record
reduce region relate release remain remember remove repeat report request require research result return right rise
road room rule run safe same save say scale school search second see seem select sell send sense serve set several
shape share short should show side simple since size small social some sort sound source space speak special stand
start state station stay step still stop store story strong study subject such suggest support sure system table take
talk teach team tell term test text than that their them then there these they thing think this those though thought
three through time today together token top total touch toward town track train travel tree true try turn type under
understand unit until up use usual value various very view visit voice wait walk want war watch water way week well
what when where which while white whole why will wind window wish with within without wonder word work world would
write year young your
"""
ENDINGS = ("", "", "", "", "s", "ed", "ing", "er", "ly", "ment", "ation", "able", "ness", "ity", "al")
GLUE_WORDS = """\
the of and to in is that for it as was on be at by this are from or an we you not but has if a I he she
"""
STEMS = STEM_WORDS.split()
GLUE = GLUE_WORDS.split()


def sentences(rng: random.Random, count: int) -> Iterator[str]:
    """Made-up prose, one sentence each: some words are frequent, most are rare."""
    weights = [1 / (rank + 8) for rank in range(len(STEMS))]
    shuffled = rng.sample(STEMS, len(STEMS))
    for _ in range(count):
        words: list[str] = []
        for stem in rng.choices(shuffled, weights, k=rng.randint(4, 16)):
            if rng.random() < 0.55:
                words.append(rng.choice(GLUE))
            words.append(stem + rng.choice(ENDINGS))
        text = " ".join(words)
        yield text[0].upper() + text[1:] + rng.choice((".", ".", ".", "?", "!", ",", ":", ";"))


def snippets(rng: random.Random, count: int) -> Iterator[str]:
    """Made-up code and JSON."""
    for _ in range(count):
        name, value, other = (rng.choice(STEMS) for _ in range(3))
        yield (
            f"def {name}_{value}({other}: int) -> str:\n"
            f"    if {other} == {rng.randint(0, 9)}:\n"
            f"        return {value}\n\n"
        )
        yield f"for {name} in {value}.{other}():\n    self.{name} = {other}[{rng.randint(0, 9)}]\n"
        yield json.dumps({"type": "function", "function": {"name": name, "description": value, "parameters": {}}})
        yield json.dumps({name: rng.randint(0, 9), value: [other, True, None]})
