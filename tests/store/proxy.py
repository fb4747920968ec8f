"""A real HTTP proxy before a real server, which can behave as bad servers and bad networks do."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Proxy:
    """ignore_conditions: drops If-None-Match. fault: `close` (no answer), `lose` (done, then no answer), `503`.

    only, ending: of which method and path the requests fail. times: how many of them. seen: method and path of all.
    """

    def __init__(self, upstream: str, ignore_conditions: bool = False) -> None:
        self.ignore_conditions = ignore_conditions
        self.fault = ""
        self.only = self.ending = ""
        self.times = 0
        self.seen: list[str] = []
        address = urlsplit(upstream)
        self.upstream = (address.hostname or "", address.port or 80)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def fail(self, fault: str, times: int = 1_000_000, only: str = "", ending: str = "") -> None:
        with self._lock:
            self.fault, self.times, self.only, self.ending = fault, times, only, ending

    def fault_of(self, method: str, path: str) -> str:
        with self._lock:
            self.seen.append(f"{method} {path}")
            meant = self.only in ("", method) and path.endswith(self.ending)
            if not self.fault or self.times <= 0 or not meant:
                return ""
            self.times -= 1
            return self.fault

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else b""
            fault = proxy.fault_of(self.command, self.path)
            if fault == "close":
                self.close_connection = True
                return
            if fault == "503":
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                return
            dropped = {"expect", "connection", *(("if-none-match",) if proxy.ignore_conditions else ())}
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            connection = http.client.HTTPConnection(*proxy.upstream, timeout=30)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            if fault == "lose":
                self.close_connection = True
                return
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
            self._answer(answer.status, {**kept, "Content-Length": length}, data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        def _answer(self, status: int, headers: dict[str, Any], data: bytes) -> None:
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Handler


_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "server"}
