"""A real HTTP server with OpenAI's embeddings API. Its vectors are wordllama's; it fails when a test tells it to."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rat_ray.retrieve.encoders import EncoderSettings, Vectors, open_encoder

MODEL = "wordllama-256"


@dataclass
class EmbeddingServer:
    """What it does can be changed while it runs. failures: HTTP statuses of the next requests, one each.

    key: asked of every request, if set. format: float | base64, whatever was asked for. seconds: before each answer.
    lose: rows left out of each answer. dim: numbers per vector. listed: whether it has /models. most: the most
    requests that it was busy with at once.
    """

    url: str = ""
    failures: list[int] = field(default_factory=list)
    key: str = ""
    format: str = "base64"
    seconds: float = 0.0
    lose: int = 0
    dim: int = 256
    listed: bool = True
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": MODEL, "object": "model"}])
    batches: list[list[str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    most: int = 0

    def settings(self, **more: Any) -> EncoderSettings:
        return EncoderSettings(**{"kind": "openai", "url": self.url, "retries": 1, "timeout": 20.0, **more})


@contextlib.contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """The server, on a port of the system's choice."""
    state = EmbeddingServer()
    handler = type("Handler", (_Handler,), {"state": state, "encoder": open_encoder(EncoderSettings())})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: EmbeddingServer
    encoder: Any
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    busy = 0

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        if self._refused():
            return
        if self.path != "/v1/models" or not self.state.listed:
            self._answer(404, {"error": {"message": f"no {self.path}"}})
        else:
            self._answer(200, {"object": "list", "data": self.state.models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused():
            return
        cls, state = type(self), self.state
        with self.lock:
            state.batches.append(body["input"])
            state.bodies.append(body)
            cls.busy += 1
            state.most = max(state.most, cls.busy)
        time.sleep(state.seconds)
        vectors = self.encoder.encode_passages(body["input"])[:, : state.dim]
        with self.lock:
            cls.busy -= 1
        rows = [
            {"object": "embedding", "index": row, "embedding": self._form(vector)} for row, vector in enumerate(vectors)
        ]
        # Backwards: the order of an answer's rows is no promise, their index is.
        self._answer(200, {"object": "list", "model": body["model"], "data": rows[state.lose :][::-1]})

    def _form(self, vector: Vectors) -> Any:
        if self.state.format == "float":
            return [float(number) for number in vector]
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()

    def _refused(self) -> bool:
        with self.lock:
            self.state.requests += 1
            status = self.state.failures.pop(0) if self.state.failures else 0
        given = self.headers.get("Authorization", "")
        if not status and self.state.key and given != f"Bearer {self.state.key}":
            status = 401
        if status:
            # Some servers repeat the key that they were given.
            self._answer(status, {"error": {"message": f"status {status} for {given}"}})
        return bool(status)

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a client that gave up
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status != 200:
                self.send_header("Retry-After-Ms", "20")  # how long a client shall wait before it tries again
            self.end_headers()
            self.wfile.write(data)
