# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The HTTP side of the server: OpenAI's calls, events of the canvas, and a page."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import hmac
import json
import logging
import math
import pathlib
import time
import uuid
from typing import Any, AsyncIterator, Callable, Hashable, Iterator

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .. import __version__, _models, constraints, decisions
from .._refused import RefusedAt
from .batch import Batch, Canvas, Full, Job, Probable, View
from .fields import Asked, Decisions, Refused, parsed, read, read_decisions
from .metrics import OTHER, PATHS, Requests
from .models import Model
from .tools import MOST_STATES, Calls

DEFAULT_POLICY = "threshold(0.9) + stop_at_eos"
_logger = logging.getLogger("unmask.serve")
_ANSWERS_APART = 0.01  # seconds between two whole answers to one client, that end together
_AT_ONCE = 32 << 10  # bytes of a body that is read between two other requests
_DECISIONS_AT_ONCE = 4 << 10  # each option is a text for the tokenizer

PAGE = pathlib.Path(__file__).with_name("page.html")
COLOURS = PAGE.with_name("colours.css")  # the viewer's
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                               "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a server gives to a request."""

    body: int | None = None
    """Bytes of a body; None: 256 KiB, and 64 for each position of the model's context."""
    upload: float = 30.0
    """Seconds for the arrival of a body."""
    time: float = 600.0
    """Seconds from there to the end of the answer."""
    stalled: float = 30.0
    """Seconds that a client may take to accept an event."""
    state: int = 256 << 20
    """Bytes of memory of a policy, for one answer."""
    forwards: int | None = None
    """Forward passes that an answer may take; None: 512, and 32 for each of its positions."""
    headers: float = 10.0
    """Seconds for the arrival of a request's headers, under http_protocol()."""
    heartbeat: float = 10.0
    """Seconds after which a stream without an event has a comment."""
    apart: float = 0.05
    """Seconds between two responses to one client that are not answers of the model: refusals and pages. Ten may follow
    at once."""


class _Turns:
    """Work in threads, `most` at a time, `most` - 1 for one client. Clients take turns.

    rest  after each work, how many times its duration nothing follows it: for work that holds the interpreter's lock
    """

    def __init__(self, most: int, *, rest: float = 0.0) -> None:
        self._most, self._rest, self._running = most, rest, collections.Counter[Hashable]()
        self._waiting: collections.deque[tuple[Hashable, asyncio.Future[None]]] = collections.deque()
        self._last: dict[Hashable, int] = {}  # the number of each client's last turn
        self._turns = 0

    async def run(self, work: Callable[[], Any], client: Hashable) -> Any:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((client, turn))
        self._next()
        begin = None
        try:
            await turn
            begin = time.monotonic()
            return await anyio.to_thread.run_sync(work)
        finally:
            if turn.cancelled():
                self._waiting.remove((client, turn))
            elif begin is None or not self._rest:
                self._leave(client)
            else:
                asyncio.get_running_loop().call_later(self._rest * (time.monotonic() - begin), self._leave, client)

    def _leave(self, client: Hashable) -> None:
        self._running[client] -= 1
        self._next()

    def _next(self) -> None:
        """Gives a turn to the client whose last one is longest ago."""
        while self._running.total() < self._most:
            may = [item for item in self._waiting if self._running[item[0]] < max(1, self._most - 1) and not item[1].done()]
            if not may:
                break
            client, turn = item = min(may, key=lambda item: self._last.get(item[0], 0))
            self._waiting.remove(item)
            self._turns += 1
            self._last[client] = self._turns
            self._running[client] += 1
            turn.set_result(None)
        self._running = +self._running
        there = {client for client, _ in self._waiting} | set(self._running)
        self._last = {client: last for client, last in self._last.items() if client in there}


