"""The local server of the page on which curves are edited."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from rankine.core.errors import ParameterError, RankineError
from rankine.core.strict_json import canonical_json, parse_json_strictly
from rankine.reporting.editor import EditSession, editor_page, read_cells

#: Largest body of a request.
MAX_BODY = 1 << 20
#: Seconds after which a connection without data is closed.
TIMEOUT = 30


class EditServer(ThreadingHTTPServer):
    """Serves one session to the holder of its token, on this machine only.

    The page itself holds no data and needs no token. Requests for data carry the token in a header,
    which pages of other origins cannot add; ``Host`` and ``Origin`` must be those of the server.
    """

    daemon_threads = True

    def __init__(self, session: EditSession, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.session = session
        self.token = secrets.token_urlsafe(24)
        #: One solution at a time.
        self.lock = Lock()
        names = ("127.0.0.1", "localhost")
        self.hosts = {f"{name}:{self.server_address[1]}" for name in names}

    @property
    def url(self) -> str:
        """The address of the page; the token is behind the #, which browsers send to nobody."""
        return f"http://127.0.0.1:{self.server_address[1]}/#{self.token}"


class _Refusal(Exception):  # noqa: N818 - it becomes a status, and leaves this module never
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: EditServer
    timeout = TIMEOUT
    server_version, sys_version = "rankine", ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/":
            self._answer({"/state": lambda _: self.server.session.state()})
            return
        try:
            self._check_host()
        except _Refusal as refusal:
            self._send_json(refusal.status, {"error": str(refusal)})
            return
        page, policy = editor_page()
        self._send(200, page, "text/html; charset=utf-8", {"Content-Security-Policy": policy})

    def do_POST(self) -> None:
        session = self.server.session

        def save(request: Mapping[str, Any]) -> dict[str, Any]:
            texts = [request.get(name, "") for name in ("out", "by", "note")]
            if not all(isinstance(text, str) and len(text) <= 1000 for text in texts):
                raise ParameterError(
                    "file, name and note are texts of at most 1,000 characters", fix="Shorten them"
                )
            return session.save(read_cells(request), *texts)

        self._answer({"/solve": lambda request: session.solve(read_cells(request)), "/save": save})

    def _answer(self, actions: Mapping[str, Any]) -> None:
        """Check access, run the action of the path and send its result."""
        try:
            self._check_host()
            self._check_token()
            if self.path not in actions:
                raise _Refusal(404, "there is no such path")
            request = self._request() if self.command == "POST" else {}
            with self.server.lock:
                result = actions[self.path](request)
        except _Refusal as refusal:
            # A body that was not read would be taken as the next request.
            self.close_connection = True
            self._send_json(refusal.status, {"error": str(refusal)})
        except (RankineError, OSError) as error:
            reason = str(error)
            if isinstance(error, RankineError):
                reason = f"{error.reason}. {error.fix}".strip()
            self._send_json(422, {"error": reason})
        else:
            self._send_json(200, result)

    def _check_host(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise _Refusal(421, "the Host header names another server")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            raise _Refusal(403, "the request comes from another page")

    def _check_token(self) -> None:
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        # Constant time: that of a plain comparison would reveal how much of a token is right.
        if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            raise _Refusal(401, "open the address that rankine edit printed")

    def _request(self) -> Mapping[str, Any]:
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not length.isdecimal():
            raise _Refusal(400, "the body is not JSON of a known length")
        if int(length) > MAX_BODY:
            raise _Refusal(413, "the body is too large")
        try:
            request = parse_json_strictly(self.rfile.read(int(length)))
        except ValueError as error:
            raise _Refusal(400, f"the body is not JSON: {error}") from error
        if not isinstance(request, dict):
            raise _Refusal(400, "the body is not a JSON object")
        return request

    def _send_json(self, status: int, value: Any) -> None:
        self._send(status, canonical_json(value).encode(), "application/json", {})

    def _send(self, status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        fixed_headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in {**fixed_headers, **headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing: the page shows errors."""
