"""Connect to Ray, or start it, and say what it holds. This file and pool.py are all that know Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rat_ray.errors import InputError, masked
from rat_ray.pool import PoolSettings

USES = ("auto", "always", "never")


@dataclass(frozen=True)
class ClusterSettings:
    """Where work runs. Nothing here is part of a stage's key.

    address: a running cluster ("auto", "host:port" or "ray://…"); empty means RAY_ADDRESS, else a local one.
    use: "auto" runs small stages in this process and the rest on Ray; "always" and "never" say what they mean.
    cpus: logical CPUs of a cluster that we start (0: all cores). object_store_mb: its object store. stall_timeout:
    seconds after which a stage that finishes nothing ends with an error. tries: how often a range of rows may kill its
    process before it is cut down to the row that does it.
    """

    address: str = ""
    use: str = "auto"
    cpus: int = 0
    object_store_mb: int = 256
    log_to_driver: bool = False
    stall_timeout: float = 7200.0
    tries: int = 3

    def validate(self) -> None:
        if self.use not in USES:
            raise InputError(f"cluster.use={self.use}: must be one of {', '.join(USES)}")
        if self.cpus < 0:
            raise InputError(f"cluster.cpus={self.cpus}: give how many, or 0 for all cores")
        if self.object_store_mb < 80:
            raise InputError(f"cluster.object_store_mb={self.object_store_mb}: Ray needs at least 80")
        if not self.stall_timeout > 0:
            raise InputError(f"cluster.stall_timeout={self.stall_timeout}: give seconds, more than 0")
        if self.tries < 1:
            raise InputError(f"cluster.tries={self.tries}: must be at least 1")


@dataclass(frozen=True)
class Resources:
    """What one worker of a stage takes, and how many there are (0: as many as the cluster holds)."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory_mb: int = 0
    workers: int = 0
    range_rows: int = 0

    def validate(self) -> None:
        """Raise InputError for numbers that no worker can take."""
        for name in ("num_cpus", "num_gpus", "memory_mb", "workers", "range_rows"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name}={getattr(self, name)}: must be at least 0")


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"cluster.address={masked(address)}: no Ray cluster answers there ({masked(reason)}); start one with "
        "`ray start --head`, leave the address empty to start a local one, or set RAY_AUTH_MODE=token where the "
        "cluster asks for a token"
    )


def _check_answers(address: str) -> None:
    """Raise InputError at once where nothing listens at host:port; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        raise InputError(_no_cluster(address, error.strerror or str(error))) from error


def _keep_to_loopback() -> None:
    """Let a cluster that we start listen on 127.0.0.1 alone, and ask for a token, so that other users of this machine
    cannot use it. Both are read when Ray is imported; what the user has set stays.
    """
    # Off, Ray takes 127.0.0.1 for its node's address; on, it binds every interface even where it is given that address.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if "RAY_AUTH_MODE" not in os.environ and "RAY_AUTH_TOKEN" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Set again what SIGTERM does: `ray.init` has handlers of its own, which end the process at once, with a stack."""
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # None: not set from Python
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _stderr_only_on_failure() -> Iterator[None]:
    """Keep what Ray's C++ side writes to stderr while it starts, and show it only when starting fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            stream.seek(0)
            sys.stderr.write(stream.read().decode(errors="replace"))
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


class Cluster:
    """Ray, connected when it is first needed, so that a run with nothing to do never starts it."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._connected = False
        self._started_here = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Connect to the cluster of `address` or RAY_ADDRESS, or start one on this machine."""
        if self._connected:
            return
        address = self.settings.address or os.environ.get("RAY_ADDRESS", "")
        if address in ("", "local"):
            _keep_to_loopback()
        # Ray's tips are no news to our users; errors still come.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        if not ray.is_initialized():
            with _sigterm_kept():
                self._init(ray, address)
        self._connected = True

    def _init(self, ray: Any, address: str) -> None:
        common = {"logging_level": logging.ERROR, "log_to_driver": self.settings.log_to_driver}
        if address and address != "local":
            _check_answers(address)
            try:
                ray.init(address=address, **common)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise InputError(_no_cluster(address, str(error))) from error
            return
        cores = self.settings.cpus or os.cpu_count() or 1
        with _stderr_only_on_failure():
            ray.init(
                address="local",
                num_cpus=cores,
                object_store_memory=self.settings.object_store_mb << 20,
                include_dashboard=False,
                **common,
            )
        self._started_here = True

    def workers(self, resources: Resources, together: int = 1) -> PoolSettings:
        """What a pool must know of workers of this size. Connects."""
        self.connect()
        options: dict[str, Any] = {"num_cpus": resources.num_cpus, "scheduling_strategy": "SPREAD"}
        if resources.num_gpus:
            options["num_gpus"] = resources.num_gpus
        if resources.memory_mb:
            options["memory"] = resources.memory_mb << 20
        size = partial(self._size, resources)
        return PoolSettings(options, size, self.settings.stall_timeout, _in_words(resources), together)

    def hosts(self) -> set[str]:
        """The names of the machines that the cluster runs on, this one included."""
        import ray

        alive = (node for node in ray.nodes() if node["Alive"])  # type: ignore[no-untyped-call]
        return {socket.gethostname(), *(str(node["NodeManagerHostname"]) for node in alive)}

    def check_shared(self, folder: str) -> None:
        """Raise InputError where a store is a folder of one machine and the cluster has several."""
        self.connect()
        hosts = self.hosts()
        if len(hosts) > 1:
            raise InputError(
                f"store={folder}: a folder, and the cluster has {len(hosts)} hosts ({', '.join(sorted(hosts)[:3])}…); "
                "give s3://bucket/prefix, or set storage.shared=true for a disk that all of them see under this path"
            )

    def _size(self, resources: Resources) -> int:
        """How many workers of this size the cluster holds now, at least one (a node may yet come)."""
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        fits = sum(_holds(node, resources) for node in nodes)
        return max(1, min(fits, resources.workers) if resources.workers else fits)

    def close(self) -> None:
        """Stop a cluster that we started; leave another's alone."""
        if not self._connected:
            return
        import ray

        if self._started_here:
            ray.shutdown()
        self._connected = False


def _holds(node: Mapping[str, float], resources: Resources) -> int:
    """How many workers of this size a node holds."""
    wanted = {"CPU": resources.num_cpus, "GPU": resources.num_gpus, "memory": float(resources.memory_mb << 20)}
    fits = [int(node.get(name, 0.0) / amount) for name, amount in wanted.items() if amount]
    return min(fits, default=1)


def _in_words(resources: Resources) -> str:
    wanted = {"CPU": resources.num_cpus, "GPU": resources.num_gpus, "MB of memory": resources.memory_mb}
    return " and ".join(f"{amount:g} {name}" for name, amount in wanted.items() if amount) or "room"
