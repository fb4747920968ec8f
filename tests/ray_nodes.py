"""Real Ray clusters for tests: nodes on loopback addresses of their own, started and killed without touching others."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import free_port

RAY = str(Path(sys.executable).parent / "ray")
# For the environment of a cluster: a dead node is seen after a few seconds, not after half a minute.
HASTY = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}


class Running(NamedTuple):
    """address: of the head, host:port. dashboard: its URL. environment: of every command that speaks to it."""

    address: str
    dashboard: str
    environment: dict[str, str]

    def nodes(self) -> int:
        """How many nodes are alive; 0 where no cluster answers."""
        done = self.run(RAY, "status", "--address", self.address)
        return done.stdout.count(" node_") if done.returncode == 0 else 0

    def ips(self) -> list[str]:
        """The addresses of the nodes whose raylets run, the head's first."""
        return sorted(self._raylets(), key=lambda ip: int(ip.rpartition(".")[2]))

    def add_node(self, cpus: int = 1, hostname: str = "", object_store_mb: int = 100) -> str:
        """Start one more node and give its address. hostname: what it calls itself, as if on another machine."""
        network, _, last = self.ips()[-1].rpartition(".")
        ip = f"{network}.{int(last) + 1}"
        renamed = elsewhere(hostname) if hostname else []
        _start(self, ip, cpus, f"--address={self.address}", prefix=renamed, object_store_mb=object_store_mb)
        return ip

    def kill_node(self, ip: str) -> None:
        """kill -9 of a node's raylet and of everything below it: workers and agents."""
        raylet = self._raylets()[ip]
        for pid in (raylet, *_below(raylet)):
            kill(pid)

    def workers(self, ip: str) -> list[int]:
        """The processes of our actors on a node."""
        raylet = self._raylets().get(ip)
        return [pid for pid in _below(raylet) if _words(pid).startswith("ray::_Worker")] if raylet else []

    def busy(self) -> list[str]:
        """The nodes on which an actor of ours is at a unit of work: Ray says so in the process's title."""
        at_work = {_parent(pid) for pid in _processes() if _words(pid) == "ray::_Worker.run"}
        return [ip for ip, raylet in self._raylets().items() if raylet in at_work]

    def _raylets(self) -> dict[str, int]:
        """Process ids by address, of this cluster's raylets that run."""
        session = self.environment["RAY_TMPDIR"]
        found = {}
        for pid in _processes():
            words = _words(pid)
            ip = re.search(r"--node_ip_address=(\S+)", words)
            if ip and session in words and words.split()[0].endswith("/raylet"):
                found[ip[1]] = pid
        return found

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, env=self.environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
        )


def plain_environment() -> dict[str, str]:
    """This process's variables without what a cluster that it started itself has left there, and without tokens."""
    own = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    kept = {name: value for name, value in os.environ.items() if name not in own}
    return {**kept, "RAY_AUTH_MODE": "disabled"}


def token_of_this_process() -> dict[str, str]:
    """For a cluster that this process itself is to join: Ray reads mode and token once per process, so all of them,
    and those that the process starts, must have the same."""
    if "RAY_AUTH_TOKEN" not in os.environ:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    return {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}


def kill(pid: int) -> None:
    """kill -9; a process that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_all_that_name(folder: str) -> None:
    """Kill every process with the folder in its command line: `ray stop` would also stop other tests' clusters."""
    for pid in _processes():
        if folder in _words(pid) and pid != os.getpid():
            kill(pid)


def elsewhere(hostname: str) -> list[str]:
    """What to put before a command so that it believes to run on another host; skips where that is not permitted."""
    tried = subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("unshare --uts is not permitted here: no second hostname on one machine")
    return ["unshare", "--uts", "sh", "-c", f'hostname {hostname} && exec "$@"', "sh"]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _words(pid: int) -> str:
    """The command line; empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _below(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    parents = {each: _parent(each) for each in _processes()}
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


@contextlib.contextmanager
def cluster(
    nodes: int = 2, cpus: int = 2, head_cpus: int | None = None, dashboard: bool = True, **environment: str
) -> Iterator[Running]:
    """A cluster of so many nodes, its dashboard on loopback; every process of it is gone afterwards.

    cpus: of each node. head_cpus: of the first, where it differs. environment: variables that all nodes and commands
    get, over this process's own.
    """
    temporary = Path("/tmp") / f"rat-{secrets.token_hex(4)}"  # short: Ray's sockets have a limit of 107 characters
    variables = {**plain_environment(), "RAY_TMPDIR": str(temporary), **environment}
    network = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(255)}"
    running = Running(f"{network}.1:{free_port()}", f"http://127.0.0.1:{free_port()}", variables)
    try:
        _start(running, f"{network}.1", cpus if head_cpus is None else head_cpus, *_head(running, temporary, dashboard))
        for number in range(2, nodes + 1):
            _start(running, f"{network}.{number}", cpus, f"--address={running.address}")
        yield running
    finally:
        kill_all_that_name(str(temporary))
        shutil.rmtree(temporary, ignore_errors=True)


def _head(running: Running, temporary: Path, dashboard: bool) -> list[str]:
    return [
        "--head",
        f"--port={running.address.rpartition(':')[2]}",
        f"--temp-dir={temporary}",
        f"--include-dashboard={str(dashboard).lower()}",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={running.dashboard.rpartition(':')[2]}",
        f"--ray-client-server-port={free_port()}",
    ]


def _start(
    running: Running, ip: str, cpus: int, *arguments: str, prefix: Sequence[str] = (), object_store_mb: int = 100
) -> None:
    common = [
        f"--node-ip-address={ip}",
        f"--num-cpus={cpus}",
        f"--object-store-memory={object_store_mb * 1_000_000}",
        "--disable-usage-stats",
        "--min-worker-port=0",  # any free one: the default range is shared with other clusters of this machine
        "--max-worker-port=0",
        f"--dashboard-agent-listen-port={free_port()}",
    ]
    done = running.run(*prefix, RAY, "start", *arguments, *common)
    assert done.returncode == 0, done.stdout + done.stderr
