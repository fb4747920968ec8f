"""The versions of what can change a result, for manifests and run.json."""

from __future__ import annotations

import importlib.metadata
import platform

import rat_ray

_PACKAGES = ("numpy", "pyarrow", "ray", "stanli", "bm25s", "faiss-cpu", "wordllama", "xllamacpp", "scipy")


def versions() -> dict[str, str]:
    """The versions of what can change a result."""
    found = {"rat_ray": rat_ray.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
