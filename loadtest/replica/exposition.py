"""The replica's metrics in Prometheus' text form, under vLLM's names."""

from collections.abc import Callable, Iterable, Mapping

from loadtest.replica.engine import Counters, Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS: tuple[tuple[str, str, Callable[[Counters], int]], ...] = (
    ("prefix_cache_queries_total", "Prefix cache queries, in tokens.", lambda counters: counters.queried),
    ("prefix_cache_hits_total", "Prefix cache hits, in tokens.", lambda counters: counters.hit),
    ("prompt_tokens_total", "Number of prefill tokens processed.", lambda counters: counters.prompt),
    ("prompt_tokens_cached_total", "Number of cached prompt tokens.", lambda counters: counters.prompt_cached),
    ("generation_tokens_total", "Number of generation tokens processed.", lambda counters: counters.generated),
    ("num_preemptions_total", "Cumulative number of preemptions.", lambda counters: counters.preemptions),
)


def exposition(model: str, engines: Mapping[int, Engine]) -> str:
    """engines: by data-parallel rank, which is vLLM's `engine` label."""
    return "".join(_metrics(model, engines))


def _metrics(model: str, engines: Mapping[int, Engine]) -> Iterable[str]:
    yield from _gauges(model, engines)
    yield from _counters(model, engines)


def _gauges(model: str, engines: Mapping[int, Engine]) -> Iterable[str]:
    yield _help("num_requests_running", "gauge", "Number of requests in model execution batches.")
    for rank, engine in engines.items():
        yield _line("num_requests_running", model, rank, engine.running)
    yield _help("num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
    for rank, engine in engines.items():
        yield _line("num_requests_waiting", model, rank, engine.waiting)
    yield _help("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")
    for rank, engine in engines.items():
        yield _line("kv_cache_usage_perc", model, rank, engine.cache.pool.usage)
    yield _help("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
    for rank, engine in engines.items():
        size, blocks = engine.cache.block_size, engine.cache.pool.usable + 1
        yield _line(
            "cache_config_info",
            None,
            rank,
            1,
            block_size=size,
            cache_dtype="auto",
            enable_prefix_caching="True",
            kv_cache_size_tokens=size * blocks,
            num_cpu_blocks="None",
            num_gpu_blocks=blocks,
        )


def _counters(model: str, engines: Mapping[int, Engine]) -> Iterable[str]:
    for name, text, count in _COUNTERS:
        yield _help(name, "counter", text)
        for rank, engine in engines.items():
            yield _line(name, model, rank, count(engine.counters))
    name = "prompt_tokens_by_source_total"
    yield _help(name, "counter", "Number of prompt tokens by source.")
    for rank, engine in engines.items():
        counters = engine.counters
        yield _line(name, model, rank, counters.prompt - counters.prompt_cached, source="local_compute")
        yield _line(name, model, rank, counters.prompt_cached, source="local_cache_hit")
    yield _help("request_success_total", "counter", "Count of successfully processed requests.")
    for rank, engine in engines.items():
        for reason, requests in engine.counters.finished.items():
            yield _line("request_success_total", model, rank, requests, finished_reason=reason)


def _help(name: str, kind: str, text: str) -> str:
    return f"# HELP vllm:{name} {text}\n# TYPE vllm:{name} {kind}\n"


def _line(name: str, model: str | None, rank: int, value: float, **labels: object) -> str:
    every = {"engine": rank, **labels, **({} if model is None else {"model_name": model})}
    inside = ",".join(f'{label}="{_escaped(str(every[label]))}"' for label in sorted(every))
    return f"vllm:{name}{{{inside}}} {float(value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
