"""What stands in the documents."""

import re
from pathlib import Path


def blocks(page: Path) -> list[str]:
    """Its code, fenced or indented."""
    text = page.read_text()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    return fenced + re.findall(r"(?:^    .*\n)+", text, re.M)
