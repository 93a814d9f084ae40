"""Access control middleware: Host, Origin and token are checked before any route is looked up.

Host      a name of this machine: a page elsewhere that points its own name at 127.0.0.1 is refused (DNS rebinding)
Origin    where the browser sends one: this page (cross-site requests)
token     for /api: whoever has the printed address
"""

from __future__ import annotations

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'self'; worker-src 'self' blob:; img-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}

# Any port: behind port forwarding the browser uses another one than this server.
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


class Guard:
    """ASGI middleware: refuses requests that fail the checks, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is served

        api = scope["path"].startswith("/api/")

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, "cache-control": "no-store" if api else "no-cache"})
            await send(message)

        refusal_response = self._refusal(Headers(scope=scope), api)
        if refusal_response is None:
            await self.app(scope, receive, send_guarded)
        else:
            await refusal_response(scope, receive, send_guarded)

    def _refusal(self, headers: Headers, api: bool) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _HERE.fullmatch(host):
            return refusal(
                403, "this server answers to 127.0.0.1 and localhost only; open the printed address"
            )
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return refusal(403, "a page of another origin asks; open the printed address instead")
        authorization = headers.get("authorization", "")
        if api and not secrets.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return refusal(401, "the token is missing or of another run; open the address that was printed")
        return None


def refusal(status: int, message: str) -> JSONResponse:
    """A JSON error response."""
    return JSONResponse({"error": message}, status_code=status)
