"""S3: large objects, bad networks, and what is said to a user whose server or credentials are wrong."""

from __future__ import annotations

import os
import pickle
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rat_ray import tables
from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.stage import import_table
from rat_ray.store import StorageSettings, Store
from rat_ray.store.names import split_address
from tests.servers import Access, Swift, free_port
from tests.store.conftest import KEY, SECRET, MakeStore
from tests.store.proxy import Proxy
from tests.test_stage import questions

BIG = os.urandom(11 << 20)  # three pieces of 5 MB


def through(proxy: Proxy) -> Access:
    return Access(proxy.url, KEY, SECRET)


def uploads(store: Store, access: Access) -> list[Any]:
    return access.client().list_multipart_uploads(Bucket=split_address(store.root)[0]).get("Uploads", [])


def test_large_objects_go_in_pieces(proxy: Proxy, moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(through(proxy))
    assert store.objects.create("big", BIG)
    assert not store.objects.create("big", BIG[:-1])
    store.objects.put("other", BIG)
    assert store.objects.get("big") == store.objects.get("other") == BIG
    assert sum("partNumber=" in line for line in proxy.seen) >= 9
    assert uploads(store, moto) == []


def test_large_objects_on_swift(swift: Swift, s3_store: MakeStore) -> None:
    store = s3_store(swift.access)
    store.prepare()
    assert store.objects.create("big", BIG)
    assert not store.objects.create("big", BIG[:-1])
    assert store.objects.get("big") == BIG


def test_an_upload_that_fails_is_aborted_and_nothing_can_be_read(
    proxy: Proxy, moto: Access, s3_store: MakeStore
) -> None:
    store = s3_store(through(proxy), patience=1)
    proxy.fail("503", only="PUT")  # the pieces fail; beginning and aborting do not
    with pytest.raises(StageError, match="cannot serve now"):
        store.objects.put("big", BIG)
    assert uploads(store, moto) == []
    assert list(store.objects.walk()) == []


def test_a_large_index_file_travels_in_pieces(proxy: Proxy, s3_store: MakeStore, tmp_path: Path) -> None:
    store = s3_store(through(proxy))
    scratch = store.scratch_folder("index", "k")
    (scratch / "vectors").write_bytes(BIG)
    part = store.write_folder("index", "k", 0, 1, scratch)
    facts = {"digest": "1", "rows": 1, "parts": [part._asdict()], "files": True}
    store.commit("index", "k", facts)
    elsewhere = Store(store.root, StorageSettings(**{**vars(store.storage), "cache": str(tmp_path / "node2")}))
    table = elsewhere.find("index", "k")
    assert table is not None
    proxy.fail("close", times=2, only="GET")
    assert (table.folders()[0] / "vectors").read_bytes() == BIG
    assert not list((tmp_path / "node2").glob(".unfinished*"))


@pytest.mark.parametrize("fault", [pytest.param("close", marks=pytest.mark.slow), "503"])
def test_a_server_that_is_away_for_some_seconds(proxy: Proxy, s3_store: MakeStore, fault: str) -> None:
    store = s3_store(through(proxy))
    whole = questions(10)
    table = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter([whole]))
    actions: list[Callable[[], Any]] = [
        lambda: store.objects.put("a", b"1"),
        lambda: store.objects.create("b", b"2"),
        lambda: store.objects.get("questions/k/manifest.json"),
        lambda: [entry.name for entry in store.objects.walk()],
        lambda: store.objects.children(""),
        lambda: table.read().num_rows,
        lambda: table.read(["question"]).num_rows,
        lambda: store.objects.delete(["never"]),
    ]
    proxy.fail(fault)
    threading.Timer(3.0, lambda: proxy.fail("")).start()
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    time.sleep(1)
    assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(60)
    assert store.objects.get("a") == b"1"
    assert store.objects.get("b") == b"2"
    assert table.read().equals(whole)


def test_a_server_that_was_killed_and_came_back(swift: Swift, s3_store: MakeStore) -> None:
    store = s3_store(swift.access)
    store.objects.put("before", BIG[:1000])
    swift.kill()
    thread = threading.Thread(target=lambda: store.objects.create("while", BIG))
    thread.start()
    time.sleep(2)
    assert thread.is_alive()
    swift.start()
    thread.join(60)
    assert store.objects.get("before") == BIG[:1000]
    assert store.objects.get("while") == BIG


