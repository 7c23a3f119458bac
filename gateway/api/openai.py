"""What clients call: `/v1/...`, in OpenAI's form."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from random import getrandbits

from gateway.admission.admission import EVERYBODY, Admission, Place
from gateway.api.intake import Asked, Intake, take_in
from gateway.api.models import models
from gateway.api.parse import Body, session
from gateway.api.paths import REPORTS_USAGE, SCORED, UNSCORED, check
from gateway.api.refusal import Answer, refusal
from gateway.api.token_ids import TAKEN_ON, with_ids, without_ids
from gateway.choosing import Chooser, Found
from gateway.config import Limits
from gateway.errors import BadRequest, ClientGone, GatewayStopped
from gateway.l2.names import tags_of
from gateway.metrics import Metrics
from gateway.prompt.result import Reason
from gateway.reading import Reading
from gateway.relay.asgi import AsgiClient, Receive, Scope, Send
from gateway.relay.attempts import Attempts
from gateway.relay.client import Client
from gateway.relay.inbound import Inbound
from gateway.relay.response import Outcome
from gateway.relay.splice import set_member
from gateway.relay.trace import Tracer
from gateway.relay.watch import ClientWatch
from gateway.stored import PATH as STORED
from gateway.stored import StoredAnswers, stored_id
from routing.decision import RouteRequest
from routing.fleet import Fleet
from routing.policies import Policy, PrefixSource

logger = logging.getLogger(__name__)

_INCLUDE_USAGE = b'{"include_usage":true}'
_GIVEN_ID = re.compile(rb"[ -~]{1,128}")
"""an id of the client's own that is kept: it goes into headers and log lines"""
_LOGGED_PATH = 256
"""bytes of a path that nobody knows"""
_NOT_READ = Reading(RouteRequest(None))
_ENDPOINT = Reading(RouteRequest(None), (), Reason.ENDPOINT)
_NOT_LOOKED_UP = Found()


