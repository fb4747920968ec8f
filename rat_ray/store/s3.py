"""A store below an S3 prefix, on AWS or any server that speaks S3. boto3 is the only way there."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray.errors import InputError, StageError
from rat_ray.store.cache import NodeCache
from rat_ray.store.names import check_name, split_address
from rat_ray.store.objects import Entry
from rat_ray.store.s3_client import Answer, S3Client
from rat_ray.store.s3_probe import honours_conditions
from rat_ray.store.s3_transfer import RangedReader, Transfer
from rat_ray.store.settings import StorageSettings

_DELETED_AT_ONCE = 1000
_PREPARING = 5.0  # seconds for which a server may be away when a job starts: more likely the address is wrong


class S3Objects:
    """`Objects` below `s3://bucket/prefix`."""

    def __init__(self, root: str, storage: StorageSettings) -> None:
        self.url = root
        self._storage = storage
        self._bucket, self._prefix = split_address(root)
        self._cache = NodeCache(storage.cache)
        self._conditional: bool | None = None
        self._looked = False
        self._lock = threading.RLock()

    @cached_property
    def _s3(self) -> S3Client:
        return S3Client(self._bucket, self._storage, StageError)

    @cached_property
    def _transfer(self) -> Transfer:
        return Transfer(self._s3, self._storage.multipart_mb << 20, self._storage.connections)

    @property
    def conditional(self) -> bool:
        self.prepare()
        return self._conditional is True

    def prepare(self) -> None:
        """Try listing, writing, reading and deleting, once per process, and whether conditions hold."""
        with self._lock:
            if self._conditional is not None:
                return
            s3 = self._hasty()
            try:
                self._conditional = honours_conditions(s3, self._prefix)
            except InputError as error:
                raise InputError(f"store={self.url}: {error}") from None

    def look(self) -> None:
        with self._lock:
            if self._looked or self._conditional is not None:
                return
            s3 = self._hasty()
            wanted = {"Bucket": self._bucket, "Prefix": self._prefix, "MaxKeys": 1}
            s3.attempt(self._prefix, lambda: s3.boto.list_objects_v2(**wanted))
            self._looked = True

    def _hasty(self) -> S3Client:
        """A client for the first requests, whose failures are the user's to mend."""
        hasty = dataclasses.replace(self._storage, patience=min(_PREPARING, self._storage.patience))
        return S3Client(self._bucket, hasty, InputError)

    def get(self, name: str) -> bytes:
        try:
            return self._transfer.get(self._key(name))
        except Answer:
            raise FileNotFoundError(f"{self.url}/{name}") from None

    def put(self, name: str, data: bytes) -> None:
        self._transfer.put_bytes(self._key(name), data)

    def create(self, name: str, data: bytes) -> bool:
        key = self._key(name)
        if self._conditional is not False:
            try:
                self._transfer.put_bytes(key, data, create=True)
                return True
            except Answer as answer:
                if answer.word == "exists":
                    return answer.again and self._is_ours(key, data)
                self._conditional = False  # not probed yet, and unknown there
        if self._transfer.size(key) is not None:
            return False
        self._transfer.put_bytes(key, data)
        return True

    def _is_ours(self, key: str, data: bytes) -> bool:
        """Whether what is there is what an earlier attempt, whose answer was lost, wrote."""
        try:
            return self._transfer.size(key) == len(data) and self._transfer.get(key) == data
        except Answer:
            return False

    def open(self, name: str, columns: bool = False) -> Any:
        try:
            if columns:
                return RangedReader(self._transfer, self._key(name))
            return pa.BufferReader(self._transfer.get(self._key(name)))
        except Answer:
            raise FileNotFoundError(f"{self.url}/{name}") from None

    def walk(self, prefix: str = "") -> Iterator[Entry]:
        for page in self._pages(self._prefix + prefix):
            for found in page.get("Contents", ()):
                key = str(found["Key"])
                if not key.endswith("/"):  # the folders of some consoles
                    yield Entry(key.removeprefix(self._prefix), found["Size"], found["LastModified"].timestamp())

    def children(self, folder: str) -> list[str]:
        prefix = f"{self._key(folder)}/" if folder else self._prefix
        found: set[str] = set()
        for page in self._pages(prefix, Delimiter="/"):
            found.update(str(each["Prefix"]) for each in page.get("CommonPrefixes", ()))
            found.update(str(each["Key"]) for each in page.get("Contents", ()))
        words = (name.removeprefix(prefix).rstrip("/") for name in found)
        return sorted(word for word in words if word and not word.startswith("."))

    def _pages(self, prefix: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        boto = self._s3.boto
        wanted: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix, **arguments}
        while True:
            page: dict[str, Any] = self._s3.attempt(prefix, partial(boto.list_objects_v2, **wanted))
            yield page
            if not page.get("IsTruncated"):
                return
            wanted["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, names: Sequence[str]) -> None:
        keys = [self._key(name) for name in names]
        for first in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete(keys[first : first + _DELETED_AT_ONCE])

    def _delete(self, keys: list[str]) -> None:
        if len(keys) == 1:  # some servers know no other
            self._s3.request("delete_object", keys[0])
            return
        boto, batch = self._s3.boto, {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self._s3.attempt(keys[0], lambda: boto.delete_objects(Bucket=self._bucket, Delete=batch))
        for error in answer.get("Errors", ()):
            if error.get("Code") not in ("NoSuchKey", "404"):
                self._s3.request("delete_object", str(error["Key"]))  # again, alone: it says why, or is patient

    def upload(self, folder: Path, name: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self._transfer.put_file(self._key(f"{name}/{path.relative_to(folder).as_posix()}"), path)
        self._cache.keep(f"{self.url}/{name}", folder)

    def download(self, name: str, files: Sequence[Entry], whole: bool = True) -> Path:
        address = f"{self.url}/{name}" if whole else f"{self.url}/{name}/some"
        return self._cache.folder(address, files, lambda target: self._fetch(name, files, target))

    def _fetch(self, name: str, files: Sequence[Entry], target: Path) -> None:
        for file in files:
            path = target.joinpath(*check_name(file.name, self.url))
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._transfer.fetch(self._key(f"{name}/{file.name}"), file.size, path)
            except Answer:
                raise FileNotFoundError(f"{self.url}/{name}/{file.name}") from None

    def scratch(self, name: str) -> Path:
        return self._cache.scratch()

    def _key(self, name: str) -> str:
        check_name(name, self.url)
        return self._prefix + name
