"""Chunk hash -> the files that hold the chunk, one of each rank: by LMCache in the engine, its server, and vLLM's tier.

Sources: LMCache 0.5.6 `utils.py` (`CacheEngineKey`), `fs_connector.py` and `fs_l2_adapter.py`; vLLM 0.32
`v1/kv_offload/file_mapper.py`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Tags = Sequence[tuple[str, str]]
"""What a request's `kv_transfer_params` call `lmcache.tag.<name>`, in its order."""


def tags_of(kv_transfer_params: object) -> Tags:
    """The tags among a request's `kv_transfer_params`."""
    if not isinstance(kv_transfer_params, dict):
        return ()
    start = "lmcache.tag."
    return [(key.removeprefix(start), str(value)) for key, value in kv_transfer_params.items() if key.startswith(start)]


class Naming(Protocol):
    """Names the files of a chunk."""

    def files(self, chunk: str, salt: str | None = None, tags: Tags = ()) -> Sequence[str]:
        """The names, relative to the store's directory, of every file that must exist for the chunk to be there.

        chunk: its hash in hexadecimal.
        """
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """LMCache in the engine: `<model>@<world>@<worker>@<hash>@<dtype>[@<layer>][@<tag>%<value>].data`, flat."""

    model: str
    """the path or id given to vLLM, not the served name"""
    world: int = 1
    """tensor times pipeline parallel; 1 where only the first rank saves (MLA)"""
    dtype: str = "bfloat16"
    """of the KV cache, by LMCache's word for it: `half`, `bfloat16`, `fp8_e4m3fn`, ..."""
    legacy: bool = False
    """whether names begin with `vllm@`, as older versions wrote them"""
    layers: int = 0
    """files of each chunk in layerwise mode, which writes them in order; 0 where a chunk is one file"""

    def files(self, chunk: str, salt: str | None = None, tags: Tags = ()) -> Sequence[str]:
        """See `Naming`. In layerwise mode the last layer's file stands for all, since it is written last."""
        return [f"{key.replace('/', '-SEP-')}.data" for key in self.keys(chunk, tags)]

    def keys(self, chunk: str, tags: Tags = ()) -> Sequence[str]:
        """The keys under which a remote store that is no file system holds it."""
        beginning = f"{'vllm@' if self.legacy else ''}{self.model}@{self.world}"
        layer = f"@{self.layers - 1}" if self.layers else ""
        ending = "".join(f"@{name}%{value}" for name, value in tags)
        return [f"{beginning}@{worker}@{chunk}@{self.dtype}{layer}{ending}" for worker in range(self.world)]


@dataclass(frozen=True, slots=True)
class Remote:
    """LMCache in the engine with a store that is no file system: keys instead of files."""

    inside: InProcess

    def files(self, chunk: str, salt: str | None = None, tags: Tags = ()) -> Sequence[str]:
        """See `Naming`."""
        return self.inside.keys(chunk, tags)


@dataclass(frozen=True, slots=True)
class Server:
    """LMCache's server: `<model>@0x<rank>@<group>@<hash>[@<salt>].data`, flat."""

    model: str
    world: int = 1
    groups: int = 1
    """KV cache groups that are stored apart (`--separate-object-groups`)"""

    def files(self, chunk: str, salt: str | None = None, tags: Tags = ()) -> Sequence[str]:
        """See `Naming`."""
        return [
            server_file(self.model, kv_rank(self.world, worker), group, chunk, salt)
            for worker in range(self.world)
            for group in range(self.groups)
        ]


def server_file(model: str, rank: int, group: int, chunk: str, salt: str | None) -> str:
    """What LMCache's server calls one rank's part of a chunk."""
    ending = f"@{salt}" if salt else ""
    return f"{model.replace('/', '-SEP-')}@{rank:#010x}@{group:x}@{chunk}{ending}.data"


def kv_rank(world: int, worker: int) -> int:
    """LMCache's number for one rank's share, as a lookup computes it: every rank on one node."""
    return world << 24 | worker << 16 | world << 8 | worker


@dataclass(frozen=True, slots=True)
class Tier:
    """vLLM's file system tier: `<folder>_r<rank>/<hhh>/<hh>_g<group>/<hash>.bin`."""

    folder: str
    """`<model, / as _>_<fingerprint>`; see `tier_folder`"""
    ranks: int = 1
    group: int = 0

    def files(self, chunk: str, salt: str | None = None, tags: Tags = ()) -> Sequence[str]:
        """See `Naming`."""
        return [
            f"{self.folder}_r{rank}/{chunk[:3]}/{chunk[3:5]}_g{self.group}/{chunk}.bin" for rank in range(self.ranks)
        ]


def tier_folder(fields: Mapping[str, object]) -> str:
    """The name of the folder of a tier with this `config.json`.

    Raises KeyError if it names no `model_name`.
    """
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    fingerprint = hashlib.sha256(canonical.encode()).hexdigest()[:12]
    return f"{str(fields['model_name']).replace('/', '_')}_{fingerprint}"
