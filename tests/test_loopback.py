"""A cluster that we start listens on loopback only, and asks for a token."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from rat_ray.cluster import Cluster, ClusterSettings
with Cluster(ClusterSettings(use="always", cpus=1)) as cluster:
    cluster.connect()
    import ray
    print("address", ray.get_runtime_context().gcs_address)
    print("mode", os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"]))
    @ray.remote
    def pid():
        return os.getpid()
    ray.get(pid.remote())
    session = ray._private.worker.global_worker.node.get_session_dir_path()
    print("tables", open("/proc/net/tcp").read().encode().hex(), open("/proc/net/tcp6").read().encode().hex())
    for entry in os.listdir("/proc"):
        try:
            words = open(f"/proc/{entry}/cmdline").read()
            names = os.listdir(f"/proc/{entry}/fd") if session in words else []
        except OSError:
            continue
        for name in names:
            try:
                print("socket", os.readlink(f"/proc/{entry}/fd/{name}"))
            except OSError:
                pass
"""


@pytest.mark.ray
def test_a_cluster_that_we_start_listens_on_loopback_only(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "mode token 64" in lines
    assert any(line.startswith("address 127.0.0.1:") for line in lines)
    inodes = {line.split("[")[1].rstrip("]") for line in lines if line.startswith("socket socket:")}
    four, six = (bytes.fromhex(text).decode() for text in next(x for x in lines if x.startswith("tables")).split()[1:])
    listening = []
    for text in (four, six):
        for row in text.splitlines()[1:]:
            words = row.split()
            if words[3] == "0A" and words[9] in inodes:  # LISTEN, and one of Ray's
                listening.append(words[1].split(":")[0])
    assert len(listening) >= 3, "Ray's GCS, raylet and worker at least"
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert set(listening) <= loopback