class _Spacing:
    """Pauses that keep what one client asks for `apart` seconds apart, except `at_once` of them."""

    def __init__(self, apart: float, at_once: int) -> None:
        self._apart, self._at_once = apart, at_once
        self._next: dict[Hashable, float] = {}  # when the last of each client's would come, were they all apart

    async def pause(self, client: Hashable) -> None:
        now = time.monotonic()
        if len(self._next) > 1024:
            self._next = {client: at for client, at in self._next.items() if at > now}
        at = max(self._next.get(client, 0.0), now) + self._apart
        self._next[client] = at
        if (wait := at - self._at_once * self._apart - now) > 0:
            await asyncio.sleep(wait)


class _Spaced:
    """Holds a client's responses that are not answers of the model until they are `apart` seconds apart, after ten at once.

    They cost no place in the batch, so that nothing else keeps one client from filling the event loop with them.
    """

    def __init__(self, app: Any, apart: float) -> None:
        self._app, self._spacing = app, _Spacing(apart, 10)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def spaced(message: Any) -> None:
            if message["type"] == "http.response.start" and (scope["method"] != "POST" or message["status"] != 200):
                await self._spacing.pause(scope["client"][0] if scope.get("client") else None)
            await send(message)

        await self._app(scope, receive, spaced)


@dataclasses.dataclass
class _Seen:
    """What is known of a request, for the log and the counters."""

    identifier: str
    policy: str | None = None
    jobs: list[Job] = dataclasses.field(default_factory=list)
    first: float | None = None
    """When the first text was sent."""
    error: str | None = None
    """failed, gone or stalled."""


class _Watched:
    """Counts requests, gives each an id, writes a line about each, and answers for those that fail."""

    def __init__(self, app: Any, counted: Requests) -> None:
        self._app, self._counted = app, counted

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begin, seen, status = time.monotonic(), _Seen(uuid.uuid4().hex), 0
        scope["unmask"] = seen

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", f"req-{seen.identifier}".encode())]}
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            seen.error = "gone"
        except Exception:
            _logger.exception("request req-%s failed", seen.identifier)
            seen.error = "failed"
            if status:  # an incomplete response closes the connection
                raise
            await _failed()(scope, receive, watched)
        finally:
            seconds = time.monotonic() - begin
            error = seen.error or (None if status else "gone")
            self._counted.ended(scope["path"], status or 499, seconds, error)
            if _logger.isEnabledFor(logging.INFO):
                _logger.info("%s", _line(scope, seen, status or 499, error, begin, seconds))


def _line(scope: Any, seen: _Seen, status: int, error: str | None, begin: float, seconds: float) -> str:
    """What the log has of a request: no text of a prompt or an answer."""
    path = scope["path"] if scope["path"] in PATHS else OTHER
    about: dict[str, Any] = {"id": f"req-{seen.identifier}", "client": scope["client"][0] if scope.get("client") else None,
                             "method": scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else OTHER, "path": path,
                             "status": status, "error": error}
    if seen.jobs:
        reports = [job.view.report for job in seen.jobs if job.view.report is not None]
        about |= {"policy": None if seen.policy is None else json.dumps(seen.policy[:200]), "answers": len(seen.jobs),
                  "prompt_tokens": sum(len(job.prompt) for job in seen.jobs), "tokens": sum(job.completion_tokens for job in seen.jobs),
                  "passes": sum(report.forwards for report in reports),
                  "first": None if seen.first is None else f"{seen.first - begin:.3f}"}
    return " ".join(f"{name}={value}" for name, value in {**about, "seconds": f"{seconds:.3f}"}.items() if value is not None)


