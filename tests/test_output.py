"""The `out` folder or prefix belongs to one job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray.errors import InputError
from rat_ray.output import OutFiles, OutFolder, below, parent_of
from rat_ray.store import StorageSettings
from tests.servers import Access, moto


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    pytest.importorskip("boto3")
    with moto(tmp_path_factory.mktemp("moto")) as access, pytest.MonkeyPatch.context() as patch:
        for name, value in access.environment().items():
            patch.setenv(name, value)
        access.client().create_bucket(Bucket="bucket")
        yield access


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, StorageSettings]:
    """A new place for an `out`."""
    if request.param == "folder":
        return str(tmp_path / "out"), StorageSettings()
    access: Access = request.getfixturevalue("server")
    return f"s3://bucket/{tmp_path.name}/out", access.storage(patience=10.0)


def out_at(place: tuple[str, StorageSettings], seed: int = 1, kind: str = "fit", inside: str = "") -> OutFolder:
    url = below(place[0], inside) if inside else place[0]
    return OutFolder(url, {"seed": seed}, kind, in_sweep=bool(inside), storage=place[1])


def test_of_two_jobs_at_once_the_first_gets_the_folder(place: tuple[str, StorageSettings]) -> None:
    first = out_at(place)

    class Second(OutFolder):
        def check(self) -> None:
            super().check()
            first.claim()  # comes in between the check and the claim

    with pytest.raises(InputError, match=r"other settings \(seed\)"):
        Second(place[0], {"seed": 2}, kind="fit", storage=place[1]).claim()
    run = OutFiles(*place).run()
    assert run is not None
    assert run["settings"] == {"seed": 1}


def test_a_job_finds_its_own_folder_again_and_no_other_does(place: tuple[str, StorageSettings]) -> None:
    out_at(place).check()
    assert OutFiles(*place).run() is None, "a check leaves nothing"
    out_at(place).claim()
    out_at(place).finish({"notes": ["é"]})
    out_at(place).claim()
    assert (OutFiles(*place).run() or {})["status"] == "running"
    with pytest.raises(InputError, match=r"other settings \(seed\); give another out="):
        out_at(place, seed=2).claim()
    with pytest.raises(InputError, match="holds the results of `rat-ray fit`"):
        out_at(place, kind="compare").claim()


def test_a_complete_run_is_known_again_by_what_it_was_made_of_and_by_its_files(
    place: tuple[str, StorageSettings],
) -> None:
    def write(made_of: str = "x") -> None:
        out = out_at(place)
        out.claim()
        out.write_text("report.html", "report")
        out.write_table("a/b.parquet", pa.table({"x": [1]}))
        out.finish({"notes": []}, made_of)

    def held(made_of: str = "x") -> bool:
        out = out_at(place)
        out.claim()
        found = out.holds(made_of)
        if found:
            out.finish({}, made_of)
        return found

    write()
    assert held()
    assert held(), "also after a run that wrote nothing itself"
    assert not held("y")
    assert not held(), "the run before was not completed"
    write()
    OutFiles(*place).write_text("report.html", "reqort")
    assert not held(), "a file was changed"
    write()
    OutFiles(*place).delete(["a/b.parquet"])
    assert not held(), "a file is missing"


def test_what_is_not_ours_is_left_alone(place: tuple[str, StorageSettings]) -> None:
    files = OutFiles(*place)
    files.objects.prepare()
    files.write_text("thesis.txt", "mine")
    with pytest.raises(InputError, match="not made by rat-ray"):
        out_at(place).claim()
    with pytest.raises(InputError, match="not made by rat-ray"):
        out_at(place, inside="job").claim()  # the sweep's folder is not ours either
    assert files.objects.get("thesis.txt") == b"mine"
    assert [entry.name for entry in files.objects.walk()] == ["thesis.txt"]


def test_the_jobs_of_a_sweep_lie_in_a_folder_that_the_sweep_owns(place: tuple[str, StorageSettings]) -> None:
    for seed in (1, 2):
        out_at(place, seed, inside=f"job{seed}").claim()
    root = OutFiles(*place)
    assert root.folders() == ["job1", "job2", "run.json"]
    assert (root.run() or {})["kind"] == "sweep"
    assert (root.inside("job2").run() or {})["settings"] == {"seed": 2}
    assert root.inside("job2").name == "job2"


def test_a_folder_in_the_place_of_run_json_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    (tmp_path / "run.json" / "x").write_text("")
    with pytest.raises(InputError, match="not made by rat-ray"):
        OutFolder(tmp_path, {}, kind="fit").check()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="is a file; give a folder"):
        OutFolder(tmp_path / "out", {}, kind="fit").check()


def test_an_address_that_leads_nowhere_is_told_as_out(server: Access) -> None:
    with pytest.raises(InputError, match=r"^out=s3://nowhere/x: .*there is no bucket 'nowhere'.*check out="):
        OutFolder("s3://nowhere/x", {}, "fit", storage=server.storage()).check()
    with pytest.raises(InputError, match="holds no credentials") as caught:
        OutFolder("s3://key:planted@bucket/x", {}, "fit", storage=server.storage())
    assert "planted" not in str(caught.value)


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out = OutFolder("here", {}, kind="fit")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    out.claim()
    assert (tmp_path / "here" / "run.json").is_file()
    assert out.url == "here"


def test_what_holds_an_out() -> None:
    assert [parent_of(url) for url in ("a/b", "a", "/a/b/", "s3://b/x/y", "s3://b/x/")] == [
        *("a", ".", "/a", "s3://b/x", "s3://b")
    ]


def test_files_that_changed_are_told_from_settings_that_did(tmp_path: Path) -> None:
    def job(seed: int, digest: str) -> OutFolder:
        return OutFolder(str(tmp_path / "out"), {"seed": seed, "sources": {"handbook": digest}}, "evaluate")

    job(1, "a").claim()
    with pytest.raises(InputError, match="over other files: those of dataset handbook have changed since"):
        job(1, "b").check()
    with pytest.raises(InputError, match=r"other settings \(seed, sources\.handbook\)"):
        job(2, "b").check()
