"""The Dockerfile: linted, and its steps run in a plain folder; it takes no container engine to see that they work."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_it_passes_hadolint() -> None:
    program = shutil.which("hadolint") or shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    if program is None:
        program = next((str(path) for path in Path(sys.prefix).glob("bin/hadolint*")), None)
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_as_somebody_who_is_not_root_by_number_as_kubernetes_checks() -> None:
    users = [argument for name, argument in instructions() if name == "USER"]
    assert users
    assert int(users[-1]) > 0


def test_what_builds_it_stays_behind_and_docker_is_told_how_to_see_that_it_works() -> None:
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2
    last = instructions()[len(names) - names[::-1].index("FROM") :]
    assert [argument for name, argument in last if name == "COPY"] == ["--from=build /venv /venv"]
    (check,) = (argument for name, argument in last if name == "HEALTHCHECK")
    assert "/healthz" in check


def test_a_fresh_install_gets_the_same_versions_from_any_index() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[^\s/:]+", line)] == []


def test_what_it_copies_is_there_and_is_all_that_the_package_needs(tmp_path: Path) -> None:
    """COPY and the build's RUN, with the folder for the image's root and this environment for its packages."""
    for name, argument in instructions():
        if name != "COPY" or "--from" in argument:
            continue
        *sources, target = argument.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, tmp_path / target)
    (build,) = (argument for name, argument in instructions() if name == "RUN" and "pip install" in argument)
    assert re.search(r"pip install .*-c constraints\.txt '\.\[otel\]'$", build)
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    site = tmp_path / "site"
    done = subprocess.run(
        [*install, "--target", str(site), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = f"import sys; sys.path.insert(0, {str(site)!r}); from gateway.__main__ import main; main(['--help'])"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path / "site"
    )
    assert "serve" in shown.stdout, shown.stderr
    assert files(site) == files(ROOT), "what is not Python is installed too"
    (entry,) = (argument for name, argument in instructions() if name == "ENTRYPOINT")
    assert entry == '["kvgate"]'
    assert any(site.glob("bin/kvgate"))


def files(root: Path) -> set[str]:
    """All that the packages consist of; what is only to be read there is not part of them."""
    found = (path for package in ("gateway", "routing", "loadtest") for path in (root / package).rglob("*"))
    return {
        str(path.relative_to(root))
        for path in found
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
