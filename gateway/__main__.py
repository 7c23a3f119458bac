"""The command line: `kvgate serve`, and the commands that other packages add."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from gateway.config import Config, ConfigError, load
from routing.policies import POLICIES

COMMANDS = "kvgate.commands"
"""Entry points of this group are subcommands; so this package needs to import none of theirs."""


class Command(Protocol):
    """A subcommand."""

    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say what it takes."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it. Returns the exit status."""
        ...


class Serve:
    """Runs the gateway."""

    help = "run the gateway"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """--config for the full form, --replica for none."""
        parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with all settings")
        parser.add_argument(
            "--replica",
            action="append",
            default=[],
            metavar="URL",
            help="a vLLM server; once for each (no file needed)",
        )
        parser.add_argument("--policy", metavar="NAME", help=f"{', '.join(POLICIES)} (default kv-aware)")
        parser.add_argument("--host", help="address to listen on (default 0.0.0.0)")
        parser.add_argument("--port", type=int, help="port to listen on (default 8080)")
        parser.add_argument(
            "--workers", type=int, default=1, metavar="N", help="processes that serve the port (default 1)"
        )
        # Which one of them this is; they are started with it.
        parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace) -> int:
        """Serve until told to stop. Returns 2 for a configuration that can't be used."""
        config = _configuration(args)
        if config is None:
            return 2
        if args.workers > 1 and config.index.redis_url is None:
            print("--workers: each would know only what its own streams tell; set index.redis_url", file=sys.stderr)
            return 2
        if args.workers > 1 and args.worker is None:
            from gateway.workers import supervise

            return supervise(config, args.workers, args.argv)
        from gateway.serve import serve  # the parts that take a second to import

        return serve(config, args.config, lambda fresh: with_arguments(fresh, args), args.worker)


class Check:
    """Looks for what would cost hits in silence."""

    help = "ask every replica for what would cost hits in silence"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """--config, or --replica."""
        parser.add_argument("--config", type=Path, metavar="FILE", help="the gateway's YAML file")
        parser.add_argument(
            "--replica", action="append", default=[], metavar="URL", help="a vLLM server; once for each"
        )
        parser.add_argument(
            "--kubernetes", action="store_true", help="look at the engines' pods too: what keeps them from sharing"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print what is found. Returns 1 if anything costs hits, 2 for a configuration that can't be used."""
        from rich.console import Console

        from gateway.check import check, check_kubernetes, show

        config = _configuration(args)
        if config is None:
            return 2
        findings = asyncio.run(check(config))
        if args.kubernetes:
            findings += asyncio.run(check_kubernetes(config))
        show(findings, Console())
        return int(any(finding.faults for finding in findings))


class Top:
    """Shows a gateway's fleet and traffic in the terminal."""

    help = "show a gateway's fleet, traffic and slowest decisions in the terminal"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which gateway."""
        parser.add_argument(
            "url", nargs="?", default="http://127.0.0.1:8080", help="the gateway's (default http://127.0.0.1:8080)"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Show until interrupted. Returns 1 where the gateway does not answer."""
        from rich.console import Console

        from gateway.top import top

        return top(args.url.rstrip("/"), Console())


def _configuration(args: argparse.Namespace) -> Config | None:
    """What the file and the command line say. Prints why and returns None where that can't be used."""
    try:
        config = with_arguments(load(args.config) if args.config else Config(), args)
    except ConfigError as exc:
        print(exc, file=sys.stderr)
        return None
    return config


def with_arguments(config: Config, args: argparse.Namespace) -> Config:
    """The configuration with what the command line says put over it. Raises ConfigError."""
    changes: dict[str, object] = {}
    if args.replica:
        changes["replicas"] = [{"url": url} for url in args.replica]
    given = vars(args)
    if given.get("policy"):
        changes["policy"] = args.policy
    listen = {key: given[key] for key in ("host", "port") if given.get(key) is not None}
    if listen:
        changes["listen"] = {**config.listen.model_dump(), **listen}
    if changes:
        from pydantic import ValidationError

        try:
            config = Config.model_validate({**config.model_dump(exclude_unset=True), **changes})
        except ValidationError as exc:
            error = exc.errors()[0]
            raise ConfigError(f"--{error['loc'][0]}: {error['msg'].removeprefix('Value error, ')}") from exc
    if not config.replicas and not config.discovery:  # such as a file that is being written
        raise ConfigError("no replica is named: give --replica URL or --config FILE")
    return config


def command_line(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of all commands; what it parses has the command's name as `command`."""
    parser = argparse.ArgumentParser(
        prog="kvgate", description="Sends each request to the vLLM replica where its first token comes soonest."
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in commands.items():
        command.add_arguments(subparsers.add_parser(name, help=command.help, description=command.help))
    return parser


def all_commands() -> Mapping[str, Command]:
    """The gateway's own commands and those that other packages add."""
    commands: dict[str, Command] = {"serve": Serve(), "check": Check(), "top": Top()}
    for entry in entry_points(group=COMMANDS):
        commands[entry.name] = entry.load()()
    return commands


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    # The library would say on every start that it found no PyTorch, which a tokenizer does not need.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    commands = all_commands()
    argv = sys.argv[1:] if argv is None else argv
    args = command_line(commands).parse_args(argv, argparse.Namespace(argv=argv))
    return commands[args.command].run(args)


if __name__ == "__main__":
    sys.exit(main())
