"""Real servers for the tests of the store: moto's, and proxies before it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from rat_ray.store import Store
from tests import servers
from tests.servers import Access, Swift
from tests.store.proxy import Proxy

SECRET = "planted-secret-4711"
KEY = "planted-key-4711"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the tests' own, and none of the machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with servers.moto(tmp_path_factory.mktemp("moto")) as access:
        yield access._replace(key=KEY, secret=SECRET)  # it takes any


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swift]:
    with servers.swift(tmp_path_factory.mktemp("swift")) as server:
        yield server


@pytest.fixture
def proxy(moto: Access) -> Iterator[Proxy]:
    """A proxy before moto, as it is."""
    made = Proxy(moto.endpoint)
    yield made
    made.close()


@pytest.fixture
def careless(moto: Access) -> Iterator[Proxy]:
    """A server that does not know conditional writes."""
    made = Proxy(moto.endpoint, ignore_conditions=True)
    yield made
    made.close()


class MakeStore(Protocol):
    def __call__(self, access: Access, **settings: Any) -> Store: ...


@pytest.fixture
def s3_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeStore:
    """Makes a store in a new bucket of a server, whose credentials the environment then holds."""

    def make(access: Access, **settings: Any) -> Store:
        bucket = f"b-{uuid.uuid4().hex}"
        access.client().create_bucket(Bucket=bucket)
        for name, value in access.environment().items():
            monkeypatch.setenv(name, value)
        given = {"cache": str(tmp_path / "cache"), "multipart_mb": 5, **settings}
        return Store(f"s3://{bucket}/pre/fix", access.storage(**given))

    return make


@pytest.fixture(params=["local", "moto", "swift"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    if request.param == "local":
        return Store(tmp_path / "store")
    make: MakeStore = request.getfixturevalue("s3_store")
    server = request.getfixturevalue(request.param)
    return make(server.access if isinstance(server, Swift) else server)


# Tests that wait for seconds, and whose like runs on another kind of store among the quick ones.
WAITING = (
    "test_of_many_at_once_at_most_one_holds_it[swift]",
    "test_a_holder_that_works_keeps_it[moto]",
    "test_a_stopped_holder_loses_it_and_does_not_come_back[moto]",
    "test_a_killed_holder_on_this_machine_is_dead_at_once[swift]",
    "test_a_killed_holder_on_this_machine_is_dead_at_once[moto]",
    "test_a_silent_holder_elsewhere_expires[moto]",
    "test_a_claim_that_cannot_be_read_expires_too[moto]",
    "test_a_claim_that_cannot_be_read_expires_too[local]",
    "test_heartbeats_outlive_a_server_that_is_away",
    "test_a_second_job_is_refused_without_conditions[careless]",
    "test_a_second_writer_is_refused_without_conditions[careless]",
    "test_a_server_that_is_away_for_some_seconds[503]",
    "test_large_objects_on_swift",
    "test_delete_of_more_than_a_batch",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in WAITING and "tests/store" in str(item.path):
            item.add_marker("slow")
