"""`rat-ray store`: what is shown is what manifests say, and what is removed is never part of a table."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.commands import Context
from rat_ray.errors import InputError, StageError
from rat_ray.keys import digest_of
from rat_ray.output import OutFolder
from rat_ray.settings import build
from rat_ray.stage import Runs, import_table
from rat_ray.store import Lease, StorageSettings, Store, Table, part_name
from rat_ray.store.gc import Survey, remove, store_clock, survey
from rat_ray.store.show import Known, explain, table_lines, tree_lines
from rat_ray.storing import StoreSettings, run
from tests.commandline import everything_under, refuse_here, succeed
from tests.servers import Access, moto
from tests.test_stage import echo, questions

DAY = 86400.0
KEY, SECRET = "planted-key-4711", "planted-secret-4711"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    pytest.importorskip("boto3")
    with moto(tmp_path_factory.mktemp("moto")) as started, pytest.MonkeyPatch.context() as patch:
        access = started._replace(key=KEY, secret=SECRET)  # it takes any
        for name, value in access.environment().items():
            patch.setenv(name, value)
        access.client().create_bucket(Bucket="bucket")
        yield access


@pytest.fixture
def s3_store(server: Access) -> Store:
    made = Store(f"s3://bucket/{uuid.uuid4().hex}", server.storage(patience=10.0, multipart_mb=5))
    made.prepare()
    return made


def two_tables(store: Store) -> tuple[Table, Table]:
    """An imported table, and one that a stage made of it in three parts."""
    whole = questions(20)
    key = digest_of("questions")
    first = import_table(store, "questions", key, "some questions", tables.QUESTIONS, lambda: iter([whole]))
    runs = Runs(store, Cluster(ClusterSettings(use="never")), seed=7, quiet=True)
    [second] = runs.run([echo(first)], "echo")
    return first, second


def age(store: Store, days: float, below: str = "") -> None:
    """Make everything in a folder older."""
    for path in (Path(store.root) / below).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - days * DAY
            os.utime(path, (then, then))


def put(store: Store, name: str, data: bytes = b"x", days: float = 0.0) -> str:
    """Write a file behind the store's back."""
    path = Path(store.root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (path.stat().st_mtime - days * DAY,) * 2)
    return name


def unfinished(store: Store, ranges: int = 2, days: float = 2.0) -> str:
    """A table of which some parts were written when its job died."""
    key = uuid.uuid4().hex
    for start in range(0, 10 * ranges, 10):
        store.write_part("answers", key, start, start + 10, questions(10), tables.QUESTIONS)
    store.fix_ranges("answers", key, [(0, 10), (10, 20), (20, 30)])
    age(store, days, f"answers/{key}")
    return f"answers/{key}"


def names(found: Survey) -> set[str]:
    whole = {f"{folder.where}/{entry.name}" for folder in found.unfinished for entry in folder.entries}
    return {one.name for one in found.garbage} | whole


def orphan(table: Table) -> str:
    """The name of a part that no manifest names."""
    return f"{table.table}/{table.key}/{part_name(0, 8, 8, '0123456789abcdef')}"


# --- gc: a folder -----------------------------------------------------------------------------------------------------


