"""Shared storage (L2): where it is, how its files are named for each model, and what loading from it takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, HttpUrl, model_validator

from gateway.config.section import Seconds, Section
from gateway.l2.hashing import Chain, engine_chain, in_process_chain, server_chain
from gateway.l2.python_hash import LARGEST_SEED

Positive = Annotated[int, Field(gt=0)]
HASHES = Literal["blake3", "builtin", "sha256_cbor", "sha256", "xxhash_cbor", "xxhash"]
_MIXED = {"lmcache": {"blake3"}, "lmcache-server": {"builtin"}, "vllm": {"blake3", "builtin"}}


class SharedModel(Section):
    """How one model's chunks are stored."""

    writer: Literal["lmcache", "lmcache-server", "vllm"] = "lmcache"
    """who writes the files: LMCache in the engine (`LMCacheConnectorV1`), its server (`LMCacheMPConnector`), or vLLM's
    own file system tier"""
    model: str | None = None
    """the path or id given to vLLM; the root that the replica names where absent"""
    chunk: Positive = 256
    """tokens of a chunk: LMCache's `chunk_size`; for vLLM's tier read from its `config.json`"""
    hash: HASHES | None = None
    """LMCache's `pre_caching_hash_algorithm` (its default: builtin), the server's `--hash-algorithm` (blake3), or
    vLLM's `--prefix-caching-hash-algo` (sha256)"""
    python_hash_seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None = None
    """the engines' `PYTHONHASHSEED`"""
    world: Positive = 1
    """ranks that store a part each: tensor times pipeline parallel; 1 for MLA, where the first rank saves for all"""
    dtype: str = "bfloat16"
    """of the KV cache, by LMCache's word: half, bfloat16, fp8_e4m3fn, ..."""
    legacy_names: bool = False
    """whether names begin with `vllm@`"""
    layers: Annotated[int, Field(ge=0)] = 0
    """files of each chunk where LMCache works layerwise; else 0"""
    tags: bool = False
    """whether requests carry LMCache's tags (`kv_transfer_params`: `lmcache.tag.<name>`)"""
    groups: Positive = 1
    """KV cache groups that LMCache's server stores apart"""
    kv_bytes_per_token: Positive | None = None
    """of all ranks together; with it files that are too small don't count, and load times are known"""
    gigabytes_per_second: Annotated[float, Field(gt=0)] = 1.84
    """at which one replica reads; Curvine's published figure"""
    load_base: Annotated[float, Field(ge=0)] = 0.005
    """seconds that a load takes whatever its length"""
    min_tokens: Annotated[int, Field(ge=0)] = 0
    """LMCache's `min_retrieve_tokens`"""

    @model_validator(mode="after")
    def _hashes_that_are_shared(self) -> Self:
        if self.hash in _MIXED[self.writer]:
            raise ValueError(f"{self.writer} has no hash called {self.hash}")
        self.chain()
        return self

    def chain(self) -> Chain:
        """The hashes of its chunks. Raises ValueError for a function that needs a seed and has none."""
        match self.writer:
            case "lmcache":
                return in_process_chain(self.hash or "builtin", self.python_hash_seed)
            case "lmcache-server":
                return server_chain(self.hash or "blake3", self.python_hash_seed)
            case "vllm":
                return engine_chain(self.hash or "sha256", self.python_hash_seed)

    @property
    def seconds_per_token(self) -> float:
        """Of loading; 0 where the size of a token is not known."""
        return (self.kv_bytes_per_token or 0) / (self.gigabytes_per_second * 1e9)

    @property
    def file_bytes(self) -> int | None:
        """The least that a whole chunk's file has, None where that is not known."""
        if self.kv_bytes_per_token is None:
            return None
        return self.kv_bytes_per_token * self.chunk // (self.world * (self.layers or 1) * self.groups)


def _host(replica: str) -> str:
    """`10.0.3.7:8000` -> `10.0.3.7`; `[fd00::7]:8000` -> `[fd00::7]`."""
    return replica.rpartition(":")[0]


class L2(Section):
    """Shared storage."""

    path: Path | None = None
    """where its directory is mounted here"""
    url: Annotated[str, Field(pattern=r"^(redis|rediss|valkey|resp)://")] | None = None
    """LMCache's `remote_url`, where that is a Redis or Valkey server"""
    coordinator: bool = False
    """whether LMCache's servers report here what they store (`--coordinator-url`), instead of it being looked up"""
    servers: Mapping[str, HttpUrl] = Field(default_factory=dict)
    """HTTP address of LMCache's server beside each replica, by the replica's host and port"""
    server_port: Annotated[int, Field(gt=0, le=65535)] | None = None
    """its HTTP port on every other replica's host"""
    prefetch: bool = False
    """whether such a server is asked to fetch what is stored while a request still waits for others there"""
    models: Mapping[str, SharedModel] = Field(default_factory=dict)
    """by any name under which the model is served; others are not looked up"""
    deadline: Seconds = 0.010
    """seconds that a look-up may add to a request"""
    threads: Positive = 4
    """look-ups at a time"""
    positive_age: Annotated[float, Field(ge=0)] = 1.0
    """seconds that a file once seen counts as there; a mount may add its own (Curvine's: 1)"""
    negative_age: Annotated[float, Field(ge=0)] = 0.1
    """seconds that a file once missed counts as absent"""
    failures: Positive = 3
    """look-ups in a row that fail or are late until storage is left alone"""
    check_interval: Seconds = 2.0
    """seconds between two looks at whether it answers, and how full it is"""
    read_check: bool = True
    """whether a few bytes of files in use are read at each of those looks: a file that is there may not be readable"""
    read_deadline: Seconds = 0.5
    """seconds that such a read may take"""
    false_hints: Annotated[float, Field(gt=0, le=1)] = 0.2
    """share of promised loads that may not come before storage is not believed for a while"""
    disbelief: Seconds = 60.0
    """seconds of that while"""
    compare_interval: Seconds = 30.0
    """seconds between two comparisons of the settings with the files that are there"""
    single_flight: Annotated[float, Field(ge=0)] = 1.0
    """seconds that prompts with a beginning that is stored nowhere follow the first of them; 0 for never"""

    def server(self, replica: str) -> str | None:
        """The URL of LMCache's server beside a replica, by the replica's id."""
        if replica in self.servers:
            return str(self.servers[replica]).rstrip("/")
        return f"http://{_host(replica)}:{self.server_port}" if self.server_port else None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = [name for name in ("path", "url", "coordinator") if getattr(self, name)]
        if len(places) != 1:
            raise ValueError(f"name one of path, url and coordinator; there are {' and '.join(places) or 'none'}")
        if self.url and any(model.writer != "lmcache" for model in self.models.values()):
            raise ValueError("url is for LMCache in the engine; its server reports by coordinator")
        if self.coordinator and any(model.writer != "lmcache-server" for model in self.models.values()):
            raise ValueError("coordinator is for LMCache's server")
        return self
