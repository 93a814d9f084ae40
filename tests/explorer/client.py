"""Asks a server as a browser does, header by header."""

from __future__ import annotations

import gzip
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from glassformer.explorer.binary_frames import BinaryFrame, decode
from glassformer.explorer.look import Look
from glassformer.explorer.registry import VIEWS


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def fields(self) -> Any:
        """The fields of a frame without arrays."""
        return decode(self.body).fields

    @property
    def error(self) -> str:
        """The message of a refusal, which is a line of JSON."""
        assert self.headers["content-type"] == "application/json"
        assert list(self.json) == ["error"]
        return str(self.json["error"])


class Client:
    def __init__(self, look: Look) -> None:
        self.look = look
        address = urlsplit(look.url)
        self.port = address.port or 0
        self.token = parse_qs(address.fragment)["token"][0]

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> Answer:
        """One request; a header of None is left out."""
        values = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Length": None if body is None else str(len(body)),
            **(headers or {}),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in values.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def runs(self, *texts: str) -> list[Any]:
        """The lines of a run."""
        request = json.dumps({"texts": list(texts)} if texts else {}).encode()
        answer = self.ask("/api/runs", method="POST", body=request, headers={"Accept-Encoding": "gzip"})
        assert answer.status == 200, answer.body
        return [json.loads(line) for line in gzip.decompress(answer.body).splitlines()]

    def session(self, *texts: str) -> Any:
        return self.runs(*texts)[-1]["ready"]

    def get(self, path: str, /, **parameters: Any) -> Answer:
        return self.ask(f"/api/{path}?{urlencode(parameters)}")

    def post(self, path: str, /, **fields: Any) -> Answer:
        return self.ask(f"/api/{path}", method="POST", body=json.dumps(fields).encode())

    def view(self, name: str, /, **fields: Any) -> Answer:
        """The answer of a view: its frame, at once or when its job is done."""
        answer = self.post(f"view/{name}", **fields)
        if not answer.headers["content-type"].startswith("application/x-ndjson"):
            return answer
        *_, last = answer.body.splitlines()
        done = json.loads(last)
        if "error" in done:
            return Answer(400, {"content-type": "application/json"}, last)
        return self.get("frame", s=fields["s"], key=done["ready"]["key"])

    def frame(self, name: str, /, **fields: Any) -> BinaryFrame:
        answer = self.view(name, **fields) if name in VIEWS else self.get(name, **fields)
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/octet-stream"
        return decode(answer.body)
