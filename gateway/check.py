"""`kvgate check`: asks every replica of a configuration for what would cost hits in silence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread
import httpx
from rich.console import Console
from rich.table import Table

from gateway.config import Config, ReplicaConfig
from gateway.fleet.canary import describe
from gateway.fleet.discovery.once import discover
from gateway.fleet.probe import EngineMetrics, Probe, ProbeError, replica_id
from gateway.kv.reach import unreachable
from gateway.kv.sources import Source, Sources
from gateway.l2.agreement import disagreements
from gateway.pods import check_pods
from gateway.prompt.library import configured, read_settings
from gateway.prompt.parity import Outcome, Parity, ParityCheck
from gateway.prompt.reader import load
from gateway.prompt.tokenizer import TokenizerError
from gateway.relay.credentials import Credentials
from gateway.relay.credentials import client as replica_client
from gateway.seeds import TRIED, first_block, seed_of
from routing.fleet import Replica

HASHES_OF_ITS_OWN = ("xxhash", "xxhash_cbor", "builtin")
"""Algorithms whose hashes differ between processes unless PYTHONHASHSEED is set alike."""


@dataclass(slots=True)
class Finding:
    """What was found at one replica."""

    replica: str
    cells: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """what costs hits in silence"""
    notes: list[str] = field(default_factory=list)
    """what is worth knowing and costs none"""
    described: Replica | None = None
    """what it says of itself; None where it says nothing"""
    parity: Sequence[Parity] = ()
    """how the fixed prompts compared"""


async def check(config: Config) -> list[Finding]:
    """Ask every replica that is listed or found."""
    replicas, silent = await discover(config)
    credentials = Credentials(config)
    for replica in replicas:
        credentials.introduce(replica)
    async with replica_client(config, credentials) as client:
        findings = [await _check(config, replica, client) for replica in replicas]
        stored = await _check_storage(config, findings, client)
    _compare(findings)
    return [*findings, *(Finding("discovery", faults=[trouble]) for trouble in silent), *stored]


async def check_kubernetes(config: Config) -> list[Finding]:
    """Look at what the engines' pods were told."""
    faults: dict[str, list[str]] = {}
    for pod, fault in await check_pods(config):
        faults.setdefault(pod, []).append(fault)
    return [Finding(f"pod {pod}", faults=found) for pod, found in faults.items()]


def show(findings: Sequence[Finding], console: Console) -> None:
    """A table, and beneath it what is wrong in words."""
    columns = list(dict.fromkeys(column for finding in findings for column in finding.cells))
    table = Table("replica", *columns)
    for finding in findings:
        table.add_row(finding.replica, *(finding.cells.get(column, "-") for column in columns))
    for shown in (table, _parity_table(findings)):
        for column in shown.columns:
            column.overflow = "fold"  # what is cut off says nothing
        shown.columns[0].no_wrap = True
        console.print(shown)
    for finding in findings:
        for fault in finding.faults:
            console.print(f"[red]fault[/red] {finding.replica}: {fault}", highlight=False)
        for note in finding.notes:
            console.print(f"[yellow]note[/yellow]  {finding.replica}: {note}", highlight=False)
    if not any(finding.faults for finding in findings):
        console.print("nothing found that costs hits")


def _parity_table(findings: Sequence[Finding]) -> Table:
    """Of each fixed prompt, how many replicas there are with each outcome."""
    counts = Counter((result.shape, result.outcome) for finding in findings for result in finding.parity)
    table = Table("parity", *(outcome.value for outcome in Outcome))
    for shape in dict.fromkeys(shape for shape, _ in counts):
        table.add_row(shape, *(str(counts[shape, outcome]) for outcome in Outcome))
    return table


async def _check(config: Config, wanted: ReplicaConfig, client: httpx.AsyncClient) -> Finding:
    url = str(wanted.url).rstrip("/")
    finding = Finding(replica_id(url))
    probe = Probe(client, url, config.probing.timeout)
    try:
        finding.described = replica = await probe.describe()
        engines = (await probe.metrics()).engines
        finding.cells |= {"reachable": "yes", "model": replica.base.id, "vLLM": await probe.version() or "?"}
        _check_engines(finding, replica, list(engines.values()))
        sources = await _check_events(finding, wanted, await probe.event_sources(), config.probing.timeout)
        if sources:
            await _check_seed(finding, config, replica, engines.get(0, EngineMetrics()).hash_algorithm, sources[0])
        await _check_parity(finding, config, replica, client)
    except ProbeError as exc:
        finding.cells["reachable"] = "no"
        finding.faults.append(str(exc))
    return finding


