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
_WRITERS = 4
_SIZE = 40_000  # bytes: more than the HTTP library sends in one go
_HOLD = 0.1  # seconds for which all uploads are open, so that the server has seen them begin


def honours_conditions(s3: S3Client, prefix: str) -> bool:
    """Whether of several writers at once just one succeeds. Raises InputError where the store cannot be used."""
    key = f"{prefix}{PROBES}{uuid.uuid4().hex}"
    s3.attempt(prefix, lambda: s3.boto.list_objects_v2(Bucket=s3.bucket, Prefix=key, MaxKeys=1))
    try:
        answers = _create_at_once(s3, key)
        if "unsupported" in answers or answers.count("made") > 1:
            _check_writing(s3, key)
            return False
        _read(s3, key)
        return _create(s3, key, b"later") == "exists" and answers.count("made") == 1
    finally:
        s3.request("delete_object", key)


def _create_at_once(s3: S3Client, key: str) -> list[str]:
    barrier = threading.Barrier(_WRITERS)
    bodies = {_body(number): _HeldBack(_body(number), barrier) for number in range(_WRITERS)}

    def hold(request: Any, **_: Any) -> None:
        """After the request was signed: the same bytes, sent in two halves."""
        held = bodies.pop(bytes(request.body), None) if isinstance(request.body, bytes | bytearray) else None
        if held is not None:
            request.body = held

    events = s3.boto.meta.events
    events.register("before-send.s3.PutObject", hold)
    try:
        with ThreadPoolExecutor(_WRITERS) as pool:
            return list(pool.map(lambda number: _create(s3, key, _body(number)), range(_WRITERS)))
    finally:
        events.unregister("before-send.s3.PutObject", hold)


def _body(number: int) -> bytes:
    return str(number).encode() * _SIZE


class _HeldBack:
    """A request's body that stops half way until all of its kind are there."""

    def __init__(self, data: bytes, barrier: threading.Barrier) -> None:
        self._data = data
        self._barrier = barrier
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        if self._at and self._at < len(self._data):
            with contextlib.suppress(threading.BrokenBarrierError):  # one of them failed; the others go on
                self._barrier.wait(timeout=1.0)
                time.sleep(_HOLD)
        step = len(self._data) // 2 + 1
        block = self._data[self._at : self._at + step]
        self._at += len(block)
        return block


def _create(s3: S3Client, key: str, data: bytes) -> str:
    try:
        s3.request("put_object", key, ("exists", "conflict", "unsupported"), Body=data, IfNoneMatch="*")
    except Answer as answer:
        return "exists" if answer.word == "conflict" else answer.word
    return "made"


def _check_writing(s3: S3Client, key: str) -> None:
    s3.request("put_object", key, Body=b"probe")
    _read(s3, key)


def _read(s3: S3Client, key: str) -> None:
    try:
        s3.attempt(key, lambda: s3.boto.get_object(Bucket=s3.bucket, Key=key)["Body"].read(), ("missing",))
    except Answer:
        raise InputError(f"s3://{s3.bucket}/{key} at {s3.endpoint}: what was written cannot be read") from None
