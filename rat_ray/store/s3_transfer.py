"""Objects up and down: in one request or in several, from memory or from a file, never a large file in memory."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rat_ray.errors import InputError, StageError
from rat_ray.store.s3_client import Answer, S3Client

Read = Callable[[int, int], bytes]  # offset, length
_MOST_PIECES = 10_000  # of one object, by S3's rules
_AT_ONCE = 4  # pieces of one object, so at most this many times multipart_mb in memory
_TAIL = 64 << 10


class Transfer:
    """Whole objects of one bucket. piece: bytes of a request at most."""

    def __init__(self, s3: S3Client, piece: int, connections: int) -> None:
        self._s3 = s3
        self._piece = piece
        self._at_once = min(_AT_ONCE, connections)

    def get(self, key: str) -> bytes:
        """The object. Raises Answer("missing")."""
        s3 = self._s3

        def read() -> bytes:
            body: bytes = s3.boto.get_object(Bucket=s3.bucket, Key=key)["Body"].read()
            return body

        return s3.attempt(key, read, ("missing",))

    def range(self, key: str, wanted: str) -> tuple[bytes, int]:
        """Bytes of the object, by an HTTP range, and its size. Raises Answer("missing" or "beyond")."""
        s3 = self._s3

        def read() -> tuple[bytes, int]:
            answer = s3.boto.get_object(Bucket=s3.bucket, Key=key, Range=f"bytes={wanted}")
            data: bytes = answer["Body"].read()
            _, _, size = answer.get("ContentRange", "").rpartition("/")
            return data, int(size) if size.isdigit() else len(data)  # no range in the answer: it is the whole

        return s3.attempt(key, read, ("missing", "beyond"))

    def put_bytes(self, key: str, data: bytes, create: bool = False) -> None:
        """Write it. create: unless it exists; then Answer("exists" or "unsupported")."""
        self._put(key, len(data), lambda offset, length: data[offset : offset + length], create)

    def put_file(self, key: str, path: Path) -> None:
        """Write a file's content."""
        with path.open("rb") as stream:
            handle = stream.fileno()
            self._put(key, os.fstat(handle).st_size, lambda offset, length: os.pread(handle, length, offset), False)

    def fetch(self, key: str, size: int, path: Path) -> None:
        """Write the object of `size` bytes to a file. Raises Answer("missing"), StageError for another size."""
        with path.open("wb") as stream:
            handle = stream.fileno()
            self._spread(
                lambda start: self._fetch_piece(key, start, min(size, start + self._piece), handle),
                range(0, size, self._piece),
            )

    def _fetch_piece(self, key: str, start: int, stop: int, handle: int) -> None:
        s3 = self._s3

        def copy() -> int:
            offset = start
            answer = s3.boto.get_object(Bucket=s3.bucket, Key=key, Range=f"bytes={start}-{stop - 1}")
            for block in answer["Body"].iter_chunks(1 << 20):
                os.pwrite(handle, block, offset)
                offset += len(block)
            return offset

        try:
            reached = s3.attempt(key, copy, ("missing", "beyond"))
        except Answer as answer:
            if answer.word == "missing":
                raise
            reached = start
        if reached != stop:
            raise StageError(f"s3://{s3.bucket}/{key} at {s3.endpoint} has not the size that its list says")

    def _put(self, key: str, size: int, read: Read, create: bool) -> None:
        condition = {"IfNoneMatch": "*"} if create else {}
        expected = ("exists", "unsupported") if create else ()
        if size <= self._piece:
            self._s3.request("put_object", key, expected, Body=read(0, size), **condition)
            return
        piece = max(self._piece, -(-size // _MOST_PIECES))
        upload = str(self._s3.request("create_multipart_upload", key)["UploadId"])
        try:
            starts = range(0, size, piece)
            numbers = range(1, len(starts) + 1)
            tags = self._spread(lambda n: self._put_piece(key, upload, n, read((n - 1) * piece, piece)), numbers)
            pieces = [{"PartNumber": n, "ETag": tag} for n, tag in zip(numbers, tags, strict=True)]
            self._complete(key, upload, size, pieces, condition, expected)
        except BaseException:
            with contextlib.suppress(StageError, InputError, Answer):  # `store gc` finds what stays
                self._s3.once("abort_multipart_upload", key, UploadId=upload)
            raise

    def _put_piece(self, key: str, upload: str, number: int, data: bytes) -> str:
        return str(self._s3.request("upload_part", key, UploadId=upload, PartNumber=number, Body=data)["ETag"])

    def _complete(
        self,
        key: str,
        upload: str,
        size: int,
        pieces: list[dict[str, Any]],
        condition: dict[str, str],
        expected: tuple[str, ...],
    ) -> None:
        try:
            self._s3.request(
                "complete_multipart_upload",
                key,
                (*expected, "missing"),
                UploadId=upload,
                MultipartUpload={"Parts": pieces},
                **condition,
            )
        except Answer as answer:
            if answer.word != "missing":
                raise
            # The upload is gone: an earlier attempt completed it and its answer was lost, or somebody removed it.
            if not answer.again or self.size(key) != size:
                where = f"s3://{self._s3.bucket}/{key} at {self._s3.endpoint}"
                raise StageError(f"{where}: its unfinished upload was removed by another; run again") from None

    def size(self, key: str) -> int | None:
        """The object's size, or None where there is none."""
        try:
            return int(self._s3.request("head_object", key, ("missing",))["ContentLength"])
        except Answer:
            return None

    def _spread(self, action: Callable[[int], Any], over: Iterable[int]) -> list[Any]:
        """Do it for each, a few at once, in order; the first error ends it."""
        items = list(over)
        if len(items) <= 1:
            return [action(item) for item in items]
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="rat_ray-s3")
        try:
            return list(pool.map(action, items))
        finally:
            pool.shutdown(cancel_futures=True)


class RangedReader(io.RawIOBase):
    """An object as a seekable file that asks for what is read; its end, where Parquet's footer is, comes first."""

    def __init__(self, transfer: Transfer, key: str) -> None:
        super().__init__()
        self._transfer = transfer
        self._key = key
        self._at = 0
        try:
            self._tail, self._size = transfer.range(key, f"-{_TAIL}")
        except Answer as answer:
            if answer.word == "missing":
                raise
            self._tail, self._size = b"", 0  # an empty object has no range

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if stop <= self._at:
            return b""
        begins = self._size - len(self._tail)
        data = self._tail[self._at - begins : stop - begins] if self._at >= begins else self._ask(self._at, stop)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _ask(self, start: int, stop: int) -> bytes:
        try:
            data, _ = self._transfer.range(self._key, f"{start}-{stop - 1}")
        except Answer as answer:
            raise OSError(f"{self._key}: {answer.word} while it was read") from None
        return data
