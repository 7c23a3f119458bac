"""Dynamo's own frontend and KV router in front of OpenAI-compatible replicas.

    python -m loadtest.dynamo --port PORT REPLICA=EVENTS...

For the Python of an environment with `ai-dynamo`, from this folder's root. Dynamo's workers speak a protocol of its
own, so each replica gets one that passes on what it is asked; where they are is told through files. REPLICA, EVENTS:
URLs of a replica and of its KV events. Other options, as one word each, go to the frontend.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path

TOKENIZER = Path(__file__).parents[1] / "replica" / "tokenizer"
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 131_072,
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
}
"""what the frontend wants to know of a model; weights are not looked at"""
REGISTERED_SECONDS = 60.0
"""how long a worker may take until it is known"""
STOP_SECONDS = 2.0


async def run(port: int, replicas: list[str], options: list[str]) -> int:
    """Serve until SIGTERM or SIGINT, or until one of the processes ends. Returns the exit status."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        shutil.copytree(TOKENIZER, model)
        (model / "config.json").write_text(json.dumps(MODEL))
        loopback = {"DYN_TCP_RPC_HOST": "127.0.0.1", "HF_HUB_OFFLINE": "1"}
        environment = {**os.environ, **loopback, "DYN_FILE_KV": str(Path(folder) / "found")}
        started: list[Process] = []
        try:
            for replica in replicas:
                url, _, events = replica.partition("=")
                command = ["loadtest.dynamo.worker", url, events, str(model)]
                started.append(await _start(command, environment, stdout=PIPE))
            registered = [asyncio.Event() for _ in started]
            telling = [asyncio.create_task(_told(*pair)) for pair in zip(started, registered, strict=True)]
            await asyncio.wait_for(asyncio.gather(*(one.wait() for one in registered)), REGISTERED_SECONDS)
            frontend = ["dynamo.frontend", "--router-mode", "kv", "--discovery-backend", "file", "--event-plane", "zmq"]
            frontend += ["--http-host", "127.0.0.1", "--http-port", str(port), *options]
            started.append(await _start(frontend, environment))
            stopping = [asyncio.create_task(started[-1].wait()), asyncio.create_task(ended.wait())]
            await asyncio.wait([*telling, *stopping], return_when=asyncio.FIRST_COMPLETED)
            return 0 if ended.is_set() else 1
        finally:
            await asyncio.gather(*map(_stop, started))


async def _start(command: list[str], environment: dict[str, str], stdout: int | None = None) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", *command, env=environment, stdout=stdout)


async def _told(worker: Process, registered: asyncio.Event) -> None:
    """Read what a worker says until it ends."""
    assert worker.stdout is not None
    async for line in worker.stdout:
        if line.strip() == b"registered":
            registered.set()
        else:
            sys.stdout.buffer.write(line)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
    if process.returncode is None:
        process.kill()
        await process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.dynamo", description="Dynamo in front of replicas")
    parser.add_argument("--port", type=int, required=True, help="where the frontend listens")
    parser.add_argument("replicas", nargs="+", metavar="REPLICA=EVENTS")
    args, options = parser.parse_known_args()
    return asyncio.run(run(args.port, args.replicas, options))


if __name__ == "__main__":
    sys.exit(main())