class OpenAI:
    """Answers everything under `/v1/`. An ASGI application too, for other servers than ours.

    now: seconds of a monotonic clock. log: `RequestLog.unanswered`.
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
        admission: Admission | None,
        aliases: Mapping[str, str],
        now: Callable[[], float],
        log: Callable[[str, str, str, str, str, int, float, str], None],
        reads_all: bool = False,
        tracer: Tracer | None = None,
    ) -> None:
        self._chooser = chooser
        self._fleet = fleet
        self._attempts = attempts
        self._limits = limits
        self._metrics = metrics
        self._stored = stored
        self._admission = admission
        self._aliases = aliases
        self._now = now
        self._log = log
        self._reads_all = reads_all
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for `http` scopes."""
        client = AsgiClient(scope, receive, send)
        await self.answer(client)
        await client.drain()

    async def answer(self, client: Client) -> None:
        """Answer one request."""
        request = Asked(client, _request_id(client), self._now())
        if self._tracer is not None:
            request.trace = self._tracer.begin(client, request.id)
        try:
            await self._serve(request)
        except ClientGone:
            self._unanswered(request, "client_gone", None, "ClientGone")
        except asyncio.CancelledError:  # by the server, which stops and has waited as long as it does
            self._refuse(request, GatewayStopped())
        except Exception as exc:
            self._refuse(request, exc)

    def _refuse(self, request: Asked, exc: Exception) -> None:
        answer = refusal(exc)
        if answer.status == 500:
            logger.error("request %s failed", request.id, exc_info=exc)
        self._unanswered(request, "refused", answer.status, getattr(exc, "reason", type(exc).__name__))
        _answer(request.client, answer, request.id)

    def _unanswered(self, request: Asked, how: str, status: int | None, reason: str) -> None:
        """Enter a request that ended without a replica's answer."""
        request.end(status)
        model, path = self._known(request.model), request.client.target.partition(b"?")[0][:_LOGGED_PATH]
        self._metrics.requests.labels(model, "", "", how, "" if status is None else str(status)).inc()
        duration = self._now() - request.arrived
        self._log(request.id, model, request.tenant, path.decode("latin-1"), how, status or 0, duration, reason)

    async def _serve(self, request: Asked) -> None:
        """Read the request, let it in where that is asked for, and send it on. Raises what `refusal` knows."""
        client, admission = request.client, self._admission
        method, path, fields = client.method, client.path, client.fields
        tenant = EVERYBODY if admission is None else admission.tenant(fields)
        request.tenant = tenant.name
        if path == "/v1/models" and method == "GET":
            _answer(client, models(self._fleet, self._aliases, tenant), request.id)
            self._unanswered(request, "complete", 200, "answered by the gateway")
            return
        check(method, path)
        kept = path.startswith(STORED + "/")
        intake = await take_in(client, self._limits, self._now, forms=path in UNSCORED, tells=not kept)
        body, plain = intake.body, intake.plain
        named = body.model
        request.model = model = named if named is not None else self._fleet.only_model()
        if named is not None and named in self._aliases:
            request.model = model = self._aliases[named]
            plain = intake.renamed(model)
        elif intake.more and named is None:
            intake.expect(model)
        plain = without_ids(plain, body.kv_transfer_params)
        watch = ClientWatch(client)
        if admission is None:
            await self._send_on(request, intake, plain, None, watch)
            return
        if not kept:
            admission.allow(tenant, named or model)
        if path in SCORED:
            plain = admission.salted(tenant, plain, body.cache_salt)
        place = await admission.enter(tenant, fields, 0 if intake.form else len(plain), watch)
        outcome = None
        try:
            outcome = await self._send_on(request, intake, plain, place, watch)
        finally:
            place.leave(outcome)

    async def _send_on(
        self, request: Asked, intake: Intake, plain: bytes, place: Place | None, watch: ClientWatch
    ) -> Outcome:
        """Find out who holds the prompt and let one replica answer. plain: the body's text as it is to be sent."""
        client, body, model = request.client, intake.body, request.model
        path = client.path
        policy = self._policy(client.fields, path, model)
        if path not in SCORED:
            reading, found = _ENDPOINT if path in UNSCORED else _NOT_READ, _NOT_LOOKED_UP
        elif self._reads_all or self._chooser.reads_for(policy).source is not PrefixSource.NONE:
            with watch:
                reading = await self._chooser.request(path, model, plain)
                found = await self._chooser.look_up(reading, policy, tags_of(body.kv_transfer_params))
        else:
            reading, found = _NOT_READ, _NOT_LOOKED_UP
        if reading.reason is not None:
            self._metrics.unscored.labels(self._known(model), path, reading.reason.value).inc()
        if reading.tokens and not intake.encoded and self._sends_ids(path, body, reading):
            plain = with_ids(plain, body.kv_transfer_params, reading.tokens[0])
        limited = place is not None and place.tenant.tokens_per_minute is not None  # what is not counted would be free
        hide_usage = path in REPORTS_USAGE and body.lacks_usage and (limited or not intake.encoded)
        if hide_usage:
            plain = set_member(plain, "stream_options", _INCLUDE_USAGE)
        single = len(reading.tokens) == 1 and reading.route.whole and body.n in (None, 1)
        total = self._limits.total_timeout
        deadline = None if total is None else request.arrived + total
        raw = intake.sent(plain)
        inbound = Inbound(
            client, request.id, model or "", raw, hide_usage, request.arrived, single, deadline, reading.route.prompts,
            place.tenant.name if place else "", place.waited if place else 0.0,
            intake.upload(client, raw, self._limits.upload_bytes), request.trace,
            self._stored.store if path == STORED else None, path in SCORED or path in UNSCORED, intake.took,
        )  # fmt: skip
        holder = self._stored.holder(stored_id(path, body.previous_response_id))
        named = session(client.fields, body)
        route = RouteRequest(model, reading.route.prompts, holder, named)
        return await self._attempts.run(inbound, route, found, policy, watch)

    def _sends_ids(self, path: str, body: Body, reading: Reading) -> bool:
        wanted = body.model is not None and path in TAKEN_ON and self._chooser.sends_token_ids(body.model)
        given = body.kv_transfer_params
        return (
            wanted and len(reading.tokens) == 1 and reading.route.whole and (given is None or isinstance(given, dict))
        )

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


def _request_id(client: Client) -> str:
    """The client's, or one that is made for it."""
    given = client.fields.get(b"x-request-id")
    if given is not None and _GIVEN_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{getrandbits(128):032x}"


def _answer(client: Client, answer: Answer, request_id: str) -> None:
    client.start(answer.status, [*answer.headers, (b"x-request-id", request_id.encode("latin-1"))])
    client.write(answer.body, more=False)
