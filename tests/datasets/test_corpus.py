"""The one pass over a corpus: what it holds of each passage, and how it finds ids that occur twice."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from rat_ray.datasets.corpus import Corpus, Passage, _doubled
from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

PASSAGES = 300_000
# Made and read in a process of its own: what others of this one have used hides what the corpus takes.
MEASURE = """
import resource, sys
from pathlib import Path
from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.wikipedia import CorpusSettings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def read(name):
    corpus = CorpusSettings(files=[name]).open(Path(sys.argv[1]))
    lookup = Lookup()
    for number in range(100):
        lookup.need(Needed(title=f"Page {number}", passage_id=str(number), texts=("some text",)))
    count = corpus.check(Problems("x"), lookup)
    assert count == sum(batch.num_rows for batch in corpus.stream())
    return count

read("small.tsv")
before = peak()
count = read("large.tsv")
print(count, peak() - before)
"""


def write(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.write("id\ttext\ttitle\n")
        file.writelines(f"{n}\tsome text of passage {n} {'and more ' * 8}\tPage {n // 6}\n" for n in range(count))


def test_memory_grows_by_less_than_32_bytes_a_passage(tmp_path: Path) -> None:
    write(tmp_path / "small.tsv", 20_001)
    write(tmp_path / "large.tsv", PASSAGES)
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=True)
    count, grown = map(int, done.stdout.split())
    assert count == PASSAGES
    assert grown < 32 * PASSAGES


def corpus(folder: Path, *files: list[str]) -> Corpus:
    for number, ids in enumerate(files):
        text = "".join(json.dumps({"id": name, "text": "old"}) + "\n" for name in ids)
        (folder / f"{number}.jsonl").write_text(text)
    return CorpusSettings(files=["*.jsonl"]).open(folder)


def test_a_doubled_id_names_both_places(tmp_path: Path) -> None:
    opened = corpus(tmp_path, ["a", "b", "c"], ["d", "b"])
    with pytest.raises(InputError) as caught:
        opened.check(Problems("x"), Lookup())
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / '1.jsonl'}:2: the passage id 'b' occurs a second time")
    assert f"(first in {tmp_path / '0.jsonl'}:2)" in message


def test_equal_hashes_of_different_ids_are_no_doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rat_ray.datasets.corpus.hash", lambda name: ord(name[0]), raising=False)
    assert corpus(tmp_path, ["a1", "a2", "b1"]).check(Problems("x"), Lookup()) == 3
    with pytest.raises(InputError, match="'a2' occurs a second time"):
        corpus(tmp_path, ["a1", "a2", "b1", "a2"]).check(Problems("x"), Lookup())


def test_doubled_values_are_found_across_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    for stretch in (1, 2, 3, 100):
        monkeypatch.setattr("rat_ray.datasets.corpus._COMPARED", stretch)
        assert _doubled(array("q", [5, -3, 9, 5, 7, 7, 7, -3, 1])) == {5, 7, -3}
        assert _doubled(array("q", [4])) == set()


def test_only_what_is_asked_for_is_kept_and_texts_only_where_they_are_needed() -> None:
    lookup = Lookup()
    lookup.need(Needed(title="A"))
    lookup.need(Needed(title="B", texts=("x",)))
    lookup.need(Needed(passage_id="7"))
    for number, title in enumerate("AABBC"):
        lookup.look(Passage(Place(Path("f"), number), str(number), title, f"text {number}"))
    assert [(held.passage_id, held.text) for held in lookup.find(Needed(title="A"))[0]] == [("0", None), ("1", None)]
    assert [held.text for held in lookup.find(Needed(title="B"))[0]] == ["text 2", "text 3"]
    assert not lookup.has("7")


@pytest.mark.parametrize("change", ["text", "order", "less"])
def test_a_change_between_check_and_use_is_found_in_its_file(tmp_path: Path, change: str) -> None:
    opened = corpus(tmp_path, ["a", "b"], ["c", "d"])
    opened.check(Problems("x"), Lookup())
    path = tmp_path / "0.jsonl"
    rows = path.read_text().splitlines(keepends=True)
    changed = {"text": [rows[0].replace("old", "new"), rows[1]], "order": rows[::-1], "less": rows[:1]}[change]
    path.write_text("".join(changed))
    with pytest.raises(InputError, match=r"0\.jsonl: the file has changed"):
        list(opened.stream())