def test_what_no_manifest_names_is_found_and_removed_and_tables_stay_whole(store: Store) -> None:
    first, second = two_tables(store)
    age(store, 2)
    folder = f"{second.table}/{second.key}"
    listed = part_name(0, 8, 8, "fedcba9876543210", files=True).removesuffix(".files")
    garbage = {
        put(store, orphan(second), days=2),
        put(store, f"{folder}/{part_name(0, 8, 8, 'a' * 16, files=True)}", days=2),
        put(store, f"{folder}/{listed}/index.bin", days=2),  # its list was never written
        put(store, f"{folder}/piece-{0:012d}-{8:012d}-{0:012d}-{4:012d}.parquet", days=2),
        put(store, f"{folder}/.tmp-{uuid.uuid4().hex}", days=2),
        put(store, f"{folder}/.scratch-{uuid.uuid4().hex}/deep/er.bin", days=2),
        put(store, f"{folder}/.lease/{uuid.uuid4().hex}.json", days=2),
        put(store, f"{folder}/.lock", days=2),
        put(store, f".tmp-{uuid.uuid4().hex}", days=2),
        put(store, f".writer/{uuid.uuid4().hex}.json", days=2),
    }
    kept = {
        put(store, f"{folder}/{part_name(8, 16, 8, 'b' * 16)}"),  # young
        put(store, f"{folder}/.tmp-{uuid.uuid4().hex}", days=0.9),
        put(store, f"{folder}/notes.txt", days=9),  # a person's own, wherever it lies
        put(store, "thesis/chapter.parquet", days=9),
        put(store, f"thesis/{uuid.uuid4().hex}/chapter.parquet", days=9),
        put(store, "part-of-my-work", days=9),
    }
    before = everything_under(Path(store.root))
    found = survey(store, DAY)
    assert names(found) == garbage
    assert everything_under(Path(store.root)) == before, "a survey changes nothing"
    assert remove(store, found) == []
    assert everything_under(Path(store.root)) == {name: facts for name, facts in before.items() if name not in garbage}
    assert kept <= set(everything_under(Path(store.root)))
    assert not (Path(store.root) / folder / listed).exists(), "nor an empty folder"
    assert first.read().equals(questions(20))
    assert second.read().num_rows == 20
    assert names(survey(store, DAY)) == set()


def test_files_that_a_manifest_names_stay(store: Store) -> None:
    scratch = store.scratch_folder("index", digest_of("index"))
    (scratch / "deep").mkdir()
    (scratch / "deep" / "a.bin").write_bytes(b"a")
    part = store.write_folder("index", digest_of("index"), 0, 5, scratch)
    facts = {"digest": "d", "rows": 5, "files": True, "parts": [part._asdict()]}
    table = store.commit("index", digest_of("index"), facts)
    age(store, 30)
    remove(store, survey(store, DAY))
    [folder] = table.folders()
    assert (folder / "deep" / "a.bin").read_bytes() == b"a"


def test_unfinished_work_goes_only_when_all_of_it_is_old(store: Store) -> None:
    old, touched = unfinished(store), unfinished(store)
    put(store, f"{touched}/{part_name(20, 30, 10, 'c' * 16)}")
    found = survey(store, DAY)
    assert [folder.where for folder in found.unfinished] == [old]
    assert found.unfinished[0].rows == 20
    assert remove(store, found) == []
    assert not (Path(store.root) / old).exists()
    assert len(store.parts(*touched.split("/"))) == 3


def test_a_folder_with_a_live_lease_stays_and_one_with_a_dead_lease_goes(store: Store) -> None:
    leased, dead = unfinished(store), unfinished(store)
    put(store, f"{dead}/.lease/{uuid.uuid4().hex}.json", b"{}", days=2)
    lease = store.lease(*leased.split("/"), "a job")
    assert isinstance(lease, Lease)
    with lease:
        found = survey(store, 0.0)  # whatever its age
        assert [folder.where for folder in found.unfinished] == [dead]
        assert found.kept == [f"{leased[:16]}: a job is at work on it"]
        remove(store, found)
    assert not (Path(store.root) / dead).exists()
    assert len(store.parts(*leased.split("/"))) == 2


def test_the_claim_of_a_live_sole_writer_stays(store: Store) -> None:
    lease = store.sole_writer("a job")
    assert isinstance(lease, Lease)
    with lease:
        age(store, 1 / DAY, ".writer")  # older than the limit of nothing, by any clock
        found = survey(store, 0.0)
        assert names(found) == set()
        assert found.kept == ["the store itself: a job is its only writer"]
        age(store, 400 / DAY, ".writer")
        assert names(survey(store, 0.0)) == set()
        age(store, 400 / DAY, ".writer")
        assert len(names(survey(store, 0.0))) == 1, "it has been silent for long"


def test_a_claim_that_says_it_lives_longer_is_believed(store: Store) -> None:
    patient = Store(store.root, StorageSettings(lease_seconds=7200.0))
    where = unfinished(store)
    lease, writer = patient.lease(*where.split("/"), "a job"), patient.sole_writer("a job")
    assert isinstance(lease, Lease)
    assert isinstance(writer, Lease)
    with lease, writer:
        for below in (f"{where}/.lease", ".writer"):
            age(store, 1000 / DAY, below)
        found = survey(store, 0.0)
        assert names(found) == set()
        assert len(found.kept) == 2