def _check_engines(finding: Finding, replica: Replica, engines: Sequence[EngineMetrics]) -> None:
    sizes = {engine.block_size for engine in engines}
    finding.cells |= {"engines": str(replica.ranks), "block size": "/".join(sorted(map(str, sizes))) or "?"}
    if not engines:
        finding.faults.append("/metrics has none of vLLM's figures: load and cache size are unknown")
    if None in sizes:
        finding.notes.append("the block size is not known yet; it is learned from the first event")
    if any(engine.prefix_caching is False for engine in engines):
        finding.faults.append("prefix caching is off (--no-enable-prefix-caching)")
    algorithms = {engine.hash_algorithm for engine in engines if engine.hash_algorithm}
    if algorithms:
        finding.cells["hash"] = "/".join(sorted(algorithms))
    if algorithms & set(HASHES_OF_ITS_OWN):
        finding.notes.append("its block hashes are its own unless PYTHONHASHSEED is the same everywhere: no shared L2")


async def _check_events(
    finding: Finding, wanted: ReplicaConfig, told: Sources | None, patience: float
) -> Sequence[Source]:
    """Returns the streams of its engines."""
    if wanted.kv_events:
        sources = wanted.sources(ranks=1)
    elif told is None:
        finding.cells["events"] = "?"
        finding.faults.append("/kv_event_sources is not served: name kv_events and kv_replay in the configuration")
        return ()
    else:
        sources = told.by_rank
        for rank, reason in told.missing.items():
            finding.faults.append(f"engine {rank}: {reason}")
        if told.reason and not told.missing:
            finding.faults.append(told.reason)
    faults = [fault for source in sources.values() for fault in await unreachable(source, patience)]
    replayed = sum(source.replay_endpoint is not None for source in sources.values())
    finding.cells |= {"events": str(len(sources)), "replay": str(replayed)}
    finding.faults += faults
    return list(sources.values())


async def _check_seed(
    finding: Finding, config: Config, replica: Replica, algorithm: str | None, source: Source
) -> None:
    """Whether what engines store in common is named with the seed that the settings say."""
    models = config.l2.models if config.l2 else {}
    shared = next((models[card.id] for card in replica.cards if card.id in models), None)
    block = await first_block(source, config.probing.timeout)
    if algorithm is None or block is None:
        return
    wanted = shared.python_hash_seed if shared is not None and shared.writer != "lmcache-server" else None
    found = await anyio.to_thread.run_sync(seed_of, block, algorithm, (wanted, *TRIED))
    finding.cells["hash seed"] = found or "?"
    if shared is not None and shared.writer != "lmcache-server" and found != _named(wanted):
        finding.faults.append(
            f"PYTHONHASHSEED is {found or 'not one of the usual'}, where l2.models says {_named(wanted)}: what it "
            "stores has names that are not looked for"
        )


def _named(seed: int | None) -> str:
    return "unset" if seed is None else str(seed)


async def _check_storage(config: Config, findings: Sequence[Finding], client: httpx.AsyncClient) -> Sequence[Finding]:
    """Whether settings of LMCache and ours are such that engines find what others have stored, and we know of it."""
    if config.l2 is None:
        return ()
    described = [finding.described for finding in findings if finding.described is not None]
    faults = await disagreements(config.l2, described, client, config.probing.timeout)
    return [Finding("L2", faults=faults)] if faults else ()


async def _check_parity(finding: Finding, config: Config, replica: Replica, client: httpx.AsyncClient) -> None:
    model = configured(config, replica)
    source = model.tokenizer or replica.base.root
    try:
        settings = read_settings(model, replica.base.max_model_len, replica.task)
        read = partial(load, source, settings, download=config.tokenizer_download)
        reader = await anyio.to_thread.run_sync(read)
    except TokenizerError as exc:
        finding.cells["parity"] = "no tokenizer"
        finding.faults.append(f"prompts are read by the replicas, if at all: {exc}")
        return
    finding.parity = results = await ParityCheck(client).all(replica, reader)
    equal = sum(result.outcome is Outcome.EQUAL for result in results)
    finding.cells["parity"] = f"{equal}/{len(results)}"
    for result in results:
        if result.outcome is Outcome.DIFFERENT:
            finding.faults.append(f"parity: {describe(result)}")
        elif result.outcome is not Outcome.EQUAL:
            finding.notes.append(f"parity: {result.shape} is {result.outcome.value}")


def _compare(findings: Sequence[Finding]) -> None:
    """What differs between replicas of one model."""
    for column in ("block size", "hash", "hash seed", "vLLM"):
        seen: dict[str, set[str]] = {}
        for finding in findings:
            if column in finding.cells:
                seen.setdefault(finding.cells["model"], set()).add(finding.cells[column])
        for finding in findings:
            values = seen.get(finding.cells.get("model", ""), set())
            if len(values) > 1 and column in finding.cells:
                finding.notes.append(f"{column} differs between replicas of this model: {', '.join(sorted(values))}")