def test_patience_ends_with_the_endpoint_and_the_object(proxy: Proxy, s3_store: MakeStore) -> None:
    store = s3_store(through(proxy), patience=1)
    proxy.fail("close")
    for action in (
        lambda: store.objects.put("a/b", b"1"),
        lambda: store.objects.create("a/b", b"1"),
        lambda: store.objects.get("a/b"),
        lambda: list(store.objects.walk("a/b")),
    ):
        with pytest.raises(
            StageError, match=f"{re.escape(store.root)}/a/b at {proxy.url}: no connection.*tried for 1 s"
        ):
            action()


@pytest.mark.parametrize("size", [3, len(BIG)])
def test_a_create_whose_answer_was_lost_is_ours(proxy: Proxy, s3_store: MakeStore, size: int) -> None:
    store = s3_store(through(proxy))
    proxy.fail("lose", times=1, only="PUT" if size < 10 else "POST")
    assert store.objects.create("a", BIG[:size])
    proxy.fail("lose", times=1, only="PUT")
    assert not store.objects.create("a", b"another")
    assert store.objects.get("a") == BIG[:size]


def refused(store: Store, *words: str) -> None:
    """prepare() says so, and nothing secret."""
    with pytest.raises(InputError) as raised:
        store.prepare()
    message = str(raised.value)
    assert message.startswith(f"store={store.root}: ") or message.startswith("s3: "), message
    assert all(word in message for word in words), message
    assert SECRET not in message
    assert KEY not in message


def test_a_missing_bucket(moto: Access) -> None:
    refused(Store("s3://never-made/x", moto.storage()), "there is no bucket 'never-made'", "create it")


def test_wrong_credentials(swift: Swift, s3_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = s3_store(swift.access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    refused(store, "refuses the credentials (SignatureDoesNotMatch")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    refused(store, "(", "HTTP 403")
    with pytest.raises(StageError, match="HTTP 403"):
        store.objects.put("x", b"")


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_no_credentials_or_half_of_them(moto: Access, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(name)
    refused(Store("s3://some-bucket/x", moto.storage()), "no credentials were found")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    refused(Store("s3://some-bucket/y", moto.storage()), "AWS_PROFILE")


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_credentials_with_a_line_end(moto: Access, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, f"{SECRET}\nx")
    refused(Store("s3://some-bucket/x", moto.storage()), "line ends in the credentials")
    with pytest.raises(StageError, match="line ends in the credentials") as raised:
        Store("s3://some-bucket/x", moto.storage()).objects.get("x")
    assert SECRET not in str(raised.value)


def test_a_wrong_endpoint(swift: Swift) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    refused(Store("s3://some-bucket/x", StorageSettings(endpoint=nobody)), nobody, "no connection")
    refused(Store("s3://some-bucket/x", StorageSettings(endpoint="http://no.such.host.invalid")), "no connection")


@pytest.mark.slow
def test_an_endpoint_that_does_not_speak_s3() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html><p>hello")

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    refused(Store("s3://some-bucket/x", StorageSettings(endpoint=url)), url)
    refused(
        Store("s3://some-bucket/x", StorageSettings(endpoint=url.replace("http:", "https:"))), "no secure connection"
    )
    server.shutdown()
    server.server_close()


def test_without_boto3_the_extra_is_named(moto: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtraError, match=r"rat_ray\[s3\]"):
        Store("s3://some-bucket/without", moto.storage()).prepare()


def test_no_secret_in_anything_that_travels(moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(moto)
    store.prepare()
    table = import_table(store, "questions", "k", "q", tables.QUESTIONS, lambda: iter([questions(3)]))
    lease = store.lease("questions", "k", "test")
    for thing in (store, table, store.storage):
        for secret in (SECRET, KEY):
            assert secret not in repr(thing)
            assert secret.encode() not in pickle.dumps(thing)
    assert SECRET not in repr(store.objects) + repr(lease)
    everything = b"".join(store.objects.get(entry.name) for entry in store.objects.walk())
    assert SECRET.encode() not in everything
    assert KEY.encode() not in everything
    lease.release()  # type: ignore[union-attr]


def test_a_store_works_without_prepare_and_in_another_prefix(moto: Access, s3_store: MakeStore) -> None:
    store = s3_store(moto)
    bucket, _ = split_address(store.root)
    beside = Store(f"s3://{bucket}/pre/fix-2", store.storage)
    whole = Store(f"s3://{bucket}", store.storage)
    beside.objects.put("a", b"1")
    store.objects.put("b", b"2")
    assert [entry.name for entry in store.objects.walk()] == ["b"]
    assert [entry.name for entry in whole.objects.walk()] == ["pre/fix-2/a", "pre/fix/b"]
    assert whole.objects.children("pre") == ["fix", "fix-2"]
