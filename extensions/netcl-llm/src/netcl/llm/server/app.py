"""The server: OpenAI's addresses over a model, as an application of Starlette."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from netcl.llm.chat_template import ChatTemplateError
from netcl.llm.server import fields
from netcl.llm.server.answers import Choice, Shape, embed, embeddings
from netcl.llm.server.errors import ApiError
from netcl.llm.server.scheduler import END, Job, Scheduler

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise ImportError(f'{error}; pip install "netcl-llm[serve]"') from None

__all__ = ["Limits", "application", "serve"]

_POLL = 0.2  # seconds between looks for a client that has gone


@dataclass(frozen=True)
class Limits:
    """Limits of requests: what is beyond is refused."""

    body: int = 4 << 20  # bytes
    body_seconds: float = 30.0  # until it must be there
    prompt: int | None = None  # tokens; None for the context of the model
    max_tokens: int = 4096  # of an answer, also if a request names no number
    parallel: int = 4  # generations that are decoded together
    waiting: int = 64  # generations; more are refused with status 429


def application(
    model: Any,
    name: str,
    *,
    api_key: str | None = None,
    limits: Limits | None = None,
    hosts: Sequence[str] = ("*",),
) -> Starlette:
    """Returns the application that serves a model under a name.

    ``api_key`` is asked of each request but /health. ``hosts`` are the names by which the server may be called; a page
    of another site cannot reach a local server by a name of its own.
    """
    server = _Server(model, name, api_key, limits or Limits())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(server.scheduler.close)

    routes = [
        Route("/health", server.answered(server.health), methods=["GET"]),
        Route("/v1/models", server.answered(server.models), methods=["GET"]),
        Route("/v1/models/{name:path}", server.answered(server.one_model), methods=["GET"]),
        Route("/v1/chat/completions", server.answered(server.chat), methods=["POST"]),
        Route("/v1/completions", server.answered(server.completions), methods=["POST"]),
        Route("/v1/embeddings", server.answered(server.embeddings), methods=["POST"]),
    ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)]
    handlers = {HTTPException: _http_error}
    return Starlette(routes=routes, lifespan=lifespan, middleware=middleware, exception_handlers=handlers)


def serve(app: Starlette, host: str, port: int) -> None:
    """Serves an application until Ctrl-C."""
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=3)


Answer = Callable[[HttpRequest], Awaitable[Response]]


class _Server:
    def __init__(self, model: Any, name: str, api_key: str | None, limits: Limits) -> None:
        self._model, self._name, self._key, self._limits = model, name, api_key, limits
        self._started = int(time.time())
        self.scheduler = Scheduler(model, limits.parallel, limits.waiting)

    def answered(self, handler: Answer) -> Answer:
        """Returns a handler that asks for the key and answers errors in OpenAI's shape."""

        async def answer(request: HttpRequest) -> Response:
            try:
                if handler != self.health:
                    self._authorize(request)
                return await handler(request)
            except ApiError as error:
                return _json(error.body(), error.status)

        return answer

    async def health(self, _: HttpRequest) -> Response:
        return _json({"status": "ok", "model": self._name, **self.scheduler.counts()})

    async def models(self, _: HttpRequest) -> Response:
        return _json({"object": "list", "data": [self._described()]})

    async def one_model(self, request: HttpRequest) -> Response:
        self._check_name(request.path_params["name"])
        return _json(self._described())

    async def chat(self, request: HttpRequest) -> Response:
        asked = fields.chat_request(await self._body(request))
        try:
            template = self._model.tokenizer.apply_chat_template
            prompt = await run_in_threadpool(template, asked.messages, tools=asked.tools)
        except (ChatTemplateError, ValueError) as error:
            raise ApiError(str(error), "messages") from None
        return await self._generated(request, replace(asked, prompts=[prompt]), chat=True)

    async def completions(self, request: HttpRequest) -> Response:
        return await self._generated(request, fields.completion_request(await self._body(request)), chat=False)

    async def embeddings(self, request: HttpRequest) -> Response:
        asked = fields.embedding_request(await self._body(request))
        self._check_name(asked.model)
        size = self._model.config.hidden_size
        if asked.dimensions not in (None, size):
            raise ApiError(f"expected dimensions to be {size}, got {asked.dimensions}", "dimensions")
        prompts = [await self._ids(prompt, "input") for prompt in asked.prompts]

        job = Job((), results=(embed(self._model, ids) for ids in prompts))
        found = [vector async for _, vector in self._results(request, [job])]
        return _json(embeddings(found, self._name, sum(map(len, prompts)), asked.base64))

    async def _generated(self, request: HttpRequest, asked: fields.Request, chat: bool) -> Response:
        self._check_name(asked.model)
        jobs: list[Job] = []
        choices: list[Choice] = []
        for prompt in asked.prompts:
            ids = await self._ids(prompt, "messages" if chat else "prompt")
            room = self._model.config.context_length - len(ids)
            most = min(asked.max_tokens or self._limits.max_tokens, self._limits.max_tokens, room)
            for number in range(asked.n):
                seed = asked.sampling.seed
                rule = replace(asked.sampling, max_tokens=most, seed=None if seed is None else seed + number)
                jobs.append(Job(ids, rule))
                choices.append(Choice(len(choices), 0 if number else len(ids)))
        shape = Shape(chat, self._name, self._model.tokenizer, asked.logprobs, asked.top_logprobs)
        results = self._results(request, jobs)
        if asked.stream:
            events = self._events(results, shape, choices, asked.include_usage)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        async for at, piece in results:
            choices[at].add(piece)
        return _json(shape.whole(choices))

    async def _events(
        self, results: AsyncIterator[tuple[int, Any]], shape: Shape, choices: list[Choice], with_usage: bool
    ) -> AsyncIterator[bytes]:
        try:
            async for at, piece in results:
                chunk = shape.chunk(choices[at], piece)
                choices[at].add(piece)
                if piece.text or piece.finish_reason or piece.logprob is not None or len(choices[at].pieces) == 1:
                    yield _event(chunk)
            if with_usage:
                yield _event(shape.usage_chunk(choices))
            yield b"data: [DONE]\n\n"
        except ApiError as error:
            yield _event(error.body())

    async def _results(self, request: HttpRequest, jobs: list[Job]) -> AsyncIterator[tuple[int, Any]]:
        """Yields (number of the job, result) as they come; a client that has gone ends its jobs."""
        queue: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for at, job in enumerate(jobs):
            job.post = partial(_post, loop, queue, at)
        self.scheduler.submit(jobs)
        left, looked = len(jobs), loop.time()
        try:
            while left:
                if loop.time() - looked >= _POLL:
                    looked = loop.time()
                    if await request.is_disconnected():
                        raise ApiError("the client has gone", status=499)
                try:
                    at, result = await asyncio.wait_for(queue.get(), _POLL)
                except (asyncio.TimeoutError, TimeoutError):
                    continue
                if isinstance(result, ApiError):
                    raise result
                if isinstance(result, BaseException):
                    raise ApiError(f"the generation failed: {type(result).__name__}: {result}", status=500)
                if result is END:
                    left -= 1
                else:
                    yield at, result
        finally:
            self.scheduler.cancel(jobs)

    async def _ids(self, prompt: str | list[int], param: str) -> list[int]:
        """Returns the ids of a prompt that fits into the context, with room for a token."""
        tokenizer, context = self._model.tokenizer, self._model.config.context_length
        ids = await run_in_threadpool(tokenizer.encode, prompt) if isinstance(prompt, str) else prompt
        if not all(0 <= token < len(tokenizer) for token in ids):
            raise ApiError(f"expected ids from 0 to {len(tokenizer) - 1} in {param}", param)
        most = min(context - 1, self._limits.prompt or context)
        if not 1 <= len(ids) <= most:
            message = f"expected a prompt of 1 to {most} tokens, got {len(ids)}"
            raise ApiError(message, param, "context_length_exceeded" if ids else "empty_prompt")
        return ids

    async def _body(self, request: HttpRequest) -> Any:
        """Returns the JSON of a request, read up to the limits."""
        most, data = self._limits.body, bytearray()
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            raise ApiError(f"expected a body of at most {most} bytes, got {int(declared)}", status=413)

        async def read() -> None:
            async for chunk in request.stream():
                data.extend(chunk)
                if len(data) > most:
                    raise ApiError(f"expected a body of at most {most} bytes, got more", status=413)

        try:
            await asyncio.wait_for(read(), self._limits.body_seconds)
            return json.loads(data, parse_constant=_no_constant)
        except (asyncio.TimeoutError, TimeoutError):
            raise ApiError(f"expected the body within {self._limits.body_seconds:g} s", status=408) from None
        except ClientDisconnect:
            raise ApiError("the client has gone", status=499) from None
        except (ValueError, RecursionError) as error:
            raise ApiError(f"expected a body of JSON: {error}") from None

    def _authorize(self, request: HttpRequest) -> None:
        if self._key is None:
            return
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), self._key.encode()):
            raise ApiError("expected the header Authorization: Bearer KEY", code="invalid_api_key", status=401)

    def _check_name(self, name: str | None) -> None:
        if name not in (None, self._name):
            raise ApiError(f"expected the model {self._name!r}, got {name!r:.80}", "model", "model_not_found", 404)

    def _described(self) -> dict[str, Any]:
        return {"id": self._name, "object": "model", "created": self._started, "owned_by": "netcl"}


def _post(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[tuple[int, Any]], at: int, result: Any) -> None:
    loop.call_soon_threadsafe(queue.put_nowait, (at, result))


def _no_constant(name: str) -> Any:
    raise ValueError(f"expected a number, got {name}")


def _json(content: Any, status: int = 200) -> Response:
    data = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    return Response(data, status, media_type="application/json")


def _event(content: Any) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


async def _http_error(request: HttpRequest, error: Exception) -> Response:
    """Answers an address or method that is not there."""
    status: int = getattr(error, "status_code", 500)
    return _json(ApiError(f"{request.method} {request.url.path}: no such address", status=status).body(), status)
