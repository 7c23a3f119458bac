import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from processes import eventually

from gateway.config import ReplicaConfig
from gateway.config.discovery import FileDiscovery
from gateway.fleet.discovery.file import WatchedFile, parse_list


async def test_the_list_is_read_again_when_it_changes_and_nonsense_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "replicas.yaml"
    path.write_text("[{url: 'http://10.0.0.1:8000'}]")
    source = WatchedFile(FileDiscovery(path=path, reread=0.1))
    told: list[list[str]] = []

    def tell(replicas: Iterable[ReplicaConfig]) -> None:
        told.append([str(replica.url) for replica in replicas])

    def replace(text: str) -> None:
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)

    async def until(*urls: str) -> None:
        async def last() -> bool:
            return bool(told) and told[-1] == list(urls)

        await eventually(last, f"{urls} are told, not {told}")

    async def refused() -> bool:
        return source.reports.faults["unreadable"] > 0

    task = asyncio.create_task(source.run(tell))
    await until("http://10.0.0.1:8000/")
    replace("- {url: 'http://10.0.0.2:8000', draining: true}\n- {url: 'http://[fd00::3]:8000', weight: 2}")
    await until("http://10.0.0.2:8000/", "http://[fd00::3]:8000/")
    replace("- {url: 'http://10.0.0.4:8000', wait: 1}")
    await eventually(refused, "the nonsense is refused")
    assert told[-1] == ["http://10.0.0.2:8000/", "http://[fd00::3]:8000/"]
    assert source.reports.trouble is not None
    assert "0.wait" in source.reports.trouble
    path.unlink()
    replace("[]")
    await until()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("text", ["replicas: []", "- 10.0.0.1", "- {url: 10.0.0.1}", "- {url: 'http://a', weight: 0}"])
def test_what_is_no_list_of_replicas_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+: .+"):
        parse_list(text)


def test_an_empty_file_lists_nobody() -> None:
    assert parse_list("") == ()