def test_a_lock_stays_beside_a_job_that_runs(store: Store) -> None:
    where = unfinished(store)
    lock = put(store, f"{where}/.lock", b"", days=2)
    lease = store.lease(*where.split("/"), "a job")
    assert isinstance(lease, Lease)
    with lease:
        assert names(survey(store, DAY)) == set()
    found = survey(store, DAY)
    assert lock in names(found)
    remove(store, found)
    assert not (Path(store.root) / where).exists()


def test_work_that_begins_between_listing_and_removing_is_not_lost(store: Store) -> None:
    leased, resumed, finished = (unfinished(store) for _ in range(3))
    found = survey(store, DAY)
    assert len(found.unfinished) == 3
    store.write_part(*resumed.split("/"), 20, 30, questions(10), tables.QUESTIONS)
    facts = {"digest": "d", "rows": 20, "files": False}
    parts = [part._asdict() for part in store.parts(*finished.split("/"))]
    table = store.commit(*finished.split("/"), {**facts, "parts": parts})
    lease = store.lease(*leased.split("/"), "a job")
    assert isinstance(lease, Lease)
    with lease:
        said = sorted(remove(store, found))
    assert len(said) == 3
    assert sum("a job has worked on it meanwhile" in line for line in said) == 2
    assert sum(f"process {os.getpid()} on " in line for line in said) == 1
    assert len(store.parts(*leased.split("/"))) == 2
    assert len(store.parts(*resumed.split("/"))) == 3
    assert table.read().num_rows == 20


@pytest.mark.parametrize("how", ["half", "parts", "rows", "folder", "empty folder"])
def test_nothing_goes_where_a_manifest_cannot_be_read(store: Store, how: str) -> None:
    _, second = two_tables(store)
    put(store, orphan(second))
    spoil(store, second, how)
    age(store, 9)
    before = everything_under(Path(store.root))
    found = survey(store, DAY)
    assert names(found) == set()
    assert "its manifest cannot be read" in found.kept[0]
    remove(store, found)
    assert everything_under(Path(store.root)) == before


def spoil(store: Store, table: Table, how: str) -> None:
    """Damage its manifest."""
    path = Path(store.root) / table.table / table.key / "manifest.json"
    manifest = json.loads(path.read_bytes())
    few = [{"name": part["name"]} for part in manifest["parts"]]
    texts = {
        "half": "{ half of",
        "parts": json.dumps({"parts": few[:1]}),
        "rows": json.dumps({**manifest, "rows": "x"}),
        "inputs": json.dumps({**manifest, "inputs": {"questions": 5}}),
    }
    if how in texts:
        path.write_text(texts[how])
        return
    path.unlink()
    path.mkdir()
    if how == "folder":
        (path / "x").write_text("x")


# --- gc: S3 -----------------------------------------------------------------------------------------------------------


def begin_upload(server: Access, key: str) -> str:
    client = server.client()
    upload = client.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
    client.upload_part(Bucket="bucket", Key=key, PartNumber=1, UploadId=upload, Body=b"x" * 1000)
    return str(upload)


def uploads(server: Access) -> set[str]:
    return {one["Key"] for one in server.client().list_multipart_uploads(Bucket="bucket").get("Uploads", [])}


def test_on_s3_uploads_that_were_never_completed_go_too(server: Access, s3_store: Store) -> None:
    prefix = s3_store.root.removeprefix("s3://bucket/")
    _, second = two_tables(s3_store)
    s3_store.objects.put(orphan(second), b"x")
    key = uuid.uuid4().hex
    s3_store.write_part("answers", key, 0, 10, questions(10), tables.QUESTIONS)
    ours = f"{prefix}/{orphan(second)}"
    others = {f"{prefix}-other/{orphan(second)}", f"{prefix}/somebody/elses.bin"}
    for one in (ours, *others):
        begin_upload(server, one)
    assert names(survey(s3_store, 300.0)) == set(), "all is young"
    time.sleep(1.1)  # the server's clock counts whole seconds
    found = survey(s3_store, 0.0)
    assert {(one.kind, one.name) for one in found.garbage} == {("part", orphan(second)), ("upload", orphan(second))}
    assert [folder.where for folder in found.unfinished] == [f"answers/{key}"]
    assert remove(s3_store, found) == []
    assert uploads(server) & {ours, *others} == others
    assert second.read().num_rows == 20
    assert [entry.name for entry in s3_store.objects.walk("answers/")] == []
    assert names(survey(s3_store, 0.0)) == set()


