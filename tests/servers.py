"""Real S3 servers as processes on loopback: moto, and OpenStack Swift, which keeps its data over kill -9."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rat_ray.store import StorageSettings

BIN = Path(sys.executable).parent
REGION = "us-east-1"
_KINDS = ("object", "container", "account")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Access(NamedTuple):
    """How to reach a server."""

    endpoint: str
    key: str
    secret: str

    def client(self) -> Any:
        """boto3's client, without its own patience."""
        import boto3
        from botocore.config import Config

        options = Config(
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=options,
        )

    def environment(self) -> dict[str, str]:
        """The variables in which boto3 finds the credentials."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def storage(self, **settings: Any) -> StorageSettings:
        return StorageSettings(endpoint=self.endpoint, region=REGION, path_style=True, **settings)

    def overrides(self) -> list[str]:
        """The same for the command line."""
        return [f"storage.endpoint={self.endpoint}", f"storage.region={REGION}", "storage.path_style=true"]


class Process:
    """One server process: started when it listens, killed with all that it started."""

    def __init__(self, arguments: list[str], port: int, log: Path) -> None:
        self._log = log
        with log.open("ab") as stream:
            self._popen = subprocess.Popen(
                arguments, cwd=log.parent, stdout=stream, stderr=stream, start_new_session=True
            )
        self._port = port

    def wait_until_it_listens(self, seconds: float = 60) -> None:
        limit = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            if self._popen.poll() is not None or time.monotonic() > limit:
                raise AssertionError(f"{self._popen.args} does not listen:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9, of the whole session of processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._popen.terminate()
        try:
            self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Access]:
    """moto's server: honours conditions, multipart and listings; its data live as long as its process."""
    port = free_port()
    process = Process([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port, folder / "log")
    try:
        process.wait_until_it_listens()
        yield Access(f"http://127.0.0.1:{port}", "testing", "testing")
    finally:
        process.kill()


class Swift:
    """OpenStack Swift with its s3api in one folder. It ignores If-None-Match and refuses If-Match (501)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {kind: free_port() for kind in (*_KINDS, "proxy")}
        self.access = Access(f"http://127.0.0.1:{self._ports['proxy']}", "test:tester", "testing")
        self._processes: list[Process] = []
        self._configure()

    def start(self) -> None:
        """Start it on the data that are there, and wait until it answers."""
        for kind, port in self._ports.items():
            arguments = [str(BIN / f"swift-{kind}-server"), str(self._folder / f"{kind}.conf")]
            self._processes.append(Process(arguments, port, self._folder / f"{kind}.log"))
        for process in self._processes:
            process.wait_until_it_listens()

    def kill(self) -> None:
        """kill -9 of all its processes at once."""
        for process in self._processes:
            process.kill()
        self._processes = []

    def stop(self) -> None:
        for process in self._processes:
            process.stop()
        self._processes = []

    def _configure(self) -> None:
        (self._folder / "disks" / "d1").mkdir(parents=True)
        self._write("swift.conf", _SWIFT)
        common = f"bind_ip = 127.0.0.1\nswift_dir = {self._folder}\nuser = {getpass.getuser()}\nworkers = 0\n"
        self._rings()
        for kind in _KINDS:
            own = f"bind_port = {self._ports[kind]}\ndevices = {self._folder / 'disks'}\n{_NO_MOUNTS}"
            application = f"[pipeline:main]\npipeline = {kind}-server\n[app:{kind}-server]\nuse = egg:swift#{kind}\n"
            self._write(f"{kind}.conf", f"[DEFAULT]\n{common}{own}{application}")
        self._write("proxy.conf", f"[DEFAULT]\n{common}bind_port = {self._ports['proxy']}\n{_PROXY}")

    def _rings(self) -> None:
        """Rings of 16 partitions on one disk; in a process of its own, since Swift changes Python's sockets."""
        ports = [str(self._ports[kind]) for kind in _KINDS]
        done = subprocess.run(
            [sys.executable, "-c", _MAKE_RINGS, *_KINDS, *ports], cwd=self._folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)


@contextlib.contextmanager
def swift(folder: Path) -> Iterator[Swift]:
    """A Swift that runs; all of its processes are gone afterwards."""
    server = Swift(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


_SWIFT = """[swift-hash]
swift_hash_path_prefix = rat
swift_hash_path_suffix = ray
[storage-policy:0]
name = only
default = yes
"""
_MAKE_RINGS = """
import sys
from swift.common.ring import RingBuilder
for kind, port in zip(sys.argv[1:4], sys.argv[4:]):
    ring = RingBuilder(4, 1, 0)
    where = {"ip": "127.0.0.1", "port": int(port), "replication_ip": "127.0.0.1", "replication_port": int(port)}
    ring.add_dev({"region": 1, "zone": 1, "device": "d1", "weight": 1.0, "meta": "", **where})
    ring.rebalance()
    ring.get_ring().save(kind + ".ring.gz")
"""
_NO_MOUNTS = "mount_check = false\nfallocate_reserve = 0\n"
_FILTERS = [
    "catch_errors",
    "cache",
    "listing_formats",
    "s3api",
    "tempauth",
    "copy",
    "slo",
    "dlo",
    "symlink",
    "versioned_writes",
]
_OPTIONS = {
    "cache": "memcache_servers = 127.0.0.1:1\n",  # there is none: every lookup goes to the servers
    "s3api": f"location = {REGION}\ns3_acl = false\n",
    "tempauth": "user_test_tester = testing .admin\n",
    "versioned_writes": "allow_object_versioning = true\n",
}
_EGGS = {"cache": "memcache"}
_PROXY = (
    f"[pipeline:main]\npipeline = {' '.join(_FILTERS)} proxy-server\n"
    "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n"
    + "".join(
        f"[filter:{name}]\nuse = egg:swift#{_EGGS.get(name, name)}\n{_OPTIONS.get(name, '')}" for name in _FILTERS
    )
)
