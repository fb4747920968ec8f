"""What manifests say of the software: true, and nothing of the environment."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rat_ray.versions import git_state, head_of, provenance, versions

SECRET = "planted-secret-4711"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "some/branch")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_the_commit_is_read_from_a_branch_a_detached_head_packed_refs_and_a_worktree(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert head_of(checkout) == commit
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git" / "refs" / "heads" / "some" / "branch").exists()
    assert head_of(checkout) == commit
    git(checkout, "worktree", "add", "-q", "-b", "other", str(checkout.parent / "linked"))
    (checkout.parent / "linked" / "file").write_text("2")
    git(checkout.parent / "linked", "commit", "-q", "-a", "-m", "two")
    assert head_of(checkout.parent / "linked") == git(checkout.parent / "linked", "rev-parse", "HEAD") != commit
    git(checkout, "checkout", "-q", "--detach", "other")
    assert head_of(checkout) == git(checkout, "rev-parse", "other")


def test_a_checkout_that_cannot_be_read_has_no_commit(tmp_path: Path) -> None:
    assert head_of(tmp_path) is None
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert head_of(tmp_path) is None, "before the first commit"
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert head_of(tmp_path) is None


def copied(folder: Path) -> Path:
    """Just enough of the package for `rat_ray.versions`, in a folder of its own."""
    source = Path(sys.modules["rat_ray"].__path__[0])
    (folder / "rat_ray").mkdir()
    for name in ("__init__.py", "versions.py"):
        (folder / "rat_ray" / name).write_text((source / name).read_text())
    return folder


def said_in(folder: Path, **environment: str) -> dict[str, object]:
    """`provenance()` of the package in a folder, in a process of its own."""
    code = f"import sys, json; sys.path.insert(0, {str(folder)!r}); import rat_ray.versions as v; "
    done = subprocess.run(
        [sys.executable, "-c", code + "print(json.dumps([v.__file__, v.provenance()]))"],
        cwd="/",
        env={**os.environ, "PYTHONPATH": "", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    file, said = json.loads(done.stdout)
    assert Path(file).is_relative_to(folder)
    return dict(said)


def test_git_state_is_that_of_the_checkout_that_holds_the_package(checkout: Path) -> None:
    copied(checkout)
    git(checkout, "add", "rat_ray")
    git(checkout, "commit", "-q", "-m", "package")
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "untracked").write_text("")
    assert said_in(checkout)["git"] == {"commit": commit, "dirty": False, "of": "checkout"}
    (checkout / "file").write_text("changed")
    assert said_in(checkout)["git"] == {"commit": commit, "dirty": True, "of": "checkout"}
    assert said_in(checkout, PATH="/nowhere")["git"] == {"commit": commit, "dirty": None, "of": "checkout"}


def test_a_package_inside_another_projects_checkout_is_not_that_project(checkout: Path) -> None:
    inside = checkout / "site-packages"
    inside.mkdir()
    copied(inside)
    assert said_in(inside)["git"] == {"commit": None, "dirty": None, "of": "installed"}


def test_an_installation_from_git_tells_its_commit_and_not_its_address(tmp_path: Path) -> None:
    copied(tmp_path)
    facts = tmp_path / "rat_ray-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: rat_ray\nVersion: 0.1.0\n")
    address = f"https://user:{SECRET}@example.org/rat_ray"
    url = {"url": address, "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    (facts / "direct_url.json").write_text(json.dumps(url))
    said = said_in(tmp_path)
    assert said["git"] == {"commit": "a" * 40, "dirty": None, "of": "installed"}
    assert SECRET not in json.dumps(said)


def test_nothing_of_the_environment_gets_in(tmp_path: Path) -> None:
    copied(tmp_path)
    names = ("USER", "LOGNAME", "HOSTNAME", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN", "GIT_AUTHOR_NAME", "HF_TOKEN")
    said = said_in(tmp_path, **dict.fromkeys(names, SECRET))
    assert SECRET not in json.dumps(said)


def test_versions_are_those_of_the_installed_packages() -> None:
    said = provenance()
    assert said["versions"] == dict(versions())
    for package in ("numpy", "pyarrow", "ray", "stanli"):
        assert said["versions"][package] == importlib.metadata.version(package)
    assert said["git"] == dict(git_state())
    assert f"@{said['host']} pid {os.getpid()}" in said["who"]
    said["versions"]["numpy"] = "changed"
    assert provenance()["versions"]["numpy"] == importlib.metadata.version("numpy")