def test_the_stores_clock_is_asked_and_nothing_is_left(store: Store, s3_store: Store) -> None:
    for one in (store, s3_store):
        earlier = store_clock(one.objects)
        time.sleep(1.1)
        assert store_clock(one.objects) > earlier
        assert list(one.objects.walk()) == []


# --- show -------------------------------------------------------------------------------------------------------------


def known(table: Table) -> Known:
    return Known(table.table, table.key, 1234, len(table.parts), table.manifest)


def test_every_fact_of_a_manifest_is_told(store: Store) -> None:
    first, second = two_tables(store)
    said = "\n".join(explain(known(second), 120))
    assert f"verdicts {second.key}" in said
    assert "20 rows in, 20 rows, 3 parts, 1.2 kB" in said
    assert re.search(r"^seed +7$", said, re.MULTILINE)
    assert second.manifest["who"] in said
    assert str(second.manifest["git"]["commit"] or "") in said
    assert f"pyarrow {pa.__version__}" in said
    assert json.dumps(second.manifest["settings"]) in said
    tree = tree_lines(known(second), {one.key: known(one) for one in (first, second)}, 120)
    assert [line.split(":")[0] for line in tree] == [
        f"{second.key[:8]} verdicts echo",
        f"└─ {first.key[:8]} questions some questions",
    ]


def test_an_input_that_is_shown_already_is_not_opened_again_and_a_lost_one_is_named() -> None:
    def made(key: str, *inputs: str) -> Known:
        given = {name: {"table": "t", "key": name * 32, "digest": ""} for name in inputs}
        return Known("t", key * 32, 0, 1, {"label": key, "rows": 1, "inputs": given})

    all_of_them = {one.key: one for one in (made("a", "b", "c"), made("b", "c"), made("c", "d"))}
    tree = tree_lines(all_of_them["a" * 32], all_of_them, 120)
    assert [line.split(":")[0] for line in tree] == [
        "aaaaaaaa t a",
        "├─ bbbbbbbb t b",
        "│  └─ cccccccc t c",
        "│     └─ dddddddd t (not in this store)",
        "└─ cccccccc t c (above)",
    ]


