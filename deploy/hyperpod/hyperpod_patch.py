"""The same override without Kyverno, once: a JSON patch for the operator's Deployment as it is now.

    kubectl -n inference get deployment qwen2-7b -o json | python hyperpod_patch.py > patch.json
    kubectl -n inference patch deployment qwen2-7b --type json --patch-file patch.json

The next reconcile of the operator drops it; `kvgate check --kubernetes` finds that out.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

VARIABLE = "LMCACHE_REMOTE_URL"


def patch(deployment: Mapping[str, Any], url: str, claim: str, path: str) -> list[dict[str, Any]]:
    """Operations that leave the variable once, with this URL, and the claim mounted at `path`.

    Every position that is changed is tested first, so that a Deployment that changed meanwhile is refused. Raises
    ValueError where no container has the variable.
    """
    pod = deployment["spec"]["template"]["spec"]
    operations: list[dict[str, Any]] = []
    for number, container in enumerate(pod["containers"]):
        at = f"/spec/template/spec/containers/{number}"
        places = [place for place, entry in enumerate(container.get("env", ())) if entry["name"] == VARIABLE]
        if not places:
            continue
        # From the last: to remove one moves those behind it.
        for place in reversed(places):
            operations.append({"op": "test", "path": f"{at}/env/{place}/name", "value": VARIABLE})
            if place == places[0]:
                entry = {"name": VARIABLE, "value": url}
                operations.append({"op": "replace", "path": f"{at}/env/{place}", "value": entry})
            else:
                operations.append({"op": "remove", "path": f"{at}/env/{place}"})
        if not any(mount["mountPath"] == path for mount in container.get("volumeMounts", ())):
            operations += _appended(
                f"{at}/volumeMounts", container.get("volumeMounts"), {"name": "curvine", "mountPath": path}
            )
    if not operations:
        raise ValueError(f"no container has {VARIABLE}")
    if not any(volume["name"] == "curvine" for volume in pod.get("volumes", ())):
        volume = {"name": "curvine", "persistentVolumeClaim": {"claimName": claim}}
        operations += _appended("/spec/template/spec/volumes", pod.get("volumes"), volume)
    return operations


def _appended(path: str, there: object, value: Mapping[str, Any]) -> list[dict[str, Any]]:
    if there:
        return [{"op": "add", "path": f"{path}/-", "value": value}]
    return [{"op": "add", "path": path, "value": [value]}]


def main() -> int:
    """From standard input to standard output."""
    deployment = json.load(sys.stdin)
    print(
        json.dumps(patch(deployment, "fs://localhost:0/mnt/curvine/l2cache/", "curvine-l2", "/mnt/curvine"), indent=1)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
