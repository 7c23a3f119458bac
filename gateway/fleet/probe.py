"""What a replica says of itself: `/v1/models`, `/metrics`, `/kv_event_sources`."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gateway.kv.sources import Sources, SourcesError, parse_sources
from routing.fleet import DEFAULT_BLOCK_SIZE, ModelCard, Replica, Task
from routing.load import Report
from routing.types import ReplicaId

_WANTED = re.compile(
    r"^(?:process_start_time_seconds "
    r"|vllm:(?:num_requests_running|num_requests_waiting|kv_cache_usage_perc|cache_config_info|engine_sleep_state)\{).*$",
    re.MULTILINE,
)

_LATE = 0.1
"""by which share of the time limit a timer may fire too late until this process is the slow one"""
_LORA = "vllm:lora_requests_info"


class ProbeError(Exception):
    """The replica did not answer, or not as vLLM does.

    refused: nobody listens there at all. late: it was not in time, but neither was this process, so it says nothing.
    """

    def __init__(self, message: str, *, refused: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.refused = refused
        self.late = late


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """What `/metrics` says of one data-parallel rank."""

    report: Report = field(default_factory=Report)
    block_size: int | None = None
    capacity_blocks: int | None = None
    prefix_caching: bool | None = None
    hash_algorithm: str | None = None
    """of vLLM's own block hashes, which name what it shares with others"""
    asleep: bool = False
    """its weights are not where they can be used"""


@dataclass(frozen=True, slots=True)
class Exposition:
    """What `/metrics` says of the whole server."""

    engines: Mapping[int, EngineMetrics]
    """by data-parallel rank; empty where vLLM's metrics are not there"""
    started: float | None = None
    """when the server process started, in seconds since the epoch"""
    adapters: bool = True
    """whether its list of models may change while it runs: vLLM says so where LoRA adapters are enabled"""


def replica_id(url: str) -> ReplicaId:
    """The network place in a URL: `10.0.3.7:8000`, `[fd00::7]:8000`."""
    parsed = httpx.URL(url)
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    return ReplicaId(f"{host}:{parsed.port or (443 if parsed.scheme == 'https' else 80)}")


class Probe:
    """Asks one replica. url: scheme and authority, without a trailing slash; timeout: seconds for each question."""

    def __init__(self, client: httpx.AsyncClient, url: str, timeout: float) -> None:
        self._client = client
        self._url = url
        self._timeout = timeout

    async def describe(self) -> Replica:
        """The replica as its models and metrics describe it. Raises ProbeError."""
        cards = await self.cards()
        metrics = (await self.metrics()).engines
        first = metrics.get(0, EngineMetrics())
        return Replica(
            id=replica_id(self._url),
            url=self._url,
            cards=cards,
            ranks=max(metrics, default=0) + 1,
            block_size=first.block_size or DEFAULT_BLOCK_SIZE,
            capacity_blocks=first.capacity_blocks,
            task=await self._task(),
        )

    async def cards(self) -> tuple[ModelCard, ...]:
        """The models that it lists, one at least. Raises ProbeError."""
        models = (await self._json("/v1/models")).get("data")
        if not isinstance(models, list) or not models:
            raise ProbeError("/v1/models lists no model")
        return tuple(_card(model) for model in models)

    async def _task(self) -> Task | None:
        """What the model does, by the routes that vLLM serves for it. Raises ProbeError."""
        if not await self._serves("/pooling"):
            return None
        embeds, classifies = await self._serves("/v1/embeddings"), await self._serves("/classify")
        if embeds and classifies:  # an older engine, which serves them all whatever the model
            return None
        return Task.EMBED if embeds else Task.CLASSIFY if classifies else Task.TOKENS

    async def _serves(self, path: str) -> bool:
        """Whether there is a route that is not for GET."""
        return (await self._get(path)).status_code == httpx.codes.METHOD_NOT_ALLOWED

    async def metrics(self) -> Exposition:
        """What the server reports; empty where `/metrics` is not served. Raises ProbeError."""
        response = await self._get("/metrics")
        return parse_metrics(response.text if response.is_success else "")

    async def event_sources(self) -> Sources | None:
        """Where the KV events are; None where the engine has no such route. Raises ProbeError."""
        response = await self._get("/kv_event_sources")
        if not response.is_success:
            return None
        try:
            return parse_sources(response.content, httpx.URL(self._url).host)
        except SourcesError as exc:
            raise ProbeError(str(exc)) from exc

    async def version(self) -> str | None:
        """vLLM's version; None where it does not tell. Raises ProbeError."""
        response = await self._get("/version")
        return str(_object(response).get("version")) if response.is_success else None

    async def paused(self) -> bool | None:
        """Whether the engine was told to pause; None where it does not tell. Raises ProbeError."""
        response = await self._get("/is_paused")
        return bool(_object(response).get("is_paused")) if response.is_success else None

    async def healthy(self) -> bool:
        """Whether `/health` answers 200. Raises ProbeError where nothing answers."""
        return (await self._get("/health")).status_code == httpx.codes.OK

    async def _json(self, path: str) -> Mapping[str, object]:
        response = await self._get(path)
        if not response.is_success:
            raise ProbeError(f"{path} answered {response.status_code}")
        return _object(response)

    async def _get(self, path: str) -> httpx.Response:
        now = asyncio.get_running_loop().time
        due = now() + self._timeout
        try:
            async with asyncio.timeout_at(due):
                return await self._client.get(self._url + path, timeout=None)
        except httpx.ConnectError as exc:
            raise ProbeError(f"{path}: {exc}", refused=True) from exc
        except TimeoutError as exc:
            late = now() > due + self._timeout * _LATE
            raise ProbeError(f"{path}: no answer in {self._timeout:g} s", late=late) from exc
        except httpx.HTTPError as exc:
            raise ProbeError(f"{path}: {exc or type(exc).__name__}") from exc


