"""Models that embed texts or judge pairs of them: their prompts are read, and what they find is what was predicted."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from routing.fleet import Task
from tests.engine.asker import Asker
from tests.engine.exchange import Verdict
from tests.engine.prompts import prose, token_ids
from tests.engine.shapes import EMBEDDINGS, Body
from tests.engine.telling import asking
from tests.engine.vllm_cpu.server import BLOCK_SIZE, Ports, VllmServer, boot

SCORE, RERANK, POOLING, CLASSIFY = "/score", "/v1/rerank", "/pooling", "/classify"
_JUDGING = {
    "architectures": ["Qwen3ForSequenceClassification"],
    "classifier_from_token": ["no", "yes"],
    "is_original_qwen3_reranker": True,
}
SERVED: Mapping[Task, tuple[tuple[str, ...], Mapping[str, object]]] = {
    Task.EMBED: (("--convert", "embed"), {}),
    Task.CLASSIFY: (("--convert", "classify", "--hf-overrides", json.dumps(_JUDGING)), {"use_sep_token": False}),
}
"""vLLM's options, and what a gateway's configuration says of the model"""

_DOCUMENTS = [prose(f"document {number}", 50) for number in range(3)]
_ASK = [{"role": "user", "content": prose("embedded", 70)}]
_SHAPES: Mapping[Task, Mapping[str, tuple[str, Body]]] = {
    Task.EMBED: {
        "a text": (EMBEDDINGS, {"input": prose("a text", 70)}),
        "texts": (EMBEDDINGS, {"input": _DOCUMENTS}),
        "ids": (EMBEDDINGS, {"input": token_ids("embedded ids", 97)}),
        "lists of ids": (EMBEDDINGS, {"input": [token_ids("one", 70), token_ids("other", 100)]}),
        "a conversation": (EMBEDDINGS, {"messages": _ASK}),
        "conversations": (EMBEDDINGS, {"messages": [_ASK, [{"role": "user", "content": prose("another", 70)}]]}),
        "cut": (EMBEDDINGS, {"input": prose("cut", 70), "truncate_prompt_tokens": 50}),
        "pooled": (POOLING, {"input": prose("pooled", 70)}),
        "a score": (SCORE, {"text_1": prose("query", 50), "text_2": prose("item", 70)}),
        "a rerank": (RERANK, {"query": prose("what is sought", 50), "documents": _DOCUMENTS}),
    },
    Task.CLASSIFY: {
        "a class": (CLASSIFY, {"input": prose("judged", 70)}),
        "pooled": (POOLING, {"input": [prose("judged, pooled", 70), prose("judged too", 70)]}),
        "a score": (SCORE, {"queries": prose("query", 50), "documents": prose("item", 70)}),
        "a rerank": (RERANK, {"query": prose("what is sought", 70), "documents": _DOCUMENTS}),
        "scores": (SCORE, {"data_1": _DOCUMENTS, "data_2": [prose("a", 40), prose("b", 40), prose("c", 40)]}),
    },
}
CASES = [(task, shape) for task, shapes in _SHAPES.items() for shape in shapes]


@pytest.fixture(scope="module")
def pooling(
    binaries: Path, model: Path, ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Task, Asker]]:
    """A client of a gateway in front of a replica for each task."""
    folder = tmp_path_factory.mktemp("pooling")
    with ExitStack() as running:
        servers = {
            task: running.enter_context(
                VllmServer(
                    binaries,
                    model,
                    Ports(next(ports), next(ports), next(ports)),
                    folder / f"{task}.log",
                    blocks=600,
                    arguments=("--runner", "pooling", *options),
                )
            )
            for task, (options, _) in SERVED.items()
        }
        boot(list(servers.values()))
        askers = {}
        for task, server in servers.items():
            place = tmp_path_factory.mktemp(f"gateway-{task}")
            askers[task] = running.enter_context(asking(server, next(ports), SERVED[task][1], place, Counter()))
        yield askers


@pytest.mark.parametrize(("task", "shape"), CASES)
def test_what_is_asked_again_is_predicted_exactly(
    task: Task, shape: str, pooling: Mapping[Task, Asker], verdicts: Counter[Verdict]
) -> None:
    asker = pooling[task]
    asker.verdicts = verdicts
    endpoint, body = _SHAPES[task][shape]
    first, second = asker.ask(endpoint, body), asker.ask(endpoint, body)
    for answer in (first, second):
        assert answer.predicted == answer.usage.cached
    assert second.usage.cached >= BLOCK_SIZE
    assert asker.gateway.metric("kvgate_miscounted_prompts_total") == 0
    assert asker.gateway.metric("kvgate_unscored_total") == 0
