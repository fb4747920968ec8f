"""Connect to Ray, or start it, and spread units of work over it. This file and stage.py are all that know Ray."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rat_ray.errors import InputError, StageError

USES = ("auto", "always", "never")


@dataclass(frozen=True)
class ClusterSettings:
    """Where work runs. Nothing here is part of a stage's key.

    address: a running cluster ("auto", "host:port" or "ray://…"); empty means RAY_ADDRESS, else a local one.
    use: "auto" runs small stages in this process and the rest on Ray; "always" and "never" say what they mean.
    cpus: logical CPUs of a cluster that we start (0: all cores). object_store_mb: its object store.
    """

    address: str = ""
    use: str = "auto"
    cpus: int = 0
    object_store_mb: int = 256
    log_to_driver: bool = False

    def validate(self) -> None:
        if self.use not in USES:
            raise InputError(f"cluster.use={self.use}: must be one of {', '.join(USES)}")
        if self.cpus < 0:
            raise InputError(f"cluster.cpus={self.cpus}: give how many, or 0 for all cores")
        if self.object_store_mb < 80:
            raise InputError(f"cluster.object_store_mb={self.object_store_mb}: Ray needs at least 80")


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


class Runner(Protocol):
    """Runs one unit of work (JSON in) and answers with its receipt (JSON out)."""

    def __call__(self, unit: str) -> str: ...


class _RangeActor:
    """The Ray Data callable: made once per worker process, then called with batches of one unit."""

    def __init__(self, make_runner: Any) -> None:
        self._runner: Runner = make_runner()

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        receipts = [self._runner(unit) for unit in batch.column("unit").to_pylist()]
        return pa.table({"receipt": pa.array(receipts, pa.string())})


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"cluster.address={address}: no Ray cluster answers there ({reason}); start one with `ray start --head`, leave "
        "the address empty to start a local one, or set RAY_AUTH_MODE=token where the cluster asks for a token"
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

    def __init__(self, settings: ClusterSettings, keep: bool = False) -> None:
        """keep: leave a cluster that we started running until the process ends, for the next job of a sweep."""
        self.settings = settings
        self._keep = keep
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
        # Ray's tips, and its remarks on how Ray Data itself uses actors, are no news to our users; errors still come.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        if not ray.is_initialized():
            self._init(ray)
        self._connected = True
        self._quieten()

    def _init(self, ray: Any) -> None:
        address = self.settings.address or os.environ.get("RAY_ADDRESS", "")
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
            # One logical CPU more than there are cores: a Ray Data pool that holds every CPU cannot redo lost work.
            ray.init(
                address="local",
                num_cpus=cores + 1,
                object_store_memory=self.settings.object_store_mb << 20,
                include_dashboard=False,
                **common,
            )
        self._started_here = True

    def _quieten(self) -> None:
        from ray.data import DataContext

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        for name in ("ray.data", "ray.data._internal", "ray._private.worker"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def workers(self, resources: Resources, units: int) -> int:
        """How many workers of this size the cluster holds now, at most one per unit and at least one."""
        import ray

        if resources.workers:
            return max(1, min(resources.workers, units))
        total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        fits = [units]
        if resources.num_cpus:
            fits.append(int(max(1.0, total.get("CPU", 1.0) - 1.0) / resources.num_cpus))
        if resources.num_gpus:
            fits.append(int(total.get("GPU", 0.0) / resources.num_gpus))
        return max(1, min(fits))

    def _say_if_none_fits(self, resources: Resources) -> None:
        """Ray waits without a word for a node that is large enough; autoscaling may bring one."""
        import ray

        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        wanted = {"CPU": resources.num_cpus, "GPU": resources.num_gpus}
        if any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in nodes):
            return
        amounts = " and ".join(f"{amount:g} {name}" for name, amount in wanted.items() if amount)
        print(
            f"waiting for a node with {amounts}: the cluster has none now; lower resources.*.num_cpus or add a node",
            file=sys.stderr,
            flush=True,
        )

    def run(self, units: Sequence[dict[str, Any]], make_runner: Any, resources: Resources) -> Iterator[dict[str, Any]]:
        """Run every unit on Ray Data's actor pool and yield the receipts as they come."""
        self.connect()
        import ray

        self._say_if_none_fits(resources)
        count = self.workers(resources, len(units))
        dataset = ray.data.from_items([{"unit": json.dumps(unit)} for unit in units], override_num_blocks=len(units))
        options: dict[str, Any] = {"num_cpus": resources.num_cpus}
        if resources.num_gpus:
            options["num_gpus"] = resources.num_gpus
        if resources.memory_mb:
            options["memory"] = resources.memory_mb << 20
        mapped = dataset.map_batches(
            _RangeActor,
            fn_constructor_args=(make_runner,),
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=2),
            **options,
        )
        try:
            for row in mapped.iter_rows():
                yield json.loads(row["receipt"])
        except ray.exceptions.RayError as error:
            # A worker's own errors come as receipts; this is a lost process or node that Ray could not make up for.
            why = str(error).strip().splitlines()[0]
            raise StageError(
                f"Ray lost the work ({type(error).__name__}: {why}); what is complete is kept, "
                "run the same command again"
            ) from error

    def close(self) -> None:
        """Stop a cluster that we started; leave another's alone."""
        if not self._connected or self._keep:
            return
        import ray

        if self._started_here:
            ray.shutdown()
        self._connected = False
