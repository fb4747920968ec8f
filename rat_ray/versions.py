"""What a table's manifest and run.json say about the software and the process that made them.

Nothing here reads an environment variable: whatever a manifest holds is published with the data.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import rat_ray

_PACKAGES = (
    *("numpy", "scipy", "pyarrow", "ray", "boto3"),
    *("stanli", "cmdstanpy", "arviz-stats"),
    *("bm25s", "PyStemmer", "faiss-cpu", "wordllama"),
    *("xllamacpp", "vllm", "torch", "transformers"),
)
_GIT_SECONDS = 10  # a checkout on a slow disk; its state is unknown then, and no reason to wait


@cache
def versions() -> Mapping[str, str]:
    """The versions of what can change a result."""
    found = {"rat_ray": rat_ray.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def provenance() -> dict[str, Any]:
    """The part of a manifest that is the same for every table of this process.

    `versions`: of the packages that matter, Ray's among them. `git`: see `git_state`. `who`: "user@host pid 4711".
    `host`: its name. JSON only.
    """
    return {"versions": dict(versions()), "git": dict(git_state()), "who": _who(), "host": socket.gethostname()}


@cache
def code_digest() -> str:
    """The digest of this package's own files: what its output depends on beside its input."""
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and path.suffix not in (".pyc", ".pyo"):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def git_state() -> Mapping[str, Any]:
    """The state of the code that runs.

    `commit`: of the checkout that holds this package, or the one that pip recorded when it installed from git, or None.
    `dirty`: whether tracked files differ from that commit; None where that cannot be known (no git, or a wheel).
    `of`: "checkout" or "installed".
    """
    root = Path(__file__).resolve().parents[1]
    if (root / ".git").exists():
        return {"commit": head_of(root), "dirty": _dirty(root), "of": "checkout"}
    return {"commit": _installed_commit(), "dirty": None, "of": "installed"}


def head_of(root: Path) -> str | None:
    """The commit that a checkout is at, read from its files; None where they do not say."""
    try:
        folder = _git_folder(root)
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head or None
        name = head.removeprefix("ref: ")
        common = folder / "commondir"  # of a linked worktree, whose branches lie with the main one's
        shared = (folder / common.read_text().strip()) if common.is_file() else folder
        for base in (folder, shared):
            if (base / name).is_file():
                return (base / name).read_text().strip() or None
        return _packed(shared / "packed-refs", name)
    except (OSError, UnicodeDecodeError):
        return None


def _git_folder(root: Path) -> Path:
    """`.git`, or where a file of that name points."""
    place = root / ".git"
    if place.is_dir():
        return place
    return root / place.read_text().strip().removeprefix("gitdir: ")


def _packed(path: Path, name: str) -> str | None:
    for line in path.read_text().splitlines() if path.is_file() else ():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return None


def _dirty(root: Path) -> bool | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-uno"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


def _installed_commit() -> str | None:
    """What `pip install git+…` recorded; its address, which may hold a token, is left alone."""
    try:
        text = importlib.metadata.distribution("rat_ray").read_text("direct_url.json")
        commit = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    except (importlib.metadata.PackageNotFoundError, ValueError, AttributeError):
        return None
    return commit if isinstance(commit, str) else None


def _who() -> str:
    return f"{_user()}@{socket.gethostname()} pid {os.getpid()}"


def _user() -> str:
    """The user's name by the system, not by the environment; in a container there may be a number only."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"
