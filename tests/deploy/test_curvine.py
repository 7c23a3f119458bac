"""Engines and gateway are told the same of what lies on Curvine."""

import json
from pathlib import Path
from typing import Any

import yaml

from gateway.config.l2 import L2
from gateway.l2.keys import Chunks, Memory
from gateway.l2.schemes import scheme_of

FOLDER = Path(__file__).parents[2] / "deploy" / "curvine"


def bodies(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def engine() -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """Arguments and environment of vLLM, and the pod's spec."""
    (deployment,) = bodies("vllm.yaml")
    spec = deployment["spec"]["template"]["spec"]
    container = spec["containers"][0]
    return container["args"], {item["name"]: item.get("value", "") for item in container["env"]}, spec


def gateway() -> L2:
    (values,) = bodies("kvgate-values.yaml")
    curvine = values["curvine"]
    return L2.model_validate({"path": f"{curvine['mountPath']}/{curvine['subPath']}", **values["config"]["l2"]})


def test_the_gateway_looks_where_and_for_what_engines_store() -> None:
    arguments, environment, _ = engine()
    settings = gateway()
    ((name, model),) = settings.models.items()
    assert f"--served-model-name={name}" in arguments
    assert model.model == arguments[0]
    assert f"--dtype={model.dtype}" in arguments
    assert environment["LMCACHE_REMOTE_URL"].removeprefix("fs://localhost:0") == str(settings.path)
    assert environment["LMCACHE_PRE_CACHING_HASH_ALGORITHM"] == model.hash
    assert environment["PYTHONHASHSEED"] == str(model.python_hash_seed)
    assert environment["LMCACHE_CHUNK_SIZE"] == str(model.chunk)
    (file,) = Chunks(scheme_of(model, "", settings.path), Memory(), range(model.chunk))[0]
    assert file.startswith("Qwen-SEP-Qwen2-7B-Instruct@1@0@")
    assert file.endswith("@bfloat16.data")
    assert model.file_bytes == 14_680_064


def test_a_file_that_can_not_be_loaded_fails_no_request_and_pods_write_apart() -> None:
    arguments, environment, _ = engine()
    (transfer,) = (text.partition("=")[2] for text in arguments if text.startswith("--kv-transfer-config="))
    assert json.loads(transfer)["kv_load_failure_policy"] == "recompute"
    assert "$(POD_NAME)" in json.loads(environment["LMCACHE_EXTRA_CONFIG"])["fs_connector_relative_tmp_dir"]


def test_everybody_mounts_one_claim_that_deletes_what_is_old() -> None:
    storage_class, claim = bodies("storage.yaml")
    _, _, pod = engine()
    (values,) = bodies("kvgate-values.yaml")
    claims = [
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ]
    assert claims == [claim["metadata"]["name"]] == [values["curvine"]["existingClaim"]]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["spec"]["storageClassName"] == storage_class["metadata"]["name"]
    assert storage_class["parameters"]["client.ttl-action"] == "delete"


def test_curvine_keeps_its_state_and_formats_nothing_after_the_first_start() -> None:
    (values,) = bodies("curvine-values.yaml")
    assert not any(values["cluster"][name] for name in ("formatMaster", "formatWorker", "formatJournal"))
    assert all(values["master"]["storage"][name]["storageClass"] for name in ("meta", "journal"))
    assert values["master"]["replicas"] % 2 == 1
