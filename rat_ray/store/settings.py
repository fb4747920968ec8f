"""The settings of the group `storage`: where `store=` lies and how to speak to it. Nothing here is part of a key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rat_ray.errors import InputError

LONGEST_LEASE = 86_400  # seconds
_REGION = re.compile(r"^[a-z0-9][a-z0-9-]*$")
_BOUNDS = (  # S3 takes parts of 5 MB to 5 GB
    ("lease_seconds", 5, LONGEST_LEASE),
    ("patience", 0, 86_400),
    ("connections", 1, 1000),
    ("multipart_mb", 5, 5000),
)


@dataclass(frozen=True)
class StorageSettings:
    """How to reach the store.

    shared: a local folder that every host of the cluster sees under the same path. lease_seconds: how long a job that
    gave no sign of life keeps others from its stage. patience: seconds for which network errors are retried.
    endpoint, region, path_style: of an S3 server; empty: what boto3 finds itself. connections: kept open per process.
    multipart_mb: larger objects go up in parts of this size. cache: where a node keeps copies of index files; empty:
    below the user's cache folder.
    """

    shared: bool = False
    lease_seconds: float = 60.0
    patience: float = 120.0
    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    connections: int = 16
    multipart_mb: int = 64
    cache: str = ""

    def validate(self) -> None:
        """Raise InputError for values that cannot work."""
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name}={value}: must be between {least} and {most}")
        if self.endpoint:
            _check_endpoint(self.endpoint)
        if self.region and not _REGION.match(self.region):
            plain = self.region.strip().lower().replace("_", "-")
            hint = f" (did you mean {plain!r}?)" if _REGION.match(plain) else ""
            raise InputError(f"region={self.region!r}: not the name of a region, such as eu-central-1{hint}")


def _check_endpoint(endpoint: str) -> None:
    scheme, found, rest = endpoint.partition("://")
    host, _, path = (rest if found else scheme).partition("/")
    if "@" in endpoint:  # not repeated: it may be a password
        raise InputError("endpoint: an address holds no credentials; boto3 finds them (AWS_PROFILE, …)")
    if scheme == "s3":
        raise InputError(
            f"endpoint={endpoint}: that is a place for store=; the endpoint is the server's http(s) address"
        )
    if not found or scheme not in ("http", "https"):
        near = host.partition(":")[0] in ("localhost", "127.0.0.1")
        raise InputError(f"endpoint={endpoint}: give a URL (did you mean '{'http' if near else 'https'}://{host}'?)")
    if not host:
        raise InputError(f"endpoint={endpoint}: names no server; give a URL such as http://127.0.0.1:9000")
    if "?" in path or "#" in path:
        raise InputError(f"endpoint={endpoint}: must end before {path!r} (did you mean '{scheme}://{host}'?)")