def test_lines_fit_and_old_manifests_are_shown() -> None:
    inputs = {f"a long name {index}": {"table": "t", "key": str(index) * 32} for index in range(9)}
    facts = {"label": "x" * 300, "rows": 10**9, "finished": "2026-11-30T14:02:11+00:00"}
    new = Known("annotations", "f" * 32, 10**15, 9999, {**facts, "inputs": inputs, "host": "h" * 99})
    old = Known("passages", "e" * 32, 5, 1, {"digest": "d"})
    lines = table_lines([old, new], 120)
    assert len(lines) == 4
    assert max(map(len, lines)) <= 120
    assert "1,000,000,000" in lines[2]
    assert max(map(len, [*explain(new, 120), *explain(old, 120)])) <= 120


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action": "gcc"}, "did you mean 'gc'"),
        ({"delete": True}, "delete=true goes with"),
        ({"action": "gc", "table": "answers"}, "gc looks through the whole store"),
        ({"store": " "}, "store: must be given"),
        ({"action": "gc", "older_than_hours": -1}, "0 or more"),
        ({"action": "gc", "older_than_hours": float("nan")}, "0 or more"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(StoreSettings, {"storage": {}, **settings})


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_shows_lists_and_removes(store: Store, tmp_path: Path) -> None:
    first, second = two_tables(store)
    left = unfinished(store)
    put(store, orphan(second), days=2)
    stages = [{"key": second.key, "table": second.table, "label": "echo"}]
    out = OutFolder(tmp_path / "out", {}, kind="evaluate")
    out.claim()
    out.finish({"store": store.root, "stages": stages})
    shown = succeed("store", "show", "store=store", cwd=tmp_path)
    assert first.key[:8] in shown
    assert f"from questions {first.key[:8]}" in shown
    assert "unfinished: 1 tables with 20 rows done" in shown
    of_run = succeed("store", "show", "run=out", cwd=tmp_path)
    assert first.key[:8] in of_run, "what its tables were made from belongs to it"
    assert "unfinished" not in of_run
    tree = succeed("store", "show", "run=out", f"key={second.key[:6]}", cwd=tmp_path)
    assert f"└─ {first.key[:8]} questions" in tree
    before = everything_under(tmp_path)
    listed = succeed("store", "gc", "store=store", cwd=tmp_path)
    assert everything_under(tmp_path) == before
    assert f"answers/{left.split('/')[1][:8]}" in listed
    assert "20 rows of work that a rerun would reuse" in listed
    assert "delete=true" in listed
    assert "removed: 4 objects" in succeed("store", "gc", "store=store", "delete=true", cwd=tmp_path)
    assert set(before) - set(everything_under(tmp_path)) == {
        f"store/{name}" for name in (orphan(second), *(name[6:] for name in before if name.startswith(f"store/{left}")))
    }
    assert "nothing to remove" in succeed("store", "gc", "store=store", cwd=tmp_path)
    assert "there are no tables" in refuse_here("store", "gc", "store=elsewhere", cwd=tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert "did you mean 'show'" in refuse_here("store", "shwo", "store=store", cwd=tmp_path)


def test_the_command_shows_a_store_in_which_nothing_is_finished(store: Store, tmp_path: Path) -> None:
    unfinished(store)
    for words in ((), ("table=answers",)):
        said = succeed("store", "show", "store=store", *words, cwd=tmp_path)
        assert "no table is finished here" in said
        assert "unfinished: 1 tables with 20 rows done" in said
    assert "did you mean 'answers'" in refuse_here("store", "show", "store=store", "table=answer", cwd=tmp_path)


@pytest.mark.parametrize("how", ["half", "rows", "inputs", "folder"])
def test_a_damaged_manifest_does_not_hide_other_tables(
    store: Store, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two_tables(store)
    spoil(store, second, how)
    config = {"storage": {}, "store": store.root}
    show(config)
    said = capsys.readouterr().out
    assert "some questions" in said
    assert re.search(rf"^cannot be read: .*{second.key}/manifest.json is damaged", said, re.MULTILINE)
    show({**config, "key": first.key})
    assert "some questions" in capsys.readouterr().out
    with pytest.raises(StageError, match=r"manifest.json is damaged"):
        show({**config, "key": second.key[:9]})
    show({**config, "table": "questions"})
    assert "cannot be read" not in capsys.readouterr().out
    spoil(store, first, "half")
    show(config)
    assert capsys.readouterr().out.count("cannot be read: ") == 2


class NoOtherChoices:
    """`rat-ray store` asks for none."""

    def __call__(self, group: str, name: str) -> dict[str, Any]:
        raise AssertionError(group, name)

    def ahead(self, choices: Mapping[str, str]) -> None:
        raise AssertionError(choices)


def show(config: dict[str, Any]) -> None:
    run(Context(config, {}, NoOtherChoices(), False, ""))


def test_the_command_works_on_s3_and_no_credential_gets_out(server: Access, s3_store: Store, tmp_path: Path) -> None:
    two_tables(s3_store)
    said = succeed("store", "show", f"store={s3_store.root}", *server.overrides(), cwd=tmp_path)
    assert "some questions" in said
    said += succeed("store", "gc", f"store={s3_store.root}", *server.overrides(), cwd=tmp_path)
    elsewhere = f"store={s3_store.root}-elsewhere"
    assert "there are no tables" in refuse_here("store", "gc", elsewhere, *server.overrides(), cwd=tmp_path)
    stored = b"".join(s3_store.objects.get(entry.name) for entry in s3_store.objects.walk())
    for planted in (KEY, SECRET):
        assert planted not in said
        assert planted.encode() not in stored


def test_a_store_that_is_not_there_is_no_store(tmp_path: Path) -> None:
    assert StorageSettings() == build(StorageSettings, {})
    assert "there are no tables" in refuse_here("store", "show", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["show", "gc"])
def test_a_server_that_is_not_there_is_bad_input_in_seconds(
    tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    message = refuse_here("store", word, "store=s3://bucket/x", "storage.endpoint=http://127.0.0.1:1", cwd=tmp_path)
    assert "http://127.0.0.1:1" in message
