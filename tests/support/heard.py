"""Waiting until a gateway has heard all that its simulated replicas have told."""

import re

import httpx
import zmq
import zmq.asyncio
from processes import eventually

_APPLIED = re.compile(r'^kvgate_kv_sequence\{.*replica="(.*?)".*\} (\S+)$', re.M)


async def last_told(client: httpx.AsyncClient, replica: str) -> int:
    """The number of the last message that a replica of one rank has published; -1 before the first."""
    source = (await client.get(f"http://{replica}/kv_event_sources")).json()["0"]
    last = -1
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(source["replay_endpoint"])
        await socket.send_multipart([b"", bytes(8)])
        while (sequence := int.from_bytes((await socket.recv_multipart())[-2], "big", signed=True)) >= 0:
            last = sequence
        socket.close(linger=0)
    return last


async def all_heard(gateway: str) -> None:
    """Wait until the last message of every replica has been applied."""
    async with httpx.AsyncClient() as client:
        replicas = (await client.get(gateway + "/readyz")).json()["replicas"]
        told = {replica: await last_told(client, replica) for replica in replicas}

        async def applied() -> bool:
            text = (await client.get(gateway + "/metrics")).text
            heard = {replica: int(float(sequence)) for replica, sequence in _APPLIED.findall(text)}
            return all(heard.get(replica, -1) >= sequence for replica, sequence in told.items())

        await eventually(applied, f"the gateway has heard {told}")
