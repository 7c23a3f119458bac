"""The Lua scripts, and how they are run: each is one step that nothing else comes between."""

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from types import TracebackType
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

Client = Redis | RedisCluster
Argument = bytes | str | int
FAILURES = (RedisError, RedisClusterException, OSError, AttributeError)
"""What the library raises when Redis can't be asked. What it says of a whole cluster is not of its tree, and where one
task closes the connection that another opens it looks for an attribute of None."""

_NEVER_THERE = "-"


class RedisIndexError(Exception):
    """Redis did not do what it was asked; the message says why."""


class Fenced(RedisIndexError):
    """The engine's lease or slot is another's."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and the name by which Redis remembers it.

    whole: it works on more than one key, so it must not run where only some of them are. A cluster moves a slot key by
    key, and meanwhile refuses what asks for two keys of which one is missing. Such a script asks for one that never is.
    """

    text: str
    sha: str
    whole: bool

    @classmethod
    def named(cls, *names: str, whole: bool = True) -> "Script":
        """The script that comes in files `lua/NAME.lua`, one after the other."""
        text = "".join(files(__package__).joinpath("lua", f"{name}.lua").read_text() for name in names)
        return cls(text, sha1(text.encode(), usedforsecurity=False).hexdigest(), whole)


TABLE = Script.named("table")
APPLY = Script.named("slots", "bitmaps", "apply")
ACQUIRE = Script.named("slots", "acquire")
RENEW = Script.named("slots", "renew")
RELEASE = Script.named("slots", "release")
LOAD = Script.named("bitmaps", "load")
SWEEP = Script.named("sweep")
ORPHANS = Script.named("slots", "orphans")
GATEWAYS = Script.named("gateways", whole=False)
MODELS = Script.named("models", whole=False)


async def run(client: Client, script: Script, key: str, *arguments: Argument) -> Any:
    """Run a script on the shard of `key`. Raises Fenced, RedisIndexError."""
    keys = (key, key + _NEVER_THERE) if script.whole else (key,)
    with Asking():
        try:
            return await client.execute_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await client.execute_command("EVAL", script.text, len(keys), *keys, *arguments)


class Asking:
    """Around what asks Redis, and nothing of our own, whose faults are no outage. Raises Fenced, RedisIndexError.

    A search goes through three of them: as generators they took a seventh of what one does that was asked before.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FAILURES):
            raise translated(error) from error


def translated(exc: Exception) -> RedisIndexError:
    """What an exception of the library means here."""
    if isinstance(exc, ResponseError) and str(exc).startswith("FENCED"):
        return Fenced(str(exc))
    return RedisIndexError(f"{type(exc).__name__}: {exc}")