class Server:
    """A Starlette application, `app`, that answers with `model`.

    policy    of requests that name none; by default the word of the model, or DEFAULT_POLICY, with which each setting of a
              request can be combined
    api_key   clients have to give it: "Authorization: Bearer KEY"
    hosts     names by which a client may call this server; None is any
    """

    def __init__(
        self,
        model: Model,
        *,
        policy: str | None = None,
        slots: int = 16,
        waiting: int = 512,
        branches: int = 0,
        threads: int = 1,
        api_key: str | None = None,
        hosts: list[str] | None = None,
        limits: Limits = Limits(),
    ) -> None:
        word = _models.of_served(model) if policy is None else None
        policy = policy if policy is not None else DEFAULT_POLICY if word is None else word.word
        self.model, self.policy, self.limits = model, policy, limits
        if api_key is not None and (not api_key.strip() or api_key != api_key.strip()):
            raise ValueError(f"api_key must be a text without space at its ends, got {api_key!r}; leave it out (and "
                             "UNMASK_API_KEY unset) to serve everybody who can connect")
        self._key = None if api_key is None else api_key.encode("utf-8", "surrogateescape")
        self._words = constraints.vocabulary(
            token_bytes=model.token_bytes, vocab=model.vocab, mask_token=model.mask_token, eos_token=model.eos_token,
            also_eos=model.also_eos)
        self._most_bytes = (256 << 10) + 64 * model.context if limits.body is None else limits.body
        self._most_values = 65536 + 64 * model.context
        self._compilers = _Turns(2)
        self._readers = _Turns(1, rest=4.0)
        self.writers = _Turns(1)
        self.answers = _Spacing(_ANSWERS_APART, 2)
        self.counted = Requests()
        self.batch = Batch(model, slots=slots, waiting=waiting, branches=branches, threads=threads)
        try:
            self.batch.check(policy)
        except ValueError:
            self.batch.close()
            raise
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._models),
                Route("/v1/models/{name}", self._model),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/decide", self._decide, methods=["POST"]),
            ],
            middleware=[Middleware(_Watched, counted=self.counted), Middleware(_Spaced, apart=limits.apart),
                        *([Middleware(TrustedHostMiddleware, allowed_hosts=hosts)] if hosts else [])],
            exception_handlers={Refused: _refused, HTTPException: _refused},
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(self.batch.close)

    async def _page(self, request: Request) -> Response:
        page = PAGE.read_text(encoding="utf-8").replace("/*COLOURS*/", COLOURS.read_text(encoding="utf-8"))
        numbers = _models.of_policy(self.policy) or self.model
        given = json.dumps({
            "model": self.model.name, "policy": self.policy, "length": numbers.answer_length,
            "block_length": min(numbers.block_length or numbers.answer_length, numbers.answer_length), "key": self._key is not None,
        }).replace("<", "\\u003c")
        return HTMLResponse(page.replace("/*SETTINGS*/null", given), headers=_SECURITY)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", **self.batch.load()})

    async def _metrics(self, request: Request) -> Response:
        self._authorise(request)
        return PlainTextResponse(self.counted.text(self.batch.load(), self.batch.counted), media_type="text/plain; version=0.0.4")

    def _described(self) -> dict[str, Any]:
        return {"id": self.model.name, "object": "model", "created": 0, "owned_by": "unmask",
                "context_length": self.model.context, "policy": self.policy}

    async def _models(self, request: Request) -> Response:
        self._authorise(request)
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def _model(self, request: Request) -> Response:
        self._authorise(request)
        name = request.path_params["name"]
        if name != self.model.name:
            raise Refused(f"model must be {self.model.name!r}, got {name!r}", "model", status=404, code="model_not_found")
        return JSONResponse(self._described())

    def _authorise(self, request: Request) -> None:
        if self._key is None:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode("latin-1"), self._key):
            raise Refused("this server needs its key: Authorization: Bearer KEY", status=401, code="invalid_api_key")

    async def _chat(self, request: Request) -> Response:
        return await self._answer(request, chat=True)

    async def _completions(self, request: Request) -> Response:
        return await self._answer(request, chat=False)

    async def _decide(self, request: Request) -> Response:
        asked, client = await self._read(
            request, lambda body: read_decisions(parsed(body, self._most_values), self.batch), _DECISIONS_AT_ONCE)
        return _Decided(self, asked, client, request.scope["unmask"])

    async def _read(self, request: Request, read_body: Callable[[bytes], Any], at_once: int = _AT_ONCE) -> tuple[Any, Hashable]:
        """What a body asks for, read in a thread if it is long, and the client."""
        self._authorise(request)
        body = await self._body(request)
        client = request.client.host if request.client else None
        return read_body(body) if len(body) <= at_once else await self._readers.run(lambda: read_body(body), client), client

    async def _answer(self, request: Request, *, chat: bool) -> Response:
        asked, client = await self._read(request, lambda body: read(
            parsed(body, self._most_values), self.batch, chat=chat, policy=self.policy, most_state=self.limits.state,
            most_forwards=self.limits.forwards))
        seen = request.scope["unmask"]
        seen.policy = asked.policy
        return _Answers(self, asked, client, await self._constraint(asked, client), _Shape(self.model, asked, chat, seen.identifier), seen)

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a page of another site may send other types without asking
            raise Refused(f"Content-Type must be application/json, got {kind!r}", status=415)
        body = bytearray()
        size = request.headers.get("content-length", "0")
        with anyio.move_on_after(self.limits.upload):
            async for part in request.stream():
                # A client reads the answer when it has sent everything: the rest is dropped as it comes.
                if int(size) <= self._most_bytes and len(body) <= self._most_bytes:
                    body += part
            if int(size) <= self._most_bytes and len(body) <= self._most_bytes:
                return bytes(body)
        if int(size) > self._most_bytes or len(body) > self._most_bytes:
            raise Refused(f"the body must have at most {self._most_bytes} bytes, got {max(int(size), len(body))} or more",
                          status=413)
        raise Refused(f"the body must arrive within {self.limits.upload:g} s", status=408)

    async def _constraint(self, asked: Asked, client: Hashable) -> Any:
        if asked.language is None:
            return None
        kind, value, field = asked.language.kind, asked.language.of, asked.language.field
        options = {"states": MOST_STATES}
        if kind in ("json", "structural_tag"):  # a power of 2, as results are kept by it
            options["longest"] = 1 << (asked.length * self.batch.longest_token).bit_length()

        def make() -> Any:
            return value.language(self._words) if kind == "tools" else constraints.KINDS[kind](value, self._words, **options)

        try:
            made = await self._compilers.run(make, client)
            if kind == "tools" and made.shortest > asked.length:
                raise Refused(f"{asked.length_field} must be at least {made.shortest}, the fewest tokens of a call, got {asked.length}",
                              asked.length_field)
            return made
        except RefusedAt as error:
            raise Refused(f"{error.place}: {error}", error.place) from None
        except (ValueError, RuntimeError) as error:
            raise Refused(str(error), field) from None


