"""What clients call: `/v1/...`, in OpenAI's form."""

import logging
from collections.abc import Callable, Mapping
from random import getrandbits

from gateway.api.parse import Body, parse, session
from gateway.api.paths import REPORTS_USAGE, SCORED, UNSCORED, check
from gateway.api.refusal import Answer, json_answer, refusal
from gateway.api.token_ids import TAKEN_ON, with_ids, without_ids
from gateway.choosing import Chooser
from gateway.config import Limits
from gateway.errors import BadRequest, ClientGone
from gateway.l2.names import tags_of
from gateway.metrics import Metrics
from gateway.prompt.reader import unread
from gateway.reading import Reading
from gateway.relay.asgi import AsgiClient, Receive, Scope, Send
from gateway.relay.attempts import Attempts
from gateway.relay.client import Client
from gateway.relay.inbound import Inbound
from gateway.relay.splice import set_member
from gateway.relay.watch import ClientWatch
from gateway.stored import PATH as STORED
from gateway.stored import StoredAnswers, stored_id
from routing.decision import RouteRequest
from routing.fleet import Fleet
from routing.policies import Policy, PrefixSource

logger = logging.getLogger(__name__)

_INCLUDE_USAGE = b'{"include_usage":true}'


class OpenAI:
    """Answers everything under `/v1/`. An ASGI application too, for other servers than ours.

    now: seconds of a monotonic clock.
    reads_all: whether prompts are read even where the policy does not look at them, because the traffic log does.
    """

    def __init__(
        self,
        chooser: Chooser,
        fleet: Fleet,
        attempts: Attempts,
        limits: Limits,
        metrics: Metrics,
        stored: StoredAnswers,
        now: Callable[[], float],
        reads_all: bool = False,
    ) -> None:
        self._chooser = chooser
        self._fleet = fleet
        self._attempts = attempts
        self._limits = limits
        self._metrics = metrics
        self._stored = stored
        self._now = now
        self._reads_all = reads_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for `http` scopes."""
        client = AsgiClient(scope, receive, send)
        await self.answer(client)
        await client.drain()

    async def answer(self, client: Client) -> None:
        """Answer one request."""
        arrived = self._now()
        fields = client.fields
        request_id = fields.get(b"x-request-id", b"").decode("latin-1") or f"{getrandbits(128):032x}"
        model = None
        try:
            method, path = client.method, client.path
            if path == "/v1/models" and method == "GET":
                _answer(client, self._models(), request_id)
                return
            check(method, path)
            raw = await client.body(self._limits.body_bytes)
            multipart = fields.get(b"content-type", b"").startswith(b"multipart/")
            body = Body() if method == "GET" or multipart else parse(raw)
            model = body.model or self._fleet.only_model()
            raw = without_ids(raw, body.kv_transfer_params)
            policy = self._policy(fields, path, model)
            watch = ClientWatch(client)
            with watch:
                reading = await self._reading(path, model, raw, policy)
                found = await self._chooser.look_up(reading, policy, tags_of(body.kv_transfer_params))
            if self._sends_ids(path, body, reading):
                raw = with_ids(raw, body.kv_transfer_params, reading.tokens[0])
            hide_usage = path in REPORTS_USAGE and body.lacks_usage
            if hide_usage:
                raw = set_member(raw, "stream_options", _INCLUDE_USAGE)
            single = len(reading.tokens) == 1 and body.n in (None, 1)
            total = self._limits.total_timeout
            deadline = None if total is None else arrived + total
            inbound = Inbound(
                client, request_id, model or "", raw, hide_usage, arrived, single, deadline, reading.route.prompts
            )
            holder = self._stored.holder(stored_id(path, body.previous_response_id))
            route = reading.route._replace(replica=holder, session=session(fields, body))
            outcome, replica = await self._attempts.run(inbound, route, found, policy, watch)
            if outcome.answer_id and path == STORED:
                self._stored.store(outcome.answer_id, replica)
        except ClientGone:
            self._metrics.requests.labels(self._known(model), "", "", "client_gone", "").inc()
        except Exception as exc:
            answer = refusal(exc)
            if answer.status == 500:
                logger.exception("request %s failed", request_id)
            else:
                logger.info("request %s refused: %d %s", request_id, answer.status, type(exc).__name__)
            self._metrics.requests.labels(self._known(model), "", "", "refused", str(answer.status)).inc()
            _answer(client, answer, request_id)

    async def _reading(self, path: str, model: str | None, raw: bytes, policy: Policy) -> Reading:
        if path in UNSCORED:
            reading = Reading(RouteRequest(model), (), unread(path))
        elif policy.source is PrefixSource.NONE and not self._reads_all:
            return Reading(RouteRequest(model))
        else:
            reading = await self._chooser.request(path, model, raw)
        if reading.reason is not None:
            self._metrics.unscored.labels(self._known(model), path, reading.reason.value).inc()
        return reading

    def _sends_ids(self, path: str, body: Body, reading: Reading) -> bool:
        wanted = body.model is not None and path in TAKEN_ON and self._chooser.sends_token_ids(body.model)
        given = body.kv_transfer_params
        return wanted and len(reading.tokens) == 1 and (given is None or isinstance(given, dict))

    def _policy(self, fields: Mapping[bytes, bytes], path: str, model: str | None) -> Policy:
        if path not in SCORED:
            return self._chooser.least_loaded
        try:
            return self._chooser.policy(model, fields.get(b"x-kvgate-policy", b"").decode("latin-1") or None)
        except ValueError as exc:
            raise BadRequest(str(exc), "x-kvgate-policy") from exc

    def _known(self, model: str | None) -> str:
        """The model's name as a metric label: what clients make up would fill the memory."""
        return model if model is not None and self._fleet.serving(model) else ""

    def _models(self) -> Answer:
        cards = {card.id: card for engine in self._fleet for card in engine.replica.cards}
        data = [
            {"id": card.id, "object": "model", "created": card.created, "owned_by": card.owned_by,
             "root": card.root, "parent": card.parent, "max_model_len": card.max_model_len}
            for card in cards.values()
        ]  # fmt: skip
        return json_answer(200, {"object": "list", "data": data})


def _answer(client: Client, answer: Answer, request_id: str) -> None:
    client.start(answer.status, [*answer.headers, (b"x-request-id", request_id.encode("latin-1"))])
    client.write(answer.body, more=False)
