"""Prompts that share nothing unless a test wants them to."""

from random import Random

from openai.types.chat import ChatCompletionMessageParam

VOCABULARY = (
    "river stone window garden letter winter market engine bridge forest island copper silver morning harbour "
    "question answer number method signal pattern measure balance surface process current tunnel valley"
)


def prose(subject: str, words: int) -> str:
    """The same text for the same subject; texts of two subjects differ from the first word on."""
    return f"{subject}: " + " ".join(Random(subject).choices(VOCABULARY.split(), k=words))


def ask(subject: str, words: int = 120) -> list[ChatCompletionMessageParam]:
    """A chat of one question; about as many tokens as words."""
    return [{"role": "user", "content": prose(subject, words)}]


def token_ids(subject: str, count: int) -> list[int]:
    """A prompt of exactly `count` ordinary tokens."""
    random = Random(subject)
    return [random.randrange(1000, 90_000) for _ in range(count)]
