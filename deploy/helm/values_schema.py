"""Writes the schema of kvgate's settings into the chart's values.schema.json, so that Helm refuses what kvgate would.

python deploy/helm/values_schema.py
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.config import Config

FILE = Path(__file__).parent / "kvgate" / "values.schema.json"


def text() -> str:
    """The file with its `config` as the settings are now; all else in it is kept by hand."""
    schema = json.loads(FILE.read_text())
    config = _draft7(Config.model_json_schema())
    schema["definitions"] = config.pop("$defs")
    schema["properties"]["config"] = {"description": "kvgate's configuration: docs/configuration.md", **config}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _draft7(part: Any) -> Any:
    """Only what Helm goes by, with references as its draft has them."""
    if isinstance(part, list):
        return [_draft7(each) for each in part]
    if isinstance(part, str):
        return part.replace("#/$defs/", "#/definitions/")
    if not isinstance(part, Mapping):
        return part
    # Below `properties` and `$defs` keys are names, which may be any word.
    return {
        key: {name: _draft7(each) for name, each in value.items()} if key in ("properties", "$defs") else _draft7(value)
        for key, value in part.items()
        if key in ("properties", "$defs") or key not in ("title", "default", "description")
    }


def main() -> int:
    """Write it."""
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
