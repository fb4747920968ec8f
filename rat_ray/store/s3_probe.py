"""What an S3 server can do, found out before any work: a handful of requests.

Some servers ignore `If-None-Match: *`, some check it when a request begins and write when it ends, so that two
writers at once both succeed. The probe holds several uploads of one name open in the middle and lets them end together:
a server that lets more than one succeed, or a later one over the first, cannot be trusted with two writers.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rat_ray.errors import InputError
from rat_ray.store.s3_client import Answer, S3Client

PROBES = ".probe/"
_WRITERS = 3
_HOLDS = (0.1, 0.6)  # seconds for which all uploads are open, so that even a busy server has seen them begin
_SIZE = 40_000  # bytes: more than the HTTP library sends in one go


_known: dict[tuple[str, str], bool] = {}  # by endpoint and bucket: the answer holds below every prefix


def honours_conditions(s3: S3Client, prefix: str) -> bool:
    """Whether of several writers at once just one succeeds. Raises InputError where the prefix cannot be used."""
    names = [f"{prefix}{PROBES}{uuid.uuid4().hex}" for _ in _HOLDS]
    s3.attempt(prefix, lambda: s3.boto.list_objects_v2(Bucket=s3.bucket, Prefix=names[0], MaxKeys=1))
    server = (s3.endpoint, s3.bucket)
    try:
        held = server not in _known and all(_one_succeeds(s3, *each) for each in zip(names, _HOLDS, strict=True))
        if not held:
            s3.request("put_object", names[0], Body=b"probe")  # writing without a condition must work at least
        _read(s3, names[0])
        if server not in _known:
            _known[server] = held and _create(s3, names[0], b"later") == "exists"
        return _known[server]
    finally:
        for name in names:
            s3.request("delete_object", name)


def _one_succeeds(s3: S3Client, key: str, hold: float) -> bool:
    barrier = threading.Barrier(_WRITERS)
    bodies = {_body(number): _HeldBack(_body(number), barrier, hold) for number in range(_WRITERS)}

    def swap(request: Any, **_: Any) -> None:
        """After the request was signed: the same bytes, sent in two halves."""
        data = request.body if isinstance(request.body, bytes) else request.body.read()
        request.body = bodies.pop(data, data)

    events = s3.boto.meta.events
    events.register("before-send.s3.PutObject", swap)
    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            answers = list(pool.map(lambda number: _create(s3, key, _body(number)), range(_WRITERS)))
    finally:
        events.unregister("before-send.s3.PutObject", swap)
    return answers.count("made") == 1 and "unsupported" not in answers


def _body(number: int) -> bytes:
    return str(number).encode() * _SIZE


class _HeldBack:
    """A request's body that stops half way until all of its kind are there."""

    def __init__(self, data: bytes, barrier: threading.Barrier, hold: float) -> None:
        self._data = data
        self._barrier = barrier
        self._hold = hold
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        if self._at and self._at < len(self._data):
            with contextlib.suppress(threading.BrokenBarrierError):  # one of them failed; the others go on
                self._barrier.wait(timeout=2.0)
                time.sleep(self._hold)
        step = len(self._data) // 2 + 1
        block = self._data[self._at : self._at + step]
        self._at += len(block)
        return block


def _create(s3: S3Client, key: str, data: bytes) -> str:
    try:
        s3.request("put_object", key, ("exists", "unsupported"), Body=data, IfNoneMatch="*")
    except Answer as answer:
        return answer.word
    return "made"


def _read(s3: S3Client, key: str) -> None:
    try:
        s3.attempt(key, lambda: s3.boto.get_object(Bucket=s3.bucket, Key=key)["Body"].read(), ("missing",))
    except Answer:
        raise InputError(f"s3://{s3.bucket}/{key} at {s3.endpoint}: what was written cannot be read") from None
