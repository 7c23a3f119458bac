"""Settings -> how a model's chunks are named."""

import json
from pathlib import Path

from gateway.config.l2 import SharedModel
from gateway.l2.keys import Scheme
from gateway.l2.names import InProcess, Remote, Server, Tier, tier_folder


class NoScheme(Exception):
    """How files are named can't be told; the message says why."""


def scheme_of(settings: SharedModel, root: str, path: Path | None) -> Scheme:
    """How the chunks of a model are named.

    root: the path or id that its replicas name.
    path: of the storage, None where it is no folder; vLLM's tier describes itself there, which is read.
    Raises NoScheme.
    """
    model = settings.model or root
    if not model:
        raise NoScheme("the replica names no root for it: set `model`")
    chunk, chain = settings.chunk, settings.chain()
    match settings.writer:
        case "lmcache":
            inside = InProcess(model, settings.world, settings.dtype, settings.legacy_names, settings.layers)
            return Scheme(chunk, chunk, chain, inside if path else Remote(inside), salted=False)
        case "lmcache-server":
            return Scheme(chunk, chunk, chain, Server(model, settings.world, settings.groups), salted=False)
        case "vllm":
            assert path is not None
            folder, unit, blocks, ranks = _tier(path, model)
            return Scheme(unit * blocks, unit, chain, Tier(folder, ranks), salted=True)


def _tier(path: Path, model: str) -> tuple[str, int, int, int]:
    """Folder, tokens of a block, blocks of a file and ranks of the newest tier of this model."""
    try:
        described = sorted(
            path.glob(f"{model.replace('/', '_')}_*/config.json"), key=lambda file: file.stat().st_mtime, reverse=True
        )
        for file in described:
            fields = json.loads(file.read_text())
            if tier_folder(fields) == file.parent.name:
                ranks = fields["tp_size"] * fields["pp_size"] * fields["pcp_size"] * fields["dcp_size"]
                return file.parent.name, fields["tokens_per_hash"], fields["blocks_per_file"], ranks
    except (OSError, ValueError, KeyError) as exc:
        raise NoScheme(f"the tier's config.json can't be read: {exc}") from exc
    raise NoScheme(f"no config.json below {path} describes a tier of {model}")