def _card(model: object) -> ModelCard:
    if not isinstance(model, dict) or not isinstance(model.get("id"), str):
        raise ProbeError("/v1/models lists something that is not a model")
    return ModelCard(
        id=model["id"],
        root=model.get("root") or model["id"],
        parent=model.get("parent"),
        max_model_len=model.get("max_model_len"),
        created=model.get("created", 0),
        owned_by=model.get("owned_by", ""),
    )


def _object(response: httpx.Response) -> Mapping[str, object]:
    try:
        value = response.json()
    except ValueError as exc:
        raise ProbeError(f"{response.request.url.path} answered no JSON") from exc
    if not isinstance(value, dict):
        raise ProbeError(f"{response.request.url.path} answered no JSON object")
    return value


def parse_metrics(text: str) -> Exposition:
    """Read vLLM's exposition; a data-parallel rank is its label `engine`.

    Only the few lines that matter are parsed: an exposition has hundreds, and a parser of them all would hold the event
    loop for milliseconds.
    """
    lines = "\n".join(match.group() for match in _WANTED.finditer(text)) + "\n"
    samples: dict[int, dict[str, float]] = {}
    configured: dict[int, Mapping[str, str]] = {}
    started = None
    for name, labels, value in _samples(lines):
        if name == "process_start_time_seconds":
            started = value
            continue
        rank = int(labels.get("engine", "0"))
        found = samples.setdefault(rank, {})
        if name == "vllm:cache_config_info":
            configured[rank] = labels
        elif name == "vllm:engine_sleep_state":
            if labels.get("sleep_state") == "awake":
                found["awake"] = value
        else:
            found[name] = found.get(name, 0.0) + value
    engines = {rank: _engine_metrics(found, configured.get(rank, {})) for rank, found in samples.items()}
    return Exposition(engines, started, not engines or _LORA in text)


def _samples(lines: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _engine_metrics(found: Mapping[str, float], labels: Mapping[str, str]) -> EngineMetrics:
    caching = labels.get("enable_prefix_caching")
    blocks = _number(labels, "num_gpu_blocks")
    return EngineMetrics(
        report=Report(
            running=int(found.get("vllm:num_requests_running", 0)),
            waiting=int(found.get("vllm:num_requests_waiting", 0)),
            kv_usage=found.get("vllm:kv_cache_usage_perc", 0.0),
        ),
        block_size=_number(labels, "block_size"),
        # One block of vLLM's pool is the null block, which holds nothing.
        capacity_blocks=None if blocks is None else blocks - 1,
        prefix_caching=None if caching is None else caching == "True",
        hash_algorithm=labels.get("prefix_caching_hash_algo"),
        asleep=found.get("awake") == 0.0,
    )


def _number(labels: Mapping[str, str], key: str) -> int | None:
    """A label's number; "None" until the engine knows."""
    text = labels.get(key, "")
    return int(text) if text.isdigit() else None