def _log(x: float) -> float:
    """A logarithm as JSON has it; OpenAI says -9999 for a token that is not possible."""
    return max(x, -9999.0)


class _Shape:
    """The objects of one request's answers, as OpenAI has them."""

    def __init__(self, model: Model, asked: Asked, chat: bool, identifier: str) -> None:
        self._asked, self._chat = asked, chat
        self._token_bytes = model.token_bytes
        self._object = "chat.completion" if chat else "text_completion"
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + identifier,
            "created": int(time.time()),
            "model": model.name,
            "system_fingerprint": f"unmask-{__version__}",
        }

    def usage(self, jobs: list[Job]) -> dict[str, Any]:
        reports = [job.view.report for job in jobs if job.view.report is not None]
        forwards, committed = sum(r.forwards for r in reports), sum(r.committed for r in reports)
        prompt = sum(map(len, self._asked.prompts))
        completion = sum(job.completion_tokens for job in jobs)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
                "forwards": forwards, "tokens_per_forward": committed / forwards if forwards else 0.0}

    def whole(self, jobs: list[Job]) -> list[bytes]:
        """The answers in pieces, one for each: log-probabilities may have megabytes."""
        def choice(index: int, job: Job) -> dict[str, Any]:
            view = job.view
            finish = view.finish_reason
            if not self._chat:
                said: dict[str, Any] = {"text": view.text}
            elif (calls := self.calls()) is None:
                said = {"message": {"role": "assistant", "content": view.text, "refusal": None}}
            else:
                calls.read(view.text, last=True)
                content = calls.content if calls.content or not calls.calls else None
                said = {"message": {"role": "assistant", "content": content, "refusal": None}}
                if calls.calls:
                    said["message"]["tool_calls"] = [
                        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                        for call in calls.calls]
                    finish = self._finish(calls, finish)
            return {"index": index, **said, "logprobs": self._logprobs(job), "finish_reason": finish}

        def written(value: Any) -> bytes:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

        around = {**self._head, "object": self._object, "choices": [], "usage": self.usage(jobs), "policy": self._asked.policy,
                  "seed": self._asked.seed}
        before, _, after = written(around).partition(b'"choices":[]')
        return [before + b'"choices":[', *(b"," * (i > 0) + written(choice(i, job)) for i, job in enumerate(jobs)), b"]" + after]

    def _bytes(self, token: int) -> bytes:
        return self._token_bytes[token]

    def _logprobs(self, job: Job) -> dict[str, Any] | None:
        """Those of the steps that committed the tokens."""
        if job.alternatives is None:
            return None
        known = job.probable()
        if not self._chat:
            def by_text(p: Probable) -> dict[str, float]:
                return {self._bytes(t).decode("utf-8", "replace"): _log(x) for t, x in reversed(p.alternatives)}

            return {"tokens": [self._bytes(p.token).decode("utf-8", "replace") for _, p in known],
                    "token_logprobs": [_log(p.log_probability) for _, p in known],
                    "top_logprobs": [by_text(p) for _, p in known] if job.alternatives else None,
                    "text_offset": [begin for begin, _ in known]}

        def said(token: int, log_probability: float) -> dict[str, Any]:
            text = self._bytes(token)
            return {"token": text.decode("utf-8", "replace"), "logprob": _log(log_probability), "bytes": list(text)}

        return {"content": [{**said(p.token, p.log_probability), "top_logprobs": [said(*a) for a in p.alternatives]}
                            for _, p in known], "refusal": None}

    def begin(self, index: int) -> dict[str, Any] | None:
        return self._part(index, {"delta": {"role": "assistant", "content": ""}}, None) if self._chat else None

    def calls(self) -> Calls | None:
        """What reads the calls of an answer that may have some."""
        language = self._asked.language
        return Calls(language.of.form) if language is not None and language.kind == "tools" else None

    @staticmethod
    def _finish(calls: Calls, reason: str | None) -> str | None:
        return "tool_calls" if reason == "stop" and calls.calls and calls.calls[-1].ended else reason

    def pieces(self, index: int, calls: Calls, more: str, finish_reason: str | None) -> Iterator[dict[str, Any]]:
        """The chunks of more text of an answer that may have calls."""
        content, begun = len(calls.content), len(calls.calls)
        written = len(calls.calls[-1].arguments) if calls.calls else 0
        calls.read(more, last=finish_reason is not None)
        if calls.content[content:]:
            yield self._part(index, {"delta": {"content": calls.content[content:]}}, None)
        for i, call in enumerate(calls.calls[max(0, begun - 1) :], max(0, begun - 1)):
            if i >= begun:
                head = {"index": i, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
                yield self._part(index, {"delta": {"tool_calls": [head]}}, None)
            if arguments := call.arguments[written if i < begun else 0 :]:
                yield self._part(index, {"delta": {"tool_calls": [{"index": i, "function": {"arguments": arguments}}]}}, None)
        if finish_reason is not None:
            yield self._part(index, {"delta": {}}, self._finish(calls, finish_reason))

    def piece(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        if not self._chat:
            return self._part(index, {"text": text}, finish_reason)
        return self._part(index, {"delta": {"content": text} if text or finish_reason is None else {}}, finish_reason)

    def _part(self, index: int, said: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        return {**self._head, "object": self._object + ".chunk" * self._chat,
                "choices": [{"index": index, **said, "logprobs": None, "finish_reason": finish_reason}]}

    def last(self, jobs: list[Job]) -> dict[str, Any]:
        return {**self._head, "object": self._object + ".chunk" * self._chat, "choices": [], "usage": self.usage(jobs),
                "policy": self._asked.policy, "seed": self._asked.seed}

    def canvas(self, index: int, view: View, canvas: Canvas, model: Model) -> dict[str, Any]:
        def text(token: int) -> str:
            return model.token_bytes[token].decode("utf-8", "replace")

        return {
            "id": self._head["id"],
            "object": "unmask.canvas",
            "index": index,
            "pass": view.report.forwards if view.report else 0,
            "committed_prefix": canvas.committed_prefix,
            "tokens": [text(t) if p else None for t, p in zip(canvas.tokens, canvas.passes)],
            "passes": canvas.passes,
            "provisional": [[place, text(token), round(confidence, 4)] for place, token, confidence in canvas.proposed],
        }


class _Submitted(Response):
    """Submits the jobs of a request and answers with them; they are given up when the client is gone."""

    _jobs: list[Job]

    def __init__(self, server: Server, client: Hashable, seen: _Seen, *, stream: bool = False) -> None:
        self._server, self._client, self._seen, self._is_stream = server, client, seen, stream
        self.background = None

    def _made(self, changed: Callable[[], None]) -> list[Job]:
        """The jobs."""
        raise NotImplementedError

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        """Waits for the jobs and answers."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

        def changed() -> None:  # called by the thread of the batch
            views = [job.view for job in self._jobs]
            if not self._is_stream and not all(view.ended for view in views) and all(view.error is None for view in views):
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._changed.set)

        self._jobs = self._seen.jobs = self._made(changed)
        try:
            self._server.batch.submit(self._jobs)
        except Full as full:
            return await _error(_too_many(full))(scope, receive, send)

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        answer = asyncio.ensure_future(self._respond(scope, receive, send))
        gone = asyncio.ensure_future(leave())
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in self._jobs:
                job.gone = True
            gone.cancel()
            if not answer.done():
                self._seen.error = "gone"
                answer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answer

    async def _until(self, ready: Callable[[], bool], deadline: float, until: Callable[[], float] = lambda: math.inf) -> bool:
        """Waits for a change after which something holds; Refused when the time is over or an answer failed.

        Returns whether it holds: False at the time `until`.
        """
        while True:
            self._changed.clear()
            is_ready = ready()  # first: the batch may set an error, which ends a job, at any time
            for job in self._jobs:
                error = job.view.error
                if isinstance(error, (ValueError, TypeError)):
                    raise Refused(str(error))
                if isinstance(error, Full):
                    raise _too_many(error)
                if error is not None:
                    raise Refused(str(error), status=503 if isinstance(error, ConnectionError) else 500)
            if is_ready:
                return True
            try:
                await asyncio.wait_for(self._changed.wait(), max(0.0, min(deadline, until()) - time.monotonic()))
            except asyncio.TimeoutError:
                if time.monotonic() < deadline:
                    return False
                raise Refused(f"the answer was not complete within {self._server.limits.time:g} s", status=504) from None

    async def _once(self, scope: Any, receive: Any, send: Any, whole: Callable[[], list[bytes]], *, at_once: bool) -> None:
        """Answers with what `whole` makes of the jobs at their end, in a thread unless that takes no time."""
        deadline = time.monotonic() + self._server.limits.time
        try:
            await self._until(lambda: all(job.view.ended for job in self._jobs), deadline)
        except Refused as error:
            return await _error(error)(scope, receive, send)
        await self._server.answers.pause(self._client)
        pieces = whole() if at_once else await self._server.writers.run(whole, self._client)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(sum(map(len, pieces))).encode())]
        self._seen.first = time.monotonic()
        try:
            await self._put(send, {"type": "http.response.start", "status": 200, "headers": headers})
            for piece in pieces:
                await self._put(send, {"type": "http.response.body", "body": piece, "more_body": True})
            await self._put(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.TimeoutError:  # the client reads nothing
            self._seen.error = "stalled"

    async def _put(self, send: Any, message: dict[str, Any]) -> None:
        await asyncio.wait_for(send(message), self._server.limits.stalled)


class _Decided(_Submitted):
    """Decisions: a job for each pass."""

    def __init__(self, server: Server, asked: Decisions, client: Hashable, seen: _Seen) -> None:
        super().__init__(server, client, seen)
        self._asked = asked
        self._read: dict[int, list[Any]] = {}

    def _made(self, changed: Callable[[], None]) -> list[Job]:
        layout, model = self._asked.layout, self._server.model
        first = int(layout.masked.argmax())

        def job(number: int, one: decisions.Pass) -> Job:
            def read_rows(rows: slice, logits: Any) -> None:
                self._read[number] = decisions.log_probabilities(
                    one, lambda positions: logits[positions - model.logits_shift - rows.start], mask_token=model.mask_token,
                    vocab=model.vocab, temperature=self._asked.temperature)

            tokens = layout.sequence(one).tolist()
            length = len(tokens) - first
            return Job(tokens[:first], length, f"tokens_per_step({length})", block_length=length, answer=tokens[first:], read=read_rows,
                       client=self._client, changed=changed)

        return [job(number, one) for number, one in enumerate(self._asked.passes)]

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        await self._once(scope, receive, send, self._whole, at_once=False)

    def _whole(self) -> list[bytes]:
        layout, model = self._asked.layout, self._server.model
        found = layout.decisions(self._asked.passes, [self._read[i] for i in range(len(self._asked.passes))])
        answers = {}
        for name, decision in found.items():
            about: dict[str, Any] = {"answer": decision.answer, "probabilities": None if decision.answer is None else {
                value if isinstance(value, str) else json.dumps(value): p for value, p in decision.probabilities.items()}}
            if decision.mean is not None:
                about["mean"] = decision.mean
            answers[name] = {**about, "mass": decision.mass if math.isfinite(decision.mass) else None}
        masks = int(layout.masked.sum())
        given = len(layout.tokens) - masks
        return [json.dumps({
            "id": "decide-" + self._seen.identifier, "object": "decision", "created": int(time.time()), "model": model.name,
            "system_fingerprint": f"unmask-{__version__}", "answers": answers,
            "usage": {"prompt_tokens": given, "completion_tokens": masks, "total_tokens": given + masks,
                      "forwards": len(self._asked.passes)},
        }, ensure_ascii=False, separators=(",", ":")).encode()]


class _Answers(_Submitted):
    """The answers of a model to a chat or a prompt."""

    def __init__(self, server: Server, asked: Asked, client: Hashable, constraint: Any, shape: _Shape, seen: _Seen) -> None:
        super().__init__(server, client, seen, stream=asked.stream)
        self._asked, self._shape, self._constraint = asked, shape, constraint

    def _made(self, changed: Callable[[], None]) -> list[Job]:
        asked = self._asked
        return [
            Job(prompt, asked.length, asked.policy, beyond=0 if asked.word is None else
                asked.word.length(len(prompt), asked.length) - len(prompt) - asked.length, block_length=asked.block_length, seed=asked.seed, sequence=i,
                constraint=self._constraint, stop=asked.stop, canvas=asked.canvas,
                alternatives=asked.alternatives, edits=asked.edits, client=self._client, changed=changed)
            for prompt in asked.prompts for i in range(asked.choices)
        ]

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        if self._asked.stream:
            return await self._stream(scope, receive, send)
        await self._once(scope, receive, send, lambda: self._shape.whole(self._jobs), at_once=self._asked.alternatives is None)

    async def _stream(self, scope: Any, receive: Any, send: Any) -> None:
        deadline = time.monotonic() + self._server.limits.time
        try:  # what start() refuses has the status of an error
            await self._until(lambda: any(job.view.started for job in self._jobs), deadline)
        except Refused as error:
            return await _error(error)(scope, receive, send)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"),
                   (b"x-accel-buffering", b"no")]

        async def event(value: dict[str, Any] | str, name: str | None = None) -> None:
            self._sent = time.monotonic()
            data = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            head = f"event: {name}\n" if name else ""
            await self._put(send, {"type": "http.response.body", "body": f"{head}data: {data}\n\n".encode(), "more_body": True})

        async def beat(passes: int) -> None:
            self._sent = time.monotonic()
            await self._put(send, {"type": "http.response.body", "body": f": pass {passes}\n\n".encode(), "more_body": True})

        self._sent = time.monotonic()
        try:
            await self._put(send, {"type": "http.response.start", "status": 200, "headers": headers})
            try:
                await self._events(event, beat, deadline)
            except Refused as error:
                self._seen.error = "failed" if error.status != 504 else "timeout"
                await event(error.body())
            await event("[DONE]")
            await self._put(send, {"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.TimeoutError:  # the client reads nothing: an incomplete response closes the connection
            self._seen.error = "stalled"

    async def _events(self, event: Callable[..., Any], beat: Callable[[int], Any], deadline: float) -> None:
        """Sends what is new in the views: a slow client gets fewer and larger events, and nothing is stored for it."""
        seen = [View()] * len(self._jobs)
        calls = [self._shape.calls() for _ in self._jobs]
        for index in range(len(self._jobs)):
            if (begin := self._shape.begin(index)) is not None:
                await event(begin)
        while not all(view.ended for view in seen):
            heartbeat = self._server.limits.heartbeat
            if (not await self._until(lambda: any(job.view is not view for job, view in zip(self._jobs, seen)), deadline,
                                      lambda: self._sent + heartbeat) or time.monotonic() >= self._sent + heartbeat):
                await beat(max(job.view.report.forwards if job.view.report else 0 for job in self._jobs))
            for index, job in enumerate(self._jobs):
                old, view = seen[index], job.view
                seen[index] = view
                if view.canvas is not None and view.canvas is not old.canvas:
                    await event(self._shape.canvas(index, view, view.canvas, self._server.model), "unmask.canvas")
                if view.text != old.text or (view.ended and not old.ended):
                    self._seen.first = self._seen.first or time.monotonic()
                    more, reader = view.text[len(old.text):], calls[index]
                    for piece in ([self._shape.piece(index, more, view.finish_reason)] if reader is None
                                  else self._shape.pieces(index, reader, more, view.finish_reason)):
                        await event(piece)
        if self._asked.include_usage:
            await event(self._shape.last(self._jobs))


def _too_many(full: Full) -> Refused:
    return Refused(str(full), status=429, code="too_many_requests")


def _error(error: Refused) -> Response:
    headers = {}
    if error.status == 429:
        headers["Retry-After"] = "1"
    if error.status == 504:
        headers["x-should-retry"] = "false"  # of OpenAI's clients: another attempt takes as long
    return JSONResponse(error.body(), error.status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = Refused(f"{request.method} {request.url.path}: {error.detail}", status=error.status_code)
    assert isinstance(error, Refused)
    return _error(error)


def _failed() -> Response:
    return _error(Refused("the server failed; its log has the reason", status=500))
