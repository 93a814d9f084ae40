"""HTTP requests and responses: access control, bodies, gzip, streams of JSON lines, errors."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import secrets
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote

import torch
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import DataError, GlassformerError
from glassformer.explorer.session_runs import Job, SessionGone

HEADERS = {
    "content-security-policy": "default-src 'self'; worker-src 'self' blob:; img-src 'self' blob: data:; "
    "media-src 'self' blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}

NO_KEY = "the address lacks its key; open the whole address that the terminal printed, to the end of #token=…"
OTHER_KEY = (
    "the key of this page is of a program that has ended; open the address that the terminal printed when it was "
    "started again"
)
# Any port: behind port forwarding the browser uses another one than this server.
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


MAX_COMMAND_BYTES = 4_000
"""Of a command in a header: browsers refuse long ones."""


class Guard:
    """ASGI middleware: refuses requests that fail the checks, and adds security headers to every response.

    Args:
        token: access token required by /api
        command: that started the server, which a page names when the server has ended; "" = the page knows none
    """

    def __init__(self, app: ASGIApp, token: str, command: str = "") -> None:
        self.app = app
        self.token = token
        self._command = quote(command, errors="replace")
        if len(self._command) > MAX_COMMAND_BYTES:
            self._command = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served

        api = scope["path"].startswith("/api/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, "cache-control": "no-store" if api else "no-cache"})
                if api and self._command:
                    headers["x-command"] = self._command
            await send(message)

        refusal_response = self._refusal(Headers(scope=scope), api)
        if refusal_response is None:
            await self.app(scope, receive, send_guarded)
        else:
            await refusal_response(scope, receive, send_guarded)

    def _refusal(self, headers: Headers, api: bool) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _HERE.fullmatch(host):
            return refusal(403, "this server answers to 127.0.0.1 and localhost only; open the printed address")
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return refusal(403, "a page of another origin asks; open the printed address instead")
        authorization = headers.get("authorization", "")
        if api and not secrets.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            given = authorization.removeprefix("Bearer").strip()
            return refusal(401, OTHER_KEY if given else NO_KEY)
        return None


def static_text(content: str, kind: str) -> Endpoint:
    """An endpoint that answers with the same text each time."""
    body = content.encode("utf-8", "replace")

    async def endpoint(request: Request) -> Response:
        return Response(body, media_type=kind)

    return endpoint


def refusal(status: int, message: str) -> JSONResponse:
    """A JSON error response."""
    return JSONResponse({"error": message}, status_code=status)


log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1_000_000
"""Maximum size of a request body; no model here reads more text."""
MAX_DRAINED_BYTES = 64_000_000
"""How much of a body that is too long is read all the same: a client that is still sending would not read the error."""
MIN_GZIP_BYTES = 1_000  # a smaller answer is one packet of the network in any case
POLL_SECONDS = 0.02
"""Polling interval of the progress of a forward pass."""

Endpoint = Callable[[Request], Awaitable[Response]]
Lines = AsyncIterator[dict[str, Any]]

GZIP_HEADERS = {"content-encoding": "gzip", "vary": "accept-encoding"}


async def frame(request: Request, make: Callable[[], bytes]) -> Response:
    """A binary frame as response, computed in a thread, and gzipped where that saves at least 10%."""
    use_gzip = accepts_gzip(request)

    def compute() -> tuple[bytes, bool]:
        content = make()
        packed = gzip.compress(content, 4, mtime=0) if use_gzip and len(content) >= MIN_GZIP_BYTES else content
        return (packed, True) if len(packed) < 0.9 * len(content) else (content, False)

    content, packed = await run_in_threadpool(compute)
    return Response(content, media_type="application/octet-stream", headers=GZIP_HEADERS if packed else None)


def stream(request: Request, lines: Lines) -> Response:
    """A streaming response of newline-delimited JSON; each line is sent as soon as it is there."""
    kind = "application/x-ndjson"
    if accepts_gzip(request):
        return StreamingResponse(_gzip_lines(lines), media_type=kind, headers=GZIP_HEADERS)
    return StreamingResponse(_json_lines(lines), media_type=kind)


async def progress(run: Job[Any], done: Callable[[], tuple[int, int]], describe: Callable[[], dict[str, Any]]) -> Lines:
    """Progress of a job as lines, and at last what it gave, or its error; a job without a reader ends.

    Args:
        done: how much of it is, and of what
    """
    reported = (0, 0)
    with run.awaited():
        while not run.finished:
            if done() != reported:
                reported = done()
                yield {"done": reported[0], "of": reported[1]}
            await asyncio.sleep(POLL_SECONDS)
    try:
        yield {"ready": await run_in_threadpool(describe)}
    except Exception as error:
        yield {"error": status_and_message(error)[1]}


def logged(parts: Iterator[str]) -> Iterator[str]:
    """Log an exception and raise it: that aborts a download, so that the browser knows it is incomplete."""
    try:
        yield from parts
    except Exception as error:
        status_and_message(error)
        raise


async def _json_lines(lines: Lines) -> AsyncIterator[bytes]:
    async for line in lines:
        yield json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


async def _gzip_lines(lines: Lines) -> AsyncIterator[bytes]:
    """A gzip stream, flushed at each line's end so that the client can decompress every line as it comes."""
    compressor = zlib.compressobj(6, wbits=31)
    async for line in _json_lines(lines):
        yield compressor.compress(line) + compressor.flush(zlib.Z_SYNC_FLUSH)
    yield compressor.flush()


# ------------------------------------------------------------------------------------------------------ requests


async def body(request: Request) -> dict[str, Any]:
    """Parse the request body as a JSON object.

    Raises: HTTPException: it is too long. DataError: invalid JSON, or no object.
    """
    received, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            received += part
        elif size > MAX_DRAINED_BYTES:
            break
    if size > MAX_BODY_BYTES:
        raise HTTPException(413, f"the text is too long: at most {MAX_BODY_BYTES:,} bytes are taken; give a part of it")
    try:
        fields = json.loads(bytes(received))
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is invalid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise DataError("the request must be a JSON object, such as {}")
    return fields


def accepts_gzip(request: Request) -> bool:
    """Does the Accept-Encoding header allow gzip? `gzip;q=0` forbids it."""
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


# ----------------------------------------------------------------------------------------------------- errors


def json_errors(endpoint: Endpoint) -> Endpoint:
    """Decorator of an endpoint: every exception becomes a JSON error response; the server lives on."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (HTTPException, ClientDisconnect):
            raise
        except Exception as error:
            return refusal(*status_and_message(error))

    return answer


def status_and_message(error: Exception) -> tuple[int, str]:
    """HTTP status and message of an exception; an unexpected one is logged as a bug."""
    match error:
        case SessionGone():
            return 410, str(error)
        case GlassformerError():
            return 400, str(error)
        case MemoryError() | torch.OutOfMemoryError():
            return 400, "there is not enough memory for this; give a shorter text"
    what = f"{type(error).__name__}: {error}"
    log.error("%s; this is a bug in glassformer; run again with --debug to see where", what)
    log.debug("where it happened", exc_info=error)
    return 500, f"{what}; this is a bug in glassformer: please report it with what you did"


async def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.url.path}: there is nothing here" if error.status_code == 404 else error.detail
    return refusal(error.status_code, message)
