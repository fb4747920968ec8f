"""What may name an object, and what may be an address of a store."""

from __future__ import annotations

import re

from rat_ray.errors import InputError, StageError

_BUCKET = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]$")


def check_name(name: str, root: str) -> tuple[str, ...]:
    """The words of a name. Raises StageError for one that leads, or could lead, out of the root."""
    words = tuple(name.split("/"))
    if "\0" in name or "\\" in name or any(word in ("", ".", "..") for word in words):
        raise StageError(f"{name!r}: not a name inside the store {root}")
    return words


def check_address(root: str) -> None:
    """Raise InputError for an address that no store can have; one with credentials in it is not repeated."""
    scheme, found, rest = root.partition("://")
    if not found:
        return
    if "@" in rest.split("/")[0]:
        raise InputError(
            "store: an address holds no credentials; boto3 finds them (AWS_PROFILE, ~/.aws/credentials, …)"
        )
    if scheme != "s3":
        raise InputError(f"store={root}: give a folder or s3://bucket/prefix")
    split_address(root)


def split_address(root: str) -> tuple[str, str]:
    """Bucket and key prefix (empty, or ending in `/`) of `s3://bucket/prefix`. Raises InputError."""
    bucket, _, prefix = root.removeprefix("s3://").rstrip("/").partition("/")
    if not _BUCKET.match(bucket):
        raise InputError(f"store={root}: {bucket!r} is no bucket; give s3://bucket/prefix")
    if not prefix:
        return bucket, ""
    if "\0" in prefix or any(word in ("", ".", "..") for word in prefix.split("/")):
        raise InputError(f"store={root}: the prefix {prefix!r} has empty words or dots; give s3://bucket/prefix")
    return bucket, f"{prefix}/"
