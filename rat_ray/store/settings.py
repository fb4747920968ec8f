"""The settings of the group `storage`: where `store=` lies and how to speak to it. Nothing here is part of a key."""

from __future__ import annotations

from dataclasses import dataclass

from rat_ray.errors import InputError


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
        for name, least in (("lease_seconds", 5), ("patience", 0), ("connections", 1), ("multipart_mb", 5)):
            if not least <= getattr(self, name) < float("inf"):
                raise InputError(f"{name}={getattr(self, name)}: must be at least {least}")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise InputError(f"endpoint={self.endpoint}: give a URL such as http://127.0.0.1:9000")
